/* train_products.h - the loops that multiply matrices. */
#include "distill/engine/loops/train_begin.h"
#include "distill/engine/loops/train_lanes.h"

#include "distill/engine/loops/train_product.h"

#include "distill/engine/loops/train_attention.h"
#include "distill/engine/loops/train_conv.h"
#include "distill/engine/loops/train_direct.h"
