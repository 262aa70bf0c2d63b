/* cpu_neon.c - the loops of loops.h for AArch64, as vc_<kernel>_neon. NEON is part of that architecture's baseline,
 * so this differs from cpu_base.c by name only, until someone measures that intrinsics pay. */
#define VC_SUFFIX neon
#include "kernels/cpu/loops.h"
