/* train_loops.h - the functions of train_math.h for one type of numbers, REAL. Included by train_f32.c and
 * train_f64.c, once each. */
#include <math.h>

#include "distill/train_math.h"

#define JOIN2(a, b) a##b
#define JOIN(a, b)  JOIN2(a, b)
#define NAME(stem)  JOIN(stem, SUFFIX)

#include "distill/loops/loss_loops.h"
#include "distill/loops/update_loops.h"
