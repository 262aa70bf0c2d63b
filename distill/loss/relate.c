/* relate.c - the table of relations.inc. */
#include "distill/loss/relate.h"

static const struct relation {
    double (*term)(const struct vc_relation *r);
    uint64_t (*room)(uint64_t n, uint64_t width, uint64_t teacher_width);
} relations[] = {
#define VC_RELATION(KIND, word) [VC_MATCH_##KIND] = {vc_relate_##word, vc_relate_##word##_room},
#include "distill/loss/relations.inc"
#undef VC_RELATION
};

bool vc_relate_is(enum vc_match_kind kind)
{
    return (size_t)kind < sizeof relations / sizeof *relations && relations[kind].term != NULL;
}

double vc_relate(enum vc_match_kind kind, const struct vc_relation *r)
{
    return r->n < 2 ? 0 : relations[kind].term(r);
}

uint64_t vc_relate_room(enum vc_match_kind kind, uint64_t n, uint64_t width, uint64_t teacher_width)
{
    return relations[kind].room(n, width, teacher_width);
}
