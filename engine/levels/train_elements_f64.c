/* train_elements_f64.c - loops for double on any processor: one element at a time, choices and windows. */
#define REAL        double
#define REAL_IS_F64 1
#define SUFFIX      f64
#include "engine/loops/train_elements.h"
