/* distill_words.c - see distill_words.h. */
#include "tools/options/distill_words.h"

#include <stdio.h>
#include <string.h>

#include "tools/options/options.h"

static const struct {
    const char *name;
    enum vc_target target;
    bool scales; /* "/tensor", "/channel" or "/group:N" may follow */
} schemes[] = {{"int8", VC_TARGET_INT8, true},   {"int4", VC_TARGET_INT4, true},       {"fp8", VC_TARGET_FP8, true},
               {"mxfp8", VC_TARGET_MXFP8, true}, {"mxfp4", VC_TARGET_MXFP4, true},     {"nvfp4", VC_TARGET_NVFP4, true},
               {"int2", VC_TARGET_INT2, true},   {"int3", VC_TARGET_INT3, true},       {"int5", VC_TARGET_INT5, true},
               {"int6", VC_TARGET_INT6, true},   {"ternary", VC_TARGET_TERNARY, true}, {"nf4", VC_TARGET_NF4, true},
               {"fp4", VC_TARGET_FP4, true},     {"fp16", VC_TARGET_F16, false},       {"bf16", VC_TARGET_BF16, false}};

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

const char *scheme_word(const char *value, struct vc_quantize_options *o)
{
    size_t n = strcspn(value, "/");

    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        if (strlen(schemes[i].name) == n && memcmp(schemes[i].name, value, n) == 0) {
            o->target = schemes[i].target;
            return value[n] == '\0' || (schemes[i].scales && granularity_of(value + n + 1, o)) ? schemes[i].name : NULL;
        }
    }
    return NULL;
}

bool precision_word(const char *value, enum vc_graph_precision *precision, enum vc_half *half)
{
    int word = options_word(PRECISION_WORDS, value);

    *precision = word == 1 ? VC_GRAPH_F64 : VC_GRAPH_F32;
    *half = word == 2 ? VC_HALF_BF16 : word == 3 ? VC_HALF_F16 : VC_HALF_NONE;
    return word >= 0;
}
