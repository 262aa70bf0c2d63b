/* train_sums_f64.c - loops for double on any processor: sums along axes, and normalizations. */
#define REAL        double
#define REAL_IS_F64 1
#define SUFFIX      f64
#include "engine/loops/train_sums.h"
