/* train_f32.c - the loops of train_loops.h for float, on any processor. */
#define REAL        float
#define REAL_IS_F64 0
#define SUFFIX      f32
#include "distill/engine/loops/train_all.h"
