/* name_use.c - vc_name_use of names.h: names of buffers, which modules keep beside their weights. They were gathered from
 * what PyTorch's modules register as buffers (transformers 5, timm, torchvision, diffusers, ultralytics, detectron2,
 * torchaudio, GPT-2 and its kin), and from what Flax and Keras keep outside of their parameters.
 *
 * It looks at the last word of a name and at the shape, never at values. */
#include <string.h>

#include "core/model/names.h"
#include "core/text/glob.h"

#define MAX_WORD ((size_t)64)

/* What else has to hold where a word alone could be that of a weight, too. */
enum shape_rule {
    ANY_SHAPE,
    POINTS,  /* an axis of two to four: coordinates, edges of a box. (Grids of learned features have channels there.) */
    WINDOWS, /* [1, 1, n], or [n, 1, k, k] with a small k: a filter for each channel, as for resampling */
    VECTOR   /* one axis at most is longer than 1 */
};

static struct vc_glob_set masks = {.n = 13,
                                   .globs = {"mask", "masks", "*_mask", "attn_mask*", "attention_mask*", "causal_mask*",
                                             "masked_bias", "*mask_value*", "tril", "triu", "eye", "alibi*", "slopes"}};
static struct vc_glob_set angles = {.n = 25,
                                    .globs = {"freqs",           "freqs_*",        "*freqs_cis*",   "*inv_freq*",
                                              "inv_timescales",  "*cos_cached",    "*sin_cached",   "*cos_cache",
                                              "*sin_cache",      "cos_sin_cache*", "*rope_cos",     "*rope_sin",
                                              "rope_cache",      "rope_freqs",     "cos",           "sin",
                                              "cos_emb",         "sin_emb",        "sinusoid_freq", "freq_bands",
                                              "frequency_bands", "slope_rate",     "query_decay",   "key_decay",
                                              "diagonal_decay"}};
static struct vc_glob_set places = {.n = 14,
                                    .globs = {"pe", "pos_table", "pos_enc*", "position_enc*", "positional_enc*",
                                              "*sinusoid*", "*sincos*", "*sin_cos*", "*relative_coords*",
                                              "*relative_position_index*", "*position_ids*", "attention_dists",
                                              "attention_bias_idxs", "position_angles"}};
static struct vc_glob_set anchors = {.n = 9,
                                     .globs = {"anchors", "*_anchors", "anchor_grid*", "anchor_points", "strides",
                                               "*_strides", "stride_tensor", "prior_boxes", "default_boxes"}};
static struct vc_glob_set grids = {
    .n = 10,
    .globs = {"grid", "grids", "*_grid", "*_grids", "coords", "coord_grid", "meshgrid", "priors", "dboxes*", "anchor"}};
static struct vc_glob_set signals = {
    .n = 21,
    .globs = {"window",      "*_window",    "mel_filter*",    "mel_basis",      "mel_fb*",        "fb",
              "fbank*",      "filterbank*", "filter_bank*",   "dct_mat*",       "dft_mat*",       "dct",
              "stft_basis*", "dft_basis*",  "forward_basis*", "inverse_basis*", "fourier_basis*", "cqt_kernel*",
              "wsin",        "wcos",        "*_buffer"}};
static struct vc_glob_set filters = {
    .n = 6, .globs = {"filt", "filter", "resample_filter", "lowpass_filter", "blur_filter", "blur_kernel"}};
static struct vc_glob_set earlier = {.n = 13,
                                     .globs = {"embed_avg", "embed_sum", "ema_w", "ema_embed*", "ema_cluster_size",
                                               "cluster_size", "cluster_usage", "codebook_usage", "queue", "queue_*",
                                               "memory_bank", "router_ema", "expert_usage"}};
static struct vc_glob_set schedules = {.n = 9,
                                       .globs = {"betas", "alphas", "alphas_*", "sqrt_*", "log_one_minus_*",
                                                 "posterior_*", "sigmas", "log_sigmas", "lvlb_weights"}};
static struct vc_glob_set inputs = {.n = 4, .globs = {"pixel_mean*", "pixel_std*", "image_mean", "image_std"}};
static struct vc_glob_set caches = {.n = 11,
                                    .globs = {"k_cache", "v_cache", "kv_cache", "cache_k", "cache_v", "key_cache*",
                                              "value_cache*", "cached_key", "cached_value", "past_key*",
                                              "past_value*"}};
static struct vc_glob_set decays = {
    .n = 8, .globs = {"a_log", "a_logs", "log_a_real", "a_imag", "log_dt", "inv_dt", "time_decay", "time_first"}};

/* In their order. `use` is what the model does with such a tensor, `reason` why it is no weight. */
static const struct row {
    struct vc_glob_set *words;
    enum shape_rule shape;
    enum vc_use use;
    const char *reason;
} rows[] = {{&masks, ANY_SHAPE, VC_USE_TABLE, "mask"},
            {&angles, ANY_SHAPE, VC_USE_TABLE, VC_SKIP_ROTARY},
            {&places, ANY_SHAPE, VC_USE_TABLE, "table of positions"},
            {&anchors, ANY_SHAPE, VC_USE_TABLE, "anchors or a grid"},
            {&grids, POINTS, VC_USE_TABLE, "anchors or a grid"},
            {&signals, ANY_SHAPE, VC_USE_TABLE, "filter or window of a signal"},
            {&filters, WINDOWS, VC_USE_TABLE, "filter or window of a signal"},
            {&earlier, ANY_SHAPE, VC_USE_TABLE, "statistics of training"},
            {&schedules, VECTOR, VC_USE_TABLE, "noise schedule"},
            {&inputs, ANY_SHAPE, VC_USE_TABLE, "mean or deviation of inputs"},
            {&caches, ANY_SHAPE, VC_USE_TABLE, "cache"},
            {&decays, ANY_SHAPE, VC_USE_TABLE, "decay of a state"}};

static bool is_vector(unsigned n_dims, const uint64_t *shape)
{
    unsigned n_long = 0;

    for (unsigned d = 0; d < n_dims; d++) {
        n_long += shape[d] > 1;
    }
    return n_long <= 1;
}

static bool has_points(unsigned n_dims, const uint64_t *shape)
{
    for (unsigned d = 0; d < n_dims; d++) {
        if (shape[d] >= 2 && shape[d] <= 4) {
            return true;
        }
    }
    return false;
}

static bool fits(enum shape_rule rule, unsigned n_dims, const uint64_t *shape)
{
    switch (rule) {
    case POINTS:
        return has_points(n_dims, shape);
    case WINDOWS:
        return (n_dims == 3 && shape[0] == 1 && shape[1] == 1) ||
               (n_dims == 4 && shape[1] == 1 && shape[2] == shape[3] && shape[2] <= 16);
    case VECTOR:
        return is_vector(n_dims, shape);
    case ANY_SHAPE:
        break;
    }
    return true;
}

/* The word in small letters, if it fits. */
static bool copy_word(const char *at, size_t n, char word[MAX_WORD])
{
    if (n == 0 || n >= MAX_WORD) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        word[i] = (char)(at[i] >= 'A' && at[i] <= 'Z' ? at[i] - 'A' + 'a' : at[i]);
    }
    word[n] = '\0';
    return true;
}

/* The causal mask of GPT-2, GPT-Neo and GPT-J is called as a bias is: [1, 1, n, n]. */
static bool is_triangle(const char *word, unsigned n_dims, const uint64_t *shape)
{
    return strcmp(word, "bias") == 0 && n_dims == 4 && shape[0] == 1 && shape[1] == 1 && shape[2] == shape[3] &&
           shape[2] > 1;
}

/* Words of most weights, and of masks that torch.nn.utils.prune keeps beside them. */
static bool is_weight(const char *word)
{
    return strstr(word, "weight") != NULL || strcmp(word, "kernel") == 0;
}

bool vc_name_is_state(const char *name)
{
    const char *word = strstr(name, "optim");
    const char *end = strchr(name, '.');

    if (word == NULL || end == NULL || word > end || strstr(end, ".state.") == NULL) {
        return false;
    }
    word += strlen("optim"); /* "optim_state_dict", "optimizer": "optimus" is a model */
    return word == end || *word == '_' || strncmp(word, "izer", strlen("izer")) == 0;
}

enum vc_use vc_name_use(const char *name, unsigned n_dims, const uint64_t *shape, const char **reason)
{
    char word[MAX_WORD];
    size_t n;
    const char *at = vc_name_variable(name, &n);

    *reason = NULL;
    if (!copy_word(at, n, word) || is_weight(word)) {
        return VC_USE_UNKNOWN;
    }
    if (is_triangle(word, n_dims, shape)) {
        *reason = "mask";
        return VC_USE_TABLE;
    }
    if (vc_name_is_statistic(name)) {
        *reason = "normalization";
        return VC_USE_NORM;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (vc_glob_set_find(rows[i].words, word) != SIZE_MAX && fits(rows[i].shape, n_dims, shape)) {
            *reason = rows[i].reason;
            return rows[i].use;
        }
    }
    if (n_dims >= 3 && is_vector(n_dims, shape)) {
        *reason = "a vector";
        return VC_USE_BIAS;
    }
    return VC_USE_UNKNOWN;
}
