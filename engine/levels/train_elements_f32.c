/* train_elements_f32.c - loops for float on any processor: one element at a time, choices and windows. */
#define REAL        float
#define REAL_IS_F64 0
#define SUFFIX      f32
#include "engine/loops/train_elements.h"
