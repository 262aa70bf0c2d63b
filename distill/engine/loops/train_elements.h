/* train_elements.h - the loops that go element by element, or choose elements. */
#include "distill/engine/loops/train_begin.h"

#include "distill/engine/loops/train_math.h"
#include "distill/engine/loops/train_random.h"

#include "distill/engine/loops/train_gather.h"
#include "distill/engine/loops/train_pool.h"
#include "distill/engine/loops/train_rotary.h"
