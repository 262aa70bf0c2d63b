/* recompute_word.h - the words of --recompute, which estimate, fit and distill share. */
#pragma once

#include <vcompress/memory.h>

/* "none", "sqrt", "every:K", "layer", "selective", "auto". */
bool recompute_word(const char *text, enum vc_recompute *kind, unsigned *every);
