/* seed_layouts.h - seeds of weights as compressed-tensors and bitsandbytes store them in safetensors, for make_seeds.c.
 */
#pragma once

#include <stddef.h>

/* Saves a safetensors file of that header and n bytes of data as seed-<name>. */
typedef void save_fn(const char *name, const char *header, const void *data, size_t n);

void seed_layouts(save_fn *save);
