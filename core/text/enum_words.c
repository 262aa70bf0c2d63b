/* enum_words.c - the words for values of enumerations, in the order of their numbers: vc_word. */
#include <vcompress/word.h>

#include <stddef.h>

static const char *const tasks[] = {"auto", "classes", "tokens", "labels", "regression", "embeddings", "maps", "spans"};
static const char *const metrics[] = {NULL,  "accuracy", "agreement", "cross-entropy", "f1",         "r2",
                                      "mae", "mse",      "cosine",    "iou",           "exact-match"};
static const char *const answers[] = {"logits", "softmax", "logarithm", "sigmoid", "pair", "values", "sigmoids"};
static const char *const memory[] = {"parameters", "gradients",     "optimizer", "master",    "activations",
                                     "inputs",     "kv_cache",      "transient", "workspace", "context",
                                     "slack",      "communication", "teacher"};
static const char *const known[] = {"exact", "modelled", "assumed", "unknown"};
static const char *const verdicts[] = {"fits", "tight", "does not fit", "unknown"};
static const char *const levers[] = {"weights",   "prune", "cache",     "batch",   "context", "accumulation",
                                     "recompute", "amp",   "optimizer", "devices", "experts"};
static const char *const gpu_types[] = {"fp16", "bf16", "tf32", "int8", "int4", "fp8", "fp4", "2:4"};

const char *vc_word(enum vc_word_kind words, unsigned value)
{
#define LIST(list)                       \
    {                                    \
        list, sizeof list / sizeof *list \
    }
    static const struct {
        const char *const *list;
        size_t n;
    } all[] = {
        [VC_WORDS_NET_TASK] = LIST(tasks), [VC_WORDS_METRIC] = LIST(metrics),     [VC_WORDS_ANSWERS] = LIST(answers),
        [VC_WORDS_MEMORY] = LIST(memory),  [VC_WORDS_KNOWN] = LIST(known),        [VC_WORDS_VERDICT] = LIST(verdicts),
        [VC_WORDS_LEVER] = LIST(levers),   [VC_WORDS_GPU_TYPE] = LIST(gpu_types),
    };

    return (size_t)words < sizeof all / sizeof *all && value < all[words].n ? all[words].list[value] : NULL;
}
