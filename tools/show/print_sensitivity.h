/* print_sensitivity.h - the report of vcompress sensitivity: tables, and the command lines that follow from them.
 */
#pragma once

#include "tools/app.h"

#define MAX_CANDIDATES 64

/* The table that a candidate is a column of. */
enum sensitivity_table {
    TABLE_PRUNED, /* magnitudes, patterns */
    TABLE_USUAL,  /* int8, q8_0, f16, bf16 */
    TABLE_INTS,   /* int2 to int6, ternary */
    TABLE_FLOATS, /* the other schemes */
    N_TABLES
};

/* What the command was told, as far as the commands that it suggests have to be told it, too. */
struct sensitivity_request {
    const struct vc_rule *rules;
    size_t n_rules;
    const char *key; /* --key; NULL: none */
    enum vc_dtype void_as;
};

/* False: no memory. */
bool print_sensitivity(struct app *app, const struct vc_sensitivity *s, const struct sensitivity_request *request);

/* print_advice.c: the tensors that stand out, and command lines that say so. */
bool print_advice(struct app *app, const struct vc_sensitivity *s, const struct sensitivity_request *request);

/* print_measured.c: what the outputs lose, where that was measured. */
bool print_measured(struct app *app, const struct vc_sensitivity *s);

enum sensitivity_table table_of(const struct vc_sensitivity_candidate *candidate);

/* The heading of a column, into a buffer of CELL_BYTES: "30 %"; "g128" for int8/group:128; "int4" for int4/group:128.
 */
char *fmt_candidate(char *buf, const struct vc_sensitivity_candidate *candidate);

/* For qsort, of doubles. */
int smaller_first(const void *a, const void *b);

/* "27.3", "0.19": a relative error in percent, into a buffer of CELL_BYTES, which is returned. */
char *fmt_relative(char *buf, double relative);
