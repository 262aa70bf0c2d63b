/* fake_quant_scales.h - what fake_quant.c keeps of a tensor, and scales that are learned.
 *
 * A scale that is not learned comes from the largest magnitude of its weights. One that is learned comes from a share
 * of it, and what is larger is cut off:
 *
 *     limit = share * max |m|      w = dequantize(quantize(clamp(m, -limit, limit)))      1/128 <= share <= 1
 *
 * So the largest code of a scale is in use whatever the share is, and quantize, which takes scales from magnitudes,
 * makes the same scales and codes of w again. Shares are entries of the student's weights that no file has,
 * "grid.<tensor>": the optimizer moves them, checkpoints have them.
 *
 * Their gradients are those of step sizes (arXiv 1902.08153, LSQ), in units of the scale that the largest magnitude
 * would give. Of the n weights of a scale s = share * s1:
 *
 *     d w / d s = (w - m) / s where |m| <= limit, else w / s          d L / d share = sum (d L / d w)(d w / d s) /
 *                                                                                     (s1 sqrt(127 n))
 *     d L / d m = d L / d w   where |m| <= limit, else 0 */
#pragma once

#include "distill/update/learner.h"

#define VC_NO_SHARES SIZE_MAX

struct vc_fake_quant {
    size_t entry;        /* of the student's weights */
    enum vc_dtype codes; /* I8, Q8_0, F16, BF16, or those of `scheme` */
    bool asymmetric;
    /* I8, and Q8_0 with shares: element i of a row has scale i / inner % n_per_row; a row is one of axis 0 where groups
     * do not fill it, else the whole tensor. */
    uint64_t row_len, inner, n_scales, n_per_row;
    size_t shares; /* entry of the student's weights, one number for each scale; VC_NO_SHARES: scales are not learned */
    void *master;  /* in the room, as all arrays below; NULL before vc_fake_quant_begin */
    uint32_t *pos, *neg; /* limits: bits of floats */
    float *scale;
    int8_t *zero;
    double *sum; /* for gradients of shares */
    /* fake_quant_codes.h. NULL: another kind of codes. A group has `inner` elements of a row. Of the arrays there is
     * `pos`, with one number, for a global scale that a device finds. */
    const struct vc_code_scheme *scheme;
    struct vc_group_codes how;
    size_t joined;   /* the first of the fake quantizations that share its global scale */
    uint32_t absmax; /* of all of them: bits of the largest magnitude */
};

struct vc_fake_quants {
    size_t n;
    struct vc_fake_quant *items;
    char *label; /* of the first one: "int8/channel" */
    void *room;
};

/* Scales of this tensor are learned: an entry for their shares. Before memory is counted. */
enum vc_status vc_fake_quant_learn(struct vc_learner *l, struct vc_fake_quant *f);
/* f->pos and f->neg have the largest magnitudes: they become limits. Shares that were moved out of their range are put
 * at its end. */
void vc_fake_quant_clip(struct vc_learner *l, struct vc_fake_quant *f);
/* n masters from number `first` on, as floats, within their limits; in place. */
void vc_fake_quant_clamp(const struct vc_fake_quant *f, uint64_t first, size_t n, float *x);
/* The weights of the network, which are the masters, within their limits: what codes are made of that are written. */
void vc_fake_quant_cut(struct vc_learner *l, const struct vc_fake_quant *f);
/* The mean of all shares; NaN: no scales are learned. */
double vc_fake_quant_mean_share(const struct vc_learner *l);
