/* train_sums.h - the loops that sum along axes, and those that normalize. Sums have an order that no level
 * changes. */
#include "engine/loops/train_begin.h"
#include "engine/loops/train_lanes.h"

#include "engine/loops/train_strided.h"

#include "engine/loops/train_norm.h"
#include "engine/loops/train_row_norm.h"
