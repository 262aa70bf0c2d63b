/* page_style.h - the style of all pages. */
#ifndef VC_REPORT_PAGE_STYLE_H
#define VC_REPORT_PAGE_STYLE_H

#include "core/text/text.h"

/* Adds the rules, without the element around them. */
void vc_page_style(struct vc_text *text);

#endif
