/* device_ranks.h - gradients of ranks that have a device each, added up from device to device (NCCL), where that is
 * what the run does. Everything else that ranks do together goes through their hosts (ranks/collectives.h).
 *
 *     vc_device_ranks_choose    is there an NCCL on all of them, and is it wanted?
 *     vc_device_ranks_begin     they find each other, once, before the first step
 *     vc_device_ranks_add       an array of the device becomes the sum of all ranks'
 *     vc_device_ranks_end
 *
 * Each call that waits for the others inside NCCL comes back at once (before NCCL 2.14 only the sums do); ranks
 * gather their statuses after the call and several times a second until it is done, so that no rank waits for a rank
 * that has failed or gone. */
#pragma once

#include "distill/update/learner.h"

/* *nccl: it is used. A collective of all ranks, also of ranks without a device. VC_E_DEVICE: it was asked for, and a
 * rank has none, or two ranks have the same device. VC_E_ARGUMENT: ranks compute on processors and on devices. */
enum vc_status vc_device_ranks_choose(struct vc_learner *l, bool *nccl);
enum vc_status vc_device_ranks_begin(struct vc_learner *l);
/* n floats of device memory. The work that was asked for before is done behind it. */
enum vc_status vc_device_ranks_add(struct vc_learner *l, float *data, uint64_t n);
void vc_device_ranks_end(struct vc_learner *l);
