/* cpu_base.c - the loops for the baseline of the architecture (SSE2 on x86-64). */
#define VC_SUFFIX base
#include "kernels/loops.h"
