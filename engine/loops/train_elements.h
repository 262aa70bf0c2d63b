/* train_elements.h - the loops that go element by element, or choose elements. Their results are the same
 * on every level of the processor. */
#include "engine/loops/train_begin.h"

#include "engine/loops/train_math.h"
#include "engine/loops/train_random.h"

#include "engine/loops/train_gather.h"
#include "engine/loops/train_inputs.h"
#include "engine/loops/train_pool.h"
#include "engine/loops/train_rotary.h"
