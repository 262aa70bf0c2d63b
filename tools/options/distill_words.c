/* distill_words.c - see distill_words.h. */
#include "tools/options/distill_words.h"

#include <string.h>

#include "tools/options/options.h"
#include "tools/options/scheme_spelling.h"

/* "tensor", "channel" or "group:64". False: none of these, or a group of 0. */
static bool granularity_of(const char *word, struct vc_quantize_options *o)
{
    unsigned long long size = 0;
    char end;

    o->granularity_given = true;
    o->granularity = strcmp(word, "tensor") == 0    ? VC_GRANULARITY_TENSOR
                     : strcmp(word, "channel") == 0 ? VC_GRANULARITY_CHANNEL
                                                    : VC_GRANULARITY_GROUP;
    if (o->granularity != VC_GRANULARITY_GROUP) {
        return true;
    }
    if (sscanf(word, "group:%9llu%c", &size, &end) != 1 || strspn(word + 6, "0123456789") == 0) {
        return false;
    }
    o->group_size = size;
    return size != 0;
}

/* The name up to the slash must be a scheme of the library's table; a granularity only goes with schemes that have
 * scales. */
const char *scheme_word(const char *value, struct vc_quantize_options *o)
{
    struct vc_quantize_scheme scheme;
    char spelled[SCHEME_BYTES];

    value = scheme_spelled(value, spelled);
    size_t n = strcspn(value, "/");
    for (size_t i = 0; vc_quantize_scheme_at(i, &scheme); i++) {
        if (strlen(scheme.name) == n && memcmp(scheme.name, value, n) == 0) {
            o->target = scheme.target;
            return value[n] == '\0' || (scheme.scales && granularity_of(value + n + 1, o)) ? scheme.name : NULL;
        }
    }
    return NULL;
}

/* bf16 and fp16 are f32 arithmetic with values rounded to halves. */
bool precision_word(const char *value, enum vc_graph_precision *precision, enum vc_half *half)
{
    static const struct {
        const char *word;
        enum vc_graph_precision precision;
        enum vc_half half;
    } words[] = {
        {"f32", VC_GRAPH_F32, VC_HALF_NONE},
        {"f64", VC_GRAPH_F64, VC_HALF_NONE},
        {"bf16", VC_GRAPH_F32, VC_HALF_BF16},
        {"fp16", VC_GRAPH_F32, VC_HALF_F16},
    };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(words[i].word, value) == 0) {
            *precision = words[i].precision;
            *half = words[i].half;
            return true;
        }
    }
    return false;
}

/* NULL behind the last: completions and sentences list the words by it. */
const char *task_word(size_t index)
{
    return vc_word(VC_WORDS_NET_TASK, (unsigned)index);
}

/* The same for losses. */
const char *loss_word(size_t index)
{
    return vc_teacher_loss_facts((enum vc_teacher_loss)index)->word;
}

/* A new loss without a temperature is a new term here. */
bool loss_has_temperature(enum vc_teacher_loss loss)
{
    return loss != VC_TEACHER_LOSS_MSE && loss != VC_TEACHER_LOSS_HUBER && loss != VC_TEACHER_LOSS_COSINE;
}
