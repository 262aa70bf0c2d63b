/* distill_words.c - see distill_words.h. */
#include "tools/options/distill_words.h"

#include <stdio.h>
#include <string.h>

#include "tools/options/options.h"

bool fake_quant_word(const char *value, struct vc_quantize_options *o)
{
    unsigned long long size = 0;
    char end;

    o->target = strcmp(value, "fp16") == 0   ? VC_TARGET_F16
                : strcmp(value, "bf16") == 0 ? VC_TARGET_BF16
                                             : VC_TARGET_INT8;
    if (o->target != VC_TARGET_INT8 || strcmp(value, "int8") == 0) {
        return true;
    }
    o->granularity_given = true;
    o->granularity = strcmp(value, "int8/tensor") == 0    ? VC_GRANULARITY_TENSOR
                     : strcmp(value, "int8/channel") == 0 ? VC_GRANULARITY_CHANNEL
                                                          : VC_GRANULARITY_GROUP;
    if (o->granularity == VC_GRANULARITY_GROUP) {
        if (sscanf(value, "int8/group:%9llu%c", &size, &end) != 1 || strspn(value + 11, "0123456789") == 0) {
            return false;
        }
        o->group_size = size;
    }
    return o->granularity != VC_GRANULARITY_GROUP || size != 0;
}

bool precision_word(const char *value, enum vc_graph_precision *precision, enum vc_half *half)
{
    int word = options_word(PRECISION_WORDS, value);

    *precision = word == 1 ? VC_GRAPH_F64 : VC_GRAPH_F32;
    *half = word == 2 ? VC_HALF_BF16 : word == 3 ? VC_HALF_F16 : VC_HALF_NONE;
    return word >= 0;
}
