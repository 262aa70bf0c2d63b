/* answers.h - what a graph computes in f32, on the engine: vc_graph_forward (graph/forward.h) with programs in place of
 * plain loops, which stay the definition. Results differ from theirs by rounding, and have the same bits for any number
 * of threads on one machine.
 *
 * The engine runs every graph whose values have a size of 1 or more and whose memory fits. Nodes that it has no loops
 * for run theirs of graph/ops/. Where it cannot, the plain loops compute: vc_answers_make says so. */
#pragma once

#include "graph/forward.h"

struct vc_answers;

struct vc_answers_options {
    const struct vc_run_value *feeds; /* by value of the graph: known where it has data; inputs that are needed are */
    const uint32_t *wanted;
    size_t n_wanted;
    bool every;       /* results that are computed on the way are handed over, too, but for those that show others */
    unsigned threads; /* at most; 0: as many as the context has */
};

/* A program, without memory for values; sizes are bound (vc_graph_read_inputs). VC_E_UNSUPPORTED: plain loops have to
 * compute it, or to say what is wrong with it. */
enum vc_status vc_answers_make(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_answers_options *options,
                               struct vc_answers **out);
void vc_answers_free(struct vc_answers *answers); /* accepts NULL */
/* What one run takes at most, beside the feeds: as many runs as there are threads of a caller may go on, with a
 * program each. */
uint64_t vc_answers_bytes(const struct vc_answers *answers);
/* What the first run takes: the same without constants, which are there from the making on. */
uint64_t vc_answers_run_bytes(const struct vc_answers *answers);
/* A run. feeds: the values that were fed when it was made, with the same shapes; NULL: these values themselves.
 * calls->input is not called; param and take are, on the calling thread. */
enum vc_status vc_answers_run(struct vc_answers *answers, const struct vc_run_calls *calls,
                              const struct vc_run_value *feeds);

/* vc_graph_forward in f32, by a program where one can be made and the memory limit has room for it; on one thread where
 * it has none for all. Else by the plain loops. */
enum vc_status vc_answers_forward(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_run_calls *calls,
                                  const uint32_t *wanted, size_t n_wanted);

/* The same for many inputs, one after the other, with the same parameters. The program stays for inputs of the same
 * sizes. keeps: parameters stay, too, as many as take half of the memory that is left below the limit. */
struct vc_answers_series;

enum vc_status vc_answers_series_make(struct vc_ctx *ctx, struct vc_graph *graph, const uint32_t *wanted,
                                      size_t n_wanted, bool keeps, struct vc_answers_series **out);
enum vc_status vc_answers_series_run(struct vc_answers_series *series, const struct vc_run_calls *calls);
void vc_answers_series_free(struct vc_answers_series *series); /* accepts NULL */
