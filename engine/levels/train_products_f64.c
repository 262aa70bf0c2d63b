/* train_products_f64.c - loops for double on any processor: products, convolutions and attention. */
#define REAL        double
#define REAL_IS_F64 1
#define SUFFIX      f64
#include "engine/loops/train_products.h"
