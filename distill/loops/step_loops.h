/* step_loops.h - the functions of step_math.h for one type of numbers, REAL. Included by step_f32.c and
 * step_f64.c, once each. */
#include <float.h>
#include <math.h>

#include "distill/step_math.h"
#include "kernels/functions.h"

#define JOIN2(a, b) a##b
#define JOIN(a, b)  JOIN2(a, b)
#define NAME(stem)  JOIN(stem, SUFFIX)

#include "distill/loops/loss_loops.h"
#include "distill/loops/update_loops.h"
