/* loops_f32.c - the operators' definitions with float as the type of floats. */
#define REAL       float
#define SUFFIX     _f32
#define MATH(name) name##f
#include "graph/ops/loops/op_loops.h"
