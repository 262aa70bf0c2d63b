/* document.h - what was found and done as JSON: a kind of document, and what it is made of.
 *
 * The kinds of experimental headers are as experimental as what they are made of; VC_DOCUMENT_REPORT and VC_DOCUMENT_VERIFY
 * are stable. docs/documents.md lists the members of all. */
#ifndef VCOMPRESS_DOCUMENT_H
#define VCOMPRESS_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>

#include <vcompress/context.h>

VC_BEGIN_C

/* A kind says what vc_document.of is, what else the document is made of (may be NULL where nothing else is said), and its
 * schema: vcompress.fit/1, installed as fit-1.schema.json. Numbers are stable. */
enum vc_document_kind {
    VC_DOCUMENT_INSPECT = 0,  /* of: struct vc_inspection */
    VC_DOCUMENT_DIFF = 1,     /* of: struct vc_diff, of the models a and b; limits */
    VC_DOCUMENT_GRAPH = 2,    /* of: struct vc_graph, with the bound sizes; blocks; model */
    VC_DOCUMENT_ESTIMATE = 3, /* of: struct vc_memory_report; memory: its options; graph; layers; path of the model */
    VC_DOCUMENT_FIT = 4,      /* as ESTIMATE, without layers; rows and n: the answers */
    VC_DOCUMENT_PLAN = 5,     /* of: struct vc_recipes; gpu: its name; path of the model; lines: an entry per recipe */
    VC_DOCUMENT_SHRINK = 6,   /* of: struct vc_shrinkage */
    VC_DOCUMENT_DISTILL = 7,  /* of: struct vc_distillation */
    VC_DOCUMENT_EVALUATE = 8, /* of: struct vc_quality; evaluate: its options; missed: the sentence of a missed gate */
    VC_DOCUMENT_SENSITIVITY = 9, /* of: struct vc_sensitivity */
    VC_DOCUMENT_GPUS = 10,       /* of: struct vc_gpus; match: as for vc_gpu_matches, NULL: all GPUs */
    /* Members of documents that pages show, by their names in the schemas. */
    VC_DOCUMENT_HISTOGRAMS = 11, /* "histograms"; of: struct vc_value_histograms */
    VC_DOCUMENT_FIT_MATRIX = 12, /* "gpus"; of: struct vc_fit_matrix */
    VC_DOCUMENT_TIMELINE = 13,   /* "timeline"; of: struct vc_memory_timeline */
    /* "steps"; of: n of struct vc_distill_step from vc_distill_options.tell, all or some, in order. Control steps and
     * evaluations are left out. */
    VC_DOCUMENT_STEPS = 14,
    VC_DOCUMENT_REPORT = 15, /* of: struct vc_report, vcompress.report/1 */
    VC_DOCUMENT_VERIFY = 16, /* of: struct vc_verification; strict */
    /* A failure in place of a document. of: the name of its schema, "vcompress.report/1"; failure, and `missed`: the
     * sentence. Memory is that of the context: after VC_E_NOMEM another one is needed. */
    VC_DOCUMENT_ERROR = 17
};

struct vc_document {
    enum vc_document_kind kind;
    const void *of;
    size_t n;
    const struct vc_model *a, *b, *model;
    const struct vc_graph *graph;
    const struct vc_graph_blocks *blocks;
    const struct vc_memory_options *memory;
    const struct vc_memory_layers *layers;
    const struct vc_fit_row *rows;
    const struct vc_evaluate_options *evaluate;
    const struct vc_diff_limits *limits;
    const struct vc_recipe_lines *lines;
    const char *path, *gpu, *match, *missed;
    enum vc_status failure;
    bool strict; /* notes of the verification count as failures, as for vc_verify_options */
};

/* Renders a document, or a member, as JSON. *text is NUL-terminated; free with vc_text_free. */
VC_API enum vc_status vc_document_json(struct vc_ctx *ctx, const struct vc_document *document, char **text);

/* Renders what a kind has as a self-contained SVG drawing: SENSITIVITY, and GRAPH with the bound sizes, whose title is `path`.
 * Free *text with vc_text_free. VC_E_ARGUMENT for other kinds. */
VC_API enum vc_status vc_document_svg(struct vc_ctx *ctx, const struct vc_document *document, char **text);

VC_END_C
#endif
