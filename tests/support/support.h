/* support.h - what most tests in C begin with: cmocka after the headers that it needs, a context, sentences. With
 * scratch.h (a folder and files in it), tasks.h (from one file to another), support_options.h and bytes.h. */
#ifndef VC_TESTS_SUPPORT_H
#define VC_TESTS_SUPPORT_H

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

/* Tests that damage a file at every place, or let every allocation fail, take one of so many under AddressSanitizer,
 * which makes each some ten times as slow; without it they take all. */
#if defined __has_feature
#if __has_feature(address_sanitizer)
#define TEST_STRIDE 5
#endif
#elif defined __SANITIZE_ADDRESS__
#define TEST_STRIDE 5
#endif
#ifndef TEST_STRIDE
#define TEST_STRIDE 1
#endif

/* Stops the test where there is none. */
struct vc_ctx *test_ctx(void);
/* Wants everything given back to the pool; a context that ran a job keeps its kernels, so it cannot end like this. */
void test_ctx_done(struct vc_ctx *ctx);

/* The sentence of the last failure has these words in it, and is one line. */
void expect_says(const struct vc_ctx *ctx, const char *words);

#endif
