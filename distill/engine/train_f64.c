/* train_f64.c - the loops of train_loops.h for double, on any processor. */
#define REAL        double
#define REAL_IS_F64 1
#define SUFFIX      f64
#include "distill/engine/loops/train_all.h"
