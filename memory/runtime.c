/* runtime.c - how the loader that usually reads a file loads its codes. */
#include <vcompress/memory.h>

#include <string.h>

enum vc_runtime vc_memory_runtime(const struct vc_layout *layout)
{
    if (layout == NULL || strcmp(layout->name, "gguf") == 0 || strcmp(layout->name, "bitsandbytes") == 0) {
        return VC_RUNTIME_NATIVE;
    }
    return strcmp(layout->name, "onnx") == 0 ? VC_RUNTIME_LAYERWISE : VC_RUNTIME_DEQUANTIZE;
}
