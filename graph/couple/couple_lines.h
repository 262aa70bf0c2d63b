/* couple_lines.h - a file of couplings while it is read: couple_read.c binds lines to tensors, couple_lines.c takes
 * them apart, couple_claims.c looks for axes that two groups claim. */
#pragma once

#include "graph/couple/couple.h"

/* A member as it is written, TENSOR:AXIS*BLOCK/SHARE+OFFSET! or TENSOR@UNIT!. Names point into the line. */
struct vc_written_member {
    char *name;
    bool literal; /* it was in quotes: no pattern */
    /* whole: TENSOR@UNIT, the tensor is one unit. some: an offset is given, the units take a part of the axis. makes: "!",
     * units are computed along this axis. */
    bool whole, some, makes;
    uint64_t unit, axis, block, share, offset;
};

/* What is in front of the members: "heads 8*3:". */
struct vc_written_head {
    enum vc_unit unit;
    uint64_t units, repeats; /* 0: not said */
};

struct vc_couple_reader {
    struct vc_ctx *ctx;
    const struct vc_model *model;
    struct vc_couplings *couplings;
    size_t line;
    struct vc_text said; /* what is wrong; beyond some, how much more */
    size_t n_unsaid;
    enum vc_status status; /* no memory */
    /* of the line that is being read */
    struct vc_written_head head;
    struct vc_written_member *members;
    size_t n, capacity;
    bool broken; /* something about it was said */
};

/* Notes what is wrong with a line. */
void vc_couple_complain(struct vc_couple_reader *r, size_t line, const char *format, ...) VC_PRINTF(3, 4);
/* The line in its members, in place. False: it has none, or something is wrong with it, which was said. */
bool vc_couple_take_line(struct vc_couple_reader *r, char *line);
enum vc_status vc_couple_check_claims(struct vc_couple_reader *r);
