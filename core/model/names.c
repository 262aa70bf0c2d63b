/* names.c - see names.h. */
#include "core/model/names.h"

#include <string.h>

#include "core/text/glob.h"

bool vc_name_is_module_weight(const char *name, size_t *n_path)
{
    size_t n = strlen(name);

    *n_path = n > 7 ? n - 7 : 0;
    return strcmp(name, "weight") == 0 || (n > 7 && strcmp(name + n - 7, ".weight") == 0);
}

bool vc_name_is_embedding(const char *name)
{
    static struct vc_glob_set set = {.n = 11,
                                     .globs = {"*embed*", "*Embed*", "wte.*", "*.wte.*", "wpe.*", "*.wpe.*",
                                               "shared.weight", "*.shared.weight", "emb.weight", "*.emb.weight",
                                               "*_emb.weight"}};

    return vc_glob_set_find(&set, name) != SIZE_MAX;
}

bool vc_name_is_embedding_table(const char *name)
{
    static struct vc_glob_set set = {
        .n = 15,
        .globs = {"*embed_tokens.weight", "*embeddings.weight", "*embedding.weight", "*embed_positions.weight",
                  "embed.weight", "*.embed.weight", "wte.weight", "*.wte.weight", "wpe.weight", "*.wpe.weight",
                  "shared.weight", "*.shared.weight", "emb.weight", "*.emb.weight", "*_emb.weight"}};

    /* Patches of pictures are not looked up, but multiplied. */
    return vc_glob_set_find(&set, name) != SIZE_MAX && strstr(name, "patch") == NULL;
}

bool vc_name_is_head(const char *name)
{
    static struct vc_glob_set set = {.n = 9,
                                     .globs = {"lm_head.*", "*.lm_head.*", "embed_out.*", "output.weight",
                                               "head.weight", "*.head.weight", "score.weight", "classifier.weight",
                                               "*.classifier.weight"}};

    return vc_glob_set_find(&set, name) != SIZE_MAX;
}

/* ---- words of a name ---- */

struct word {
    const char *at; /* not terminated */
    size_t n;
};

static bool ends_word(char c)
{
    return c == '.' || c == '/' || c == ':' || c == '[' || c == ']' || c == '(' || c == ')' || c == '\'' || c == '"';
}

/* The last word before `end`; n is 0 where there is none. */
static struct word word_before(const char *name, const char *end)
{
    while (end > name && ends_word(end[-1])) {
        end--;
    }
    const char *at = end;
    while (at > name && !ends_word(at[-1])) {
        at--;
    }
    return (struct word){at, (size_t)(end - at)};
}

static bool is_word(struct word word, const char *text)
{
    return word.n == strlen(text) && memcmp(word.at, text, word.n) == 0;
}

static bool word_ends(struct word word, const char *tail)
{
    size_t n = strlen(tail);

    return word.n >= n && memcmp(word.at + word.n - n, tail, n) == 0;
}

static bool word_has(struct word word, const char *text)
{
    size_t n = strlen(text);
    size_t i = 0;

    while (i + n <= word.n && memcmp(word.at + i, text, n) != 0) {
        i++;
    }
    return i + n <= word.n;
}

/* The word that names the variable: without Keras' ":0" and the ".value" of Flax's states. */
static struct word variable_of(const char *name)
{
    struct word word = word_before(name, name + strlen(name));

    if (is_word(word, "value") || (is_word(word, "0") && word.at > name && word.at[-1] == ':')) {
        word = word_before(name, word.at);
    }
    return word;
}

/* Lists of tensors count them behind the name: cell_anchors.0. */
const char *vc_name_variable(const char *name, size_t *n)
{
    struct word word = variable_of(name);

    if (word.n != 0 && strspn(word.at, "0123456789") >= word.n) {
        word = word_before(name, word.at);
    }
    *n = word.n;
    return word.at;
}

bool vc_name_is_statistic(const char *name)
{
    static const char *const words[] = {"running_mean", "running_var", "num_batches_tracked", "moving_mean",
                                        "moving_variance"};
    struct word last = variable_of(name);

    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++) {
        if (is_word(last, words[k])) {
            return true;
        }
    }
    return false;
}

/* conv2d_transpose, conv2d_transpose_3: what Keras calls such a layer, and Flax does not. */
static bool is_keras_transpose(struct word layer)
{
    return word_has(layer, "conv1d_transpose") || word_has(layer, "conv2d_transpose") ||
           word_has(layer, "conv3d_transpose");
}

/* - Of attention, query, key and value are [in, heads, size of a head]: a scale belongs to one axis, and neither of the
 *   last two alone is an output. Scales per input are as good as scales per output would be, and better than those
 *   along either axis of the outputs (docs/numerics.md).
 * - Keras has transposed convolutions as [height, width, out, in]; Flax has them as others.
 * - Depthwise kernels are [height, width, channels, 1] (Keras) or [height, width, 1, channels] (Flax). */
const char *vc_name_channel_axis(const char *name, unsigned n_dims, const uint64_t *shape, unsigned *axis)
{
    struct word variable = variable_of(name);
    struct word layer = word_before(name, variable.at);
    bool depthwise = word_has(variable, "depthwise") || word_has(layer, "depthwise");

    if (n_dims < 2 || !(is_word(variable, "kernel") || word_ends(variable, "_kernel"))) {
        return NULL;
    }
    if (n_dims == 3 && (is_word(layer, "query") || is_word(layer, "key") || is_word(layer, "value"))) {
        *axis = 0;
        return "scales per input: a kernel with its outputs on two axes";
    }
    if (n_dims > 2 && (is_keras_transpose(layer) || (depthwise && shape[n_dims - 2] > shape[n_dims - 1]))) {
        *axis = n_dims - 2;
        return depthwise ? "channels on the last axis but one: a depthwise kernel"
                         : "outputs on the last axis but one: a transposed kernel";
    }
    *axis = n_dims - 1;
    return "outputs on the last axis: a kernel by its name";
}

/* Letters are compared without their case. */
static bool has_text(const char *name, const char *text)
{
    size_t n = strlen(text);

    for (; *name != '\0'; name++) {
        size_t i = 0;

        while (i < n && ((unsigned)name[i] | 0x20u) == (unsigned)text[i]) {
            i++;
        }
        if (i == n) {
            return true;
        }
    }
    return false;
}

/* - Keras' transposed convolutions are [height, width, out, in], its depthwise kernels [height, width, in, multiplier]:
 *   each output of these reads one channel.
 * - Flax' and Keras' attention has [in, heads, size] and, for what comes out of it, [heads, size, out]; other kernels
 * of three axes may be either, unless they are of a convolution. */
static unsigned kernel_inputs(const char *name, unsigned n_dims, struct word variable, const char **why)
{
    struct word layer = word_before(name, variable.at);

    if (word_has(variable, "depthwise") || word_has(layer, "depthwise")) {
        *why = "a depthwise kernel, which sums over no channels";
        return VC_NO_INPUTS;
    }
    if (is_keras_transpose(layer)) {
        return n_dims;
    }
    if (is_word(layer, "query") || is_word(layer, "key") || is_word(layer, "value") || is_word(layer, "qkv")) {
        return 1;
    }
    if (n_dims > 3 || has_text(name, "conv") || is_word(layer, "out") || is_word(layer, "attention_output")) {
        return 0;
    }
    *why = "a kernel of three axes, of which the name does not tell the inputs";
    return VC_NO_INPUTS;
}

/* GGUF's stacked experts are [experts, out, in]; elsewhere they are that, or [experts, in, out]. Windows of
 * convolutions are short. */
unsigned vc_name_inputs(const char *name, unsigned n_dims, const uint64_t *shape, const char **why)
{
    struct word variable = variable_of(name);

    *why = NULL;
    if (n_dims < 3) {
        return 0;
    }
    if (is_word(variable, "kernel") || word_ends(variable, "_kernel")) {
        return kernel_inputs(name, n_dims, variable, why);
    }
    if (strstr(name, "_exps.") != NULL) {
        return n_dims;
    }
    if (has_text(name, "deconv") || has_text(name, "transpose")) {
        *why = "a transposed convolution by its name, whose groups are not known";
        return VC_NO_INPUTS;
    }
    if (n_dims == 3 && !has_text(name, "conv") && shape[2] > 31) {
        *why = "of three axes, and it is not known which are the inputs";
        return VC_NO_INPUTS;
    }
    return 0;
}

bool vc_name_is_conv1d(const char *name)
{
    static const char *const layers[] = {"c_attn", "c_proj", "c_fc", "q_attn"};
    struct word variable = word_before(name, name + strlen(name));
    struct word layer = word_before(name, variable.at);
    size_t i = 0;

    while (i < sizeof layers / sizeof layers[0] && !is_word(layer, layers[i])) {
        i++;
    }
    return is_word(variable, "weight") && i < sizeof layers / sizeof layers[0];
}

bool vc_name_is_quantized_part(const char *name)
{
    static struct vc_glob_set set = {.n = 23,
                                     .globs = {"*weight_packed",
                                               "*weight_scale",
                                               "*weight_scale_inv",
                                               "*weight_scale_2",
                                               "*weight_shape",
                                               "*weight_global_scale",
                                               "*weight_zero_point",
                                               "*weight_g_idx",
                                               "*input_scale",
                                               "*input_global_scale",
                                               "*input_zero_point",
                                               "*.output_scale",
                                               "*.output_zero_point",
                                               "*.SCB",
                                               "*.weight_format",
                                               "*.weight.absmax",
                                               "*.weight.quant_map",
                                               "*.weight.nested_*",
                                               "*.weight.quant_state.*",
                                               "*.qweight",
                                               "*.qzeros",
                                               "*.scales",
                                               "*.g_idx"}};

    return vc_glob_set_find(&set, name) != SIZE_MAX;
}

const char *const *vc_name_joined(const char *module, size_t n, size_t *n_base)
{
    static const char *const sets[][4] = {{"q_proj", "k_proj", "v_proj"},
                                          {"query", "key", "value"},
                                          {"wq", "wk", "wv"},
                                          {"gate_proj", "up_proj"},
                                          {"w1", "w3"},
                                          {"fc1", "fc3"},
                                          {"c_fc_0", "c_fc_1"},
                                          {"q_a_proj", "kv_a_proj_with_mqa"},
                                          {"in_proj_qkv", "in_proj_z"},
                                          {"in_proj_b", "in_proj_a"}};

    *n_base = n;
    while (*n_base > 0 && module[*n_base - 1] != '.') {
        (*n_base)--;
    }
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        for (size_t k = 0; sets[i][k] != NULL; k++) {
            if (strlen(sets[i][k]) == n - *n_base && memcmp(module + *n_base, sets[i][k], n - *n_base) == 0) {
                return sets[i];
            }
        }
    }
    return NULL;
}

bool vc_name_is_joined(const char *weight, const char *other)
{
    size_t n, n_other, n_base, n_other_base;
    const char *const *set;

    if (!vc_name_is_module_weight(weight, &n) || !vc_name_is_module_weight(other, &n_other)) {
        return false;
    }
    set = vc_name_joined(weight, n, &n_base);
    return set != NULL && vc_name_joined(other, n_other, &n_other_base) == set && n_base == n_other_base &&
           memcmp(weight, other, n_base) == 0;
}
