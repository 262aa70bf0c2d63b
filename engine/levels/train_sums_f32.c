/* train_sums_f32.c - loops for float on any processor: sums along axes, and normalizations. */
#define REAL        float
#define REAL_IS_F64 0
#define SUFFIX      f32
#include "engine/loops/train_sums.h"
