/* train_products.h - the loops that multiply matrices. Their last bits depend on the level of the
 * processor: a level with fused multiply-adds rounds once where another rounds twice. */
#include "engine/loops/train_begin.h"
#include "engine/loops/train_lanes.h"

#include "engine/loops/train_product.h"

#include "engine/loops/train_attention.h"
#include "engine/loops/train_conv.h"
#include "engine/loops/train_direct.h"
#include "engine/loops/train_recurrent.h"
