/* word.h - the words for values of enumerations, as options, documents and tables have them.
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_WORD_H
#define VCOMPRESS_WORD_H

#include <vcompress/status.h>

VC_BEGIN_C

/* Numbers are stable. */
enum vc_word_kind {
    VC_WORDS_NET_TASK = 0, /* enum vc_net_task: "auto", "classes", ... */
    VC_WORDS_METRIC = 1,   /* enum vc_metric: "accuracy", ...; AUTO has no word */
    VC_WORDS_ANSWERS = 2,  /* enum vc_answer_kind: "logits", ... */
    VC_WORDS_MEMORY = 3,   /* enum vc_memory_kind: "parameters", ... */
    VC_WORDS_KNOWN = 4,    /* enum vc_known: "exact", ... */
    VC_WORDS_VERDICT = 5,  /* enum vc_verdict: "fits", "tight", "does not fit", "unknown" */
    VC_WORDS_LEVER = 6,    /* number of the bit in enum vc_lever: 0 is "weights" */
    VC_WORDS_GPU_TYPE = 7  /* number of the bit in enum vc_gpu_type: 0 is "fp16" */
};

/* The word for a value, a static string. Returns NULL if the value has no word: a program that lists words counts until
 * then, from 0 (METRIC: from 1) on. */
VC_API const char *vc_word(enum vc_word_kind words, unsigned value);

VC_END_C
#endif
