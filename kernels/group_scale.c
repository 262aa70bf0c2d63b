/* group_scale.c - vc_group_scale, the search for the scale of a group (grid_codes.h): quantize and fake quantization
 * share this object. */
#define VC_GROUP_SCALE_BODY
#include "kernels/grid_codes.h"
