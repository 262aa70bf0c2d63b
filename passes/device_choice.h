/* device_choice.h - `--device auto`: by the numbers of kernels/rates.inc, which of these is less,
 *
 *     cpu    max(files / rate of files, sum of weights / (processors * rate of their scheme))
 *     card   start + max(files / rate of files, 4 bytes of each weight for the card / bus, sum of these weights / rate on the card,
 *                        what processors do beside it, and all others)
 *
 * A card gets the weights whose scheme it encodes faster than all processors together, of tensors of VC_CARD_MIN_ELEMS or more. The
 * output is the same in any case. It opens while the CPU begins with the work. */
#pragma once

#include "core/chain/pass.h"
#include "core/job/job_make.h"

#define VC_CARD_MIN_ELEMS ((uint64_t)1 << 15) /* below, copies and launches of a call take longer than the processor */

extern const struct vc_chooser vc_device_chooser;

/* VC_E_ARGUMENT where the device is "auto" and the environment's start of a card is no number. Before anything is chosen. */
enum vc_status vc_device_check(struct vc_ctx *ctx);
