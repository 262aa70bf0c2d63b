/* distill_curves.h - what steps of a distillation came to, as lines over the steps, for its page. */
#ifndef VC_REPORT_DISTILL_CURVES_H
#define VC_REPORT_DISTILL_CURVES_H

#include <vcompress/distill.h>

#include "report/pages/page_write.h"

/* Sections: the loss; the terms of options->matches; the sparsity of gradual pruning. One that has fewer than two steps
 * to draw is left out. */
void vc_page_distill_curves(struct vc_page *page, const struct vc_distill_options *options,
                            const struct vc_distill_step *steps, size_t n);

#endif
