/* step_f64.c - the arithmetic of training with double as the type of numbers. */
#define REAL       double
#define SUFFIX     _f64
#define MATH(name) name
#include "distill/math/loops/step_loops.h"
