/* search_schemes.h - the types of weights that searches for "small enough" try: a row each, and the only list of them. plan
 * (search/recipes) and shrink take their candidates and the order of harm from here; who loads a type, and what it keeps on
 * the device, stands in the row. */
#pragma once

#include <vcompress/memory.h>
#include <vcompress/quantize.h>

#include "core/text/text.h"

/* By who loads them, as bits. */
enum vc_search_kind {
    VC_SEARCH_PLAIN = 1,        /* the usual layout of the output */
    VC_SEARCH_BITSANDBYTES = 2, /* codes that bitsandbytes keeps, where the usual loader of others decodes them */
    VC_SEARCH_FLOAT_CODES = 4,  /* codes of floats, in the usual layout: no smaller than integers of the same error */
    VC_SEARCH_GGUF = 8,         /* mixtures of llama.cpp */
    VC_SEARCH_GGUF_LEAST =
        16 /* of these, types for weights that were trained in them: what is left where no other is small enough */
};

struct vc_search_scheme {
    enum vc_search_kind kind;
    const char *name;      /* "int4/group:32" */
    const char *what;      /* "int4 weights in groups of 32" */
    const char *flags;     /* of quantize: "--scheme int4/group:32" */
    const char *tag;       /* of an output's name: "int4-g32" */
    const char *dtype;     /* of fit --dtype, which asks about the same weights: "int4-g32" */
    const char *layout;    /* vc_write_options.layout, whatever is given; NULL: the usual one */
    const char *gguf;      /* vc_quantize_options.gguf */
    enum vc_target target; /* of vc_quantize_options */
    uint64_t group;        /* 0: the usual one */
    double error;          /* norm of the change over the norm, of normally distributed weights: the order of harm */
    enum vc_memory_program program; /* that runs it, where no file tells */
    bool after_pruning;             /* also tried on what pruning leaves */
};

/* What may be made of a model, and for whom. */
struct vc_search_place {
    unsigned kinds; /* bits of enum vc_search_kind */
    bool given;     /* only for `program`; VC_RUN_BY_ANY: one of the user's own, which keeps usual layouts */
    enum vc_memory_program program;
};

/* The row from number *at on that has a place there, the least harmful of its kind first; *at is then behind it. NULL: no
 * more. */
const struct vc_search_scheme *vc_search_next(const struct vc_search_place *place, size_t *at);

/* fp16, or bf16 of a model whose weights are that; int8, or GGUF's Q8_0. */
const struct vc_search_scheme *vc_search_half(bool bf16);
const struct vc_search_scheme *vc_search_eight(bool gguf);
/* The usual error of what a report calls so: "int8", "q8_0"; of other words that of fp16. */
double vc_search_usual_error(const char *scheme);

/* Sets what the type means in options that have their defaults. rest: what other floats become; not in GGUF, whose mixtures
 * decide. NULL: they stay. */
void vc_search_set(const struct vc_search_scheme *scheme, const char *rest, struct vc_quantize_options *options);
/* The same in words: "quantize --nf4 --layout bitsandbytes --rest fp16"; the layout only if it is asked for. */
void vc_search_add_pass(struct vc_text *text, const struct vc_search_scheme *scheme, const char *rest, bool layout);

/* What orders recipes: the error of the weights; removed units never come before weights of four bits, whatever share of
 * the weights goes with them. */
double vc_search_harm(double error, bool removes);

/* The least harm of a recipe with weights on the host, which loses nothing and is slow: behind four bits, before removal. */
#define VC_SEARCH_ON_HOST 0.098
/* The same of a file of another format, which the programs that load the model do not load: behind all types of its own. */
#define VC_SEARCH_OTHER_FORMAT 0.363
