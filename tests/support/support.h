/* support.h - what most tests in C begin with: cmocka after the headers that it needs, a context, sentences. With
 * scratch.h (a folder and files in it), tasks.h (from one file to another), support_options.h and bytes.h. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <vcompress/experimental.h>

#include "core/base/ctx.h"
#include "stride.h"

/* Stops the test where there is none. */
struct vc_ctx *test_ctx(void);
/* Wants everything given back to the pool; a context that ran a job keeps its kernels, so it cannot end like this. */
void test_ctx_done(struct vc_ctx *ctx);

/* The sentence of the last failure has these words in it, and is one line. */
void expect_says(const struct vc_ctx *ctx, const char *words);
