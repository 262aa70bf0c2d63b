/* search_choice.c - see search_choice.h. A rule is a row: what a candidate has to have, and the figures it is compared by. */
#include "search/search_choice.h"

#include <math.h>

bool vc_search_within(const struct vc_search_budget *budget, uint64_t file_bytes, const struct vc_fit *fit)
{
    return (budget->file_bytes == 0 || (file_bytes != 0 && file_bytes <= budget->file_bytes)) &&
           (!budget->device || vc_search_has_room(fit));
}

uint64_t vc_search_bytes_of_bits(double bits, uint64_t n_weights)
{
    uint64_t bytes = (uint64_t)(bits * (double)n_weights / 8.0);

    return bytes != 0 ? bytes : 1;
}

enum { MEASURED = 1, WITHIN = 2, OUTSIDE = 4, SIZED = 8, NEEDED = 16, UNTRAINED = 32, HARMS = 64 };
enum figure { END, COST, FILE_BYTES, NEED, HARM, LESS_HARM, BREAKS, HELD_BYTES };

static const struct {
    unsigned wants;
    enum figure by[5]; /* the weightiest first */
} rules[] = {
    [VC_SEARCH_BEST] = {MEASURED | WITHIN, {COST, FILE_BYTES}},
    [VC_SEARCH_SMALLEST] = {MEASURED | WITHIN, {BREAKS, HELD_BYTES, COST, FILE_BYTES}},
    [VC_SEARCH_GENTLEST] = {WITHIN, {HARM}},
    [VC_SEARCH_FIRST] = {WITHIN | SIZED | UNTRAINED, {END}},
    [VC_SEARCH_NEAREST_FILE] = {SIZED, {FILE_BYTES}},
    [VC_SEARCH_NEAREST_DEVICE] = {NEEDED, {NEED}},
    [VC_SEARCH_NEXT_BETTER] = {OUTSIDE | HARMS, {LESS_HARM}},
    [VC_SEARCH_CHEAPEST] = {MEASURED, {COST}},
};

static unsigned state_of(const struct vc_search_candidate *c)
{
    const struct {
        bool is;
        unsigned state;
    } states[] = {{!isnan(c->cost), MEASURED}, {c->within, WITHIN},          {!c->within, OUTSIDE},
                  {c->file_bytes != 0, SIZED}, {c->need_bytes != 0, NEEDED}, {!c->trained, UNTRAINED},
                  {c->harm > 0, HARMS}};
    unsigned all = 0;

    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        all |= states[i].is ? states[i].state : 0U;
    }
    return all;
}

static double figure_of(const struct vc_search_candidate *c, enum figure figure)
{
    const double figures[] = {[COST] = c->cost,
                              [FILE_BYTES] = (double)c->file_bytes,
                              [NEED] = (double)c->need_bytes,
                              [HARM] = c->harm,
                              [LESS_HARM] = -c->harm,
                              [BREAKS] = c->holds ? 0 : 1,
                              [HELD_BYTES] = c->holds ? (double)c->file_bytes : 0};

    return figures[figure];
}

/* Whether a is to be preferred to b. */
static bool is_better(const struct vc_search_candidate *a, const struct vc_search_candidate *b, const enum figure *by)
{
    for (; *by != END; by++) {
        double x = figure_of(a, *by);
        double y = figure_of(b, *by);

        if (x != y) {
            return x < y;
        }
    }
    return false;
}

size_t vc_search_pick(const struct vc_search_candidate *list, size_t n, enum vc_search_rule rule)
{
    unsigned wants = rules[rule].wants;
    size_t found = VC_SEARCH_NONE;

    for (size_t k = 0; k < n; k++) {
        if (list[k].possible && !list[k].skipped && (state_of(&list[k]) & wants) == wants &&
            (found == VC_SEARCH_NONE || is_better(&list[k], &list[found], rules[rule].by))) {
            found = k;
        }
    }
    return found;
}
