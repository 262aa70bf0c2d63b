/* step_f32.c - the arithmetic of training with float as the type of numbers. */
#define REAL       float
#define SUFFIX     _f32
#define MATH(name) name##f
#include "distill/math/loops/step_loops.h"
