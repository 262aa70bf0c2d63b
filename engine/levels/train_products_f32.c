/* train_products_f32.c - loops for float on any processor: products, convolutions and attention. */
#define REAL        float
#define REAL_IS_F64 0
#define SUFFIX      f32
#include "engine/loops/train_products.h"
