/* support_options.c - see support_options.h. */
#include "support_options.h"

struct vc_open_options support_open(void)
{
    struct vc_open_options options;

    vc_open_defaults(&options);
    return options;
}

struct vc_write_options support_write(const char *path)
{
    struct vc_write_options options;

    vc_write_defaults(&options);
    options.path = path;
    return options;
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
    struct vc_verify_options options;

    vc_verify_defaults(&options);
    options.data = data;
    return options;
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

struct vc_name_options support_name(const char *tag)
{
    struct vc_name_options options;

    vc_name_defaults(&options);
    options.tag = tag;
    return options;
}
