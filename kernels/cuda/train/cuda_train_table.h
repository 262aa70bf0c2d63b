/* cuda_train_table.h - the table of cuda_train.cu, for cuda_backend.cu. */
#pragma once

#include "kernels/device/train_backend.h"

extern const struct vc_train_backend vc_cuda_train_table;
