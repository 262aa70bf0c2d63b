/* rows.h - the rows that a network is trained with or judged by, from the arrays of a file: labels and mask as a whole,
 * inputs by rows, on request. */
#pragma once

#include <vcompress/distill.h>

#include "distill/data/row_array.h"
#include "graph/ids.h"
#include "passes/data_arrays.h"
#include "passes/normalize.h"

/* The rows as one of several outputs sees them: its y in place of y. */
struct vc_rows_output {
    struct vc_output_task task;
    struct vc_rows *rows; /* shares all but y and mask with those that it belongs to */
};

struct vc_rows {
    struct vc_ctx *ctx;
    struct vc_data_options options;
    struct vc_model *model, *labels_model;
    const struct vc_model *y_model; /* has y as its tensor y_tensor; NULL: there is no such array */
    size_t y_tensor;
    struct vc_arena arena;
    uint64_t n, n_all; /* rows: those that are taken, those of the file */
    uint64_t *part;    /* options.part_to: the rows of the file that are taken, rising; NULL: the first n */
    size_t positions;  /* of a row, each of which has a label and counts or not: 1, or those of a sequence */
    int64_t *labels;   /* VC_NO_LABEL: none; NULL: no row has one */
    double *targets;   /* y of floats, or of integers that are values; target_width of a row; NULL: none */
    size_t target_width;
    bool has_labels;                /* y has labels, which may all be none */
    bool tokens;                    /* labels are the tokens of the input, not an array of their own */
    uint8_t *mask;                  /* NULL: all rows count */
    size_t label_width, mask_width; /* of a row in the file */
    int64_t max_label;
    struct vc_row_array *arrays; /* by tensor; those that are no input of a graph are not open: model NULL */
    struct vc_normalize normalize;
    size_t n_outputs; /* 0: the first output of floats is judged by y */
    struct vc_rows_output outputs[VC_MOST_OUTPUTS];
};

/* One input of a graph. */
struct vc_rows_input {
    const char *name; /* the graph's */
    uint32_t value;
    size_t tensor; /* VC_NO_TENSOR: there is no array, and all elements are `otherwise` */
    int64_t otherwise;
    size_t n_elems;  /* of a row */
    size_t channels; /* with a mean of their own: 1, or the second dimension; each has `plane` elements in a row */
    size_t plane;
    /* The dimension of the graph's input that is the rows, and the product of those before it: 1 and 2 of a state
     * [2, n, 128], whose array is [n, 2, 128]; mostly 0 and 1. */
    unsigned axis;
    size_t before;
    bool integers;
    struct vc_ids ids;
};

/* The inputs of one graph. */
struct vc_rows_view {
    const struct vc_rows *rows;
    size_t n;
    struct vc_rows_input *inputs; /* in the order of the graph's */
};

/* graphs: whose inputs the names in options.arrays may be; those of the first one count the rows. weights: of each graph,
 * beside which a text has its tokenizer. NULL entries are skipped. */
enum vc_status vc_rows_open(struct vc_ctx *ctx, const struct vc_data_options *options,
                            const struct vc_graph *const *graphs, const struct vc_model *const *weights,
                            size_t n_graphs, struct vc_rows *rows);
void vc_rows_close(struct vc_rows *rows);

/* What the caller calls the arrays. */
static inline struct vc_array_names vc_rows_names(const struct vc_rows *rows)
{
    return (struct vc_array_names){rows->options.arrays, rows->options.n_arrays};
}

/* The symbol that an input has in place of the number of rows, or NULL. */
const char *vc_rows_symbol(const struct vc_graph *graph, const struct vc_graph_value *input);

/* Finds the array of every input and gives the sizes of the graph their values, but for the rows: *batch is the first
 * symbol for them (vc_rows_symbol of each input), or NULL where the graph has a fixed number, *fixed. VC_E_ARGUMENT:
 * arrays and inputs do not fit. */
enum vc_status vc_rows_view_make(const struct vc_rows *rows, struct vc_graph *graph, struct vc_rows_view *view,
                                 const char **batch, int64_t *fixed);
void vc_rows_view_release(struct vc_rows_view *view);

/* The number in the file of row number `row` of those that are taken. */
static inline uint64_t vc_rows_in_file(const struct vc_rows *rows, uint64_t row)
{
    return rows->part != NULL ? rows->part[row] : row;
}

/* Input k of n rows by their numbers, one behind the other, as float, double (f64) or int64_t. */
enum vc_status vc_rows_read(const struct vc_rows_view *view, size_t k, const uint64_t *numbers, size_t n, bool f64,
                            void *to);
/* What vc_rows_read gave as the graph takes it: rows in the place of input.axis. */
enum vc_status vc_rows_turn(const struct vc_rows_view *view, size_t k, size_t n, bool f64, void *data);

/* Calls the function of vc_ctx_set_progress, by bytes of inputs: of so many rows, what is done. */
void vc_rows_tell(const struct vc_rows_view *view, const char *what, uint64_t done, uint64_t rows);

/* Inputs of these rows are read soon: of arrays that are not held in memory the system may fetch them meanwhile. */
void vc_rows_ahead(const struct vc_rows *rows, const uint64_t *numbers, size_t n);

/* What the network of the view answers for: `positions` of each row. Without a mask, the input attention_mask is it.
 * next: it answers what stands at the next position, so labels move by one place; without y they are the tokens. */
enum vc_status vc_rows_take_positions(struct vc_rows *rows, const struct vc_rows_view *view, size_t positions,
                                      bool next);

/* y of integers are values, not classes; and the other way round, which is false where y has other numbers than whole
 * ones from 0 to `most`. Before positions are taken. */
enum vc_status vc_rows_take_values(struct vc_rows *rows);
enum vc_status vc_rows_take_labels(struct vc_rows *rows, int64_t most, bool *taken);
/* Labels above `most` are none. */
void vc_rows_leave_beyond(struct vc_rows *rows, int64_t most);

/* The rows are tokens of a text and answered by what stands next: the bytes of the text that the tokens with a label cover; 0:
 * they are not. */
enum vc_status vc_rows_text_bytes(const struct vc_rows *rows, uint64_t *bytes);

/* [rows][*width]: 1 where the input attention_mask of the view says that a token is no padding. *out is the caller's;
 * NULL: there is no such array. */
enum vc_status vc_rows_read_tokens(const struct vc_rows_view *view, uint8_t **out, size_t *width);

/* Rows that count (positions, where a row has several), and those of them with a label or targets. */
void vc_rows_count(const struct vc_rows *rows, const uint64_t *numbers, size_t n, uint64_t *counted,
                   uint64_t *labelled);
/* Of spans: the rows among these that count and have a start, and those that have an end. numbers NULL: the first n. */
void vc_rows_count_ends(const struct vc_rows *rows, const uint64_t *numbers, size_t n, uint64_t ends[2]);
