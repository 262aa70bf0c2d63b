/* search_schemes.h - the types of weights that searches for "small enough" try: a row each, and the only list of them. plan
 * (memory/recipes) and shrink take their candidates and the order of harm from here; who loads a type, and what it keeps on
 * the device, stands in the row. */
#pragma once

#include <vcompress/memory.h>
#include <vcompress/quantize.h>

/* By who loads them. */
enum vc_search_kind {
    VC_SEARCH_PLAIN,        /* the usual layout of the output; first fp16, then int8 */
    VC_SEARCH_BITSANDBYTES, /* codes that bitsandbytes keeps, where the usual loader of others decodes them */
    VC_SEARCH_FLOAT_CODES,  /* codes of floats, in the usual layout: no smaller than integers of the same error */
    VC_SEARCH_GGUF,         /* mixtures of llama.cpp */
    VC_SEARCH_KINDS
};

struct vc_search_scheme {
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

/* The rows of a kind, the least harmful first. */
const struct vc_search_scheme *vc_search_schemes(enum vc_search_kind kind, size_t *n);
/* Half precision of a model whose weights are bf16. */
const struct vc_search_scheme *vc_search_bf16(void);

/* What orders recipes: the error of the weights; removed units never come before weights of four bits, whatever share of
 * the weights goes with them. */
double vc_search_harm(double error, bool removes);

/* The least harm of a recipe with weights on the host, which loses nothing and is slow: behind four bits, before removal. */
#define VC_SEARCH_ON_HOST 0.098
