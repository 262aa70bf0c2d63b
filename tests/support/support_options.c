/* support_options.c - see support_options.h. */
#include "support_options.h"

struct vc_open_options support_open(void)
{
    return (struct vc_open_options){.key = NULL};
}

struct vc_write_options support_write(const char *path)
{
    return (struct vc_write_options){.path = path};
}

struct vc_write_options support_replace(const char *path, enum vc_deflate deflate)
{
    struct vc_write_options options = support_write(path);

    options.force = true;
    options.deflate = deflate;
    return options;
}

struct vc_verify_options support_verify(bool data)
{
    return (struct vc_verify_options){.data = data};
}

struct vc_quantize_options support_quantize(void)
{
    struct vc_quantize_options options;

    vc_quantize_defaults(&options);
    options.min_elems = 1;
    options.min_row = 1;
    return options;
}

struct vc_dequantize_options support_dequantize(void)
{
    struct vc_dequantize_options options;

    vc_dequantize_defaults(&options);
    return options;
}
