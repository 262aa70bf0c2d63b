/* loops_f64.c - the operators' definitions with double as the type of floats. */
#define REAL       double
#define SUFFIX     _f64
#define MATH(name) name
#include "graph/ops/loops/op_loops.h"
