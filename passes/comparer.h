/* comparer.h - the comparer of jobs: decodes both ends of a chain and compares them with the kernels of `diff`. */
#pragma once

#include "core/chain/compare.h"

extern const struct vc_comparer vc_comparer_decoding;
