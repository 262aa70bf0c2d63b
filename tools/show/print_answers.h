/* print_answers.h - what was taken for a network's answers, where the graph alone does not tell. */
#pragma once

#include "tools/app.h"

/* A sentence for `kind` of n classes or values; NULL: there is nothing to say, since the output is logits by what is
 * known. labelled: labels say that there are classes. named: the caller named the loss. text: of n_text bytes. */
const char *answers_text(enum vc_answer_kind kind, uint64_t n, bool labelled, bool named, char *text, size_t n_text);
/* The same as a note in a line of its own; of a graph with several outputs it names the one that was judged. graph NULL: the
 * caller does not tell. */
void print_answers(const struct app *app, const struct vc_quality *q, const struct vc_graph *graph);
/* How well the network of this graph answers: a line of figures, and a note for what is not defined. */
void print_quality(const struct app *app, const struct vc_quality *q, const struct vc_graph *graph);
