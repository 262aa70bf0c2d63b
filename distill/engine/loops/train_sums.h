/* train_sums.h - the loops that sum along axes, and those that normalize. */
#include "distill/engine/loops/train_begin.h"
#include "distill/engine/loops/train_lanes.h"

#include "distill/engine/loops/train_strided.h"

#include "distill/engine/loops/train_norm.h"
#include "distill/engine/loops/train_row_norm.h"
