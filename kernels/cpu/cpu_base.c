/* cpu_base.c - the loops of loops.h for the baseline of the architecture (SSE2 on x86-64), as vc_<kernel>_base. What
 * every machine that runs the program can run. */
#define VC_SUFFIX base
#include "kernels/cpu/loops.h"
