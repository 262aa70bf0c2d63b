/* support_options.h - the options of the library as the tests begin with them: nothing in tests/ fills such a structure
 * from nothing, so that a member that every caller has to set is set in support_options.c alone. */
#pragma once

#include <vcompress/experimental.h>
#include <vcompress/verify.h>

struct vc_open_options support_open(void);
struct vc_write_options support_write(const char *path);
/* With force. */
struct vc_write_options support_replace(const char *path, enum vc_deflate deflate);
struct vc_verify_options support_verify(bool data);
struct vc_name_options support_name(const char *tag);

/* The defaults, but small tensors are worked on as well: those of tests are small. */
struct vc_quantize_options support_quantize(void);
struct vc_dequantize_options support_dequantize(void);
