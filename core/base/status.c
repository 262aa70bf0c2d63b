/* status.c - names of the status values. */
#include <vcompress/status.h>

const char *vc_status_name(enum vc_status status)
{
    switch (status) {
    case VC_OK:
        return "ok";
    case VC_E_NOMEM:
        return "memory";
    case VC_E_IO:
        return "io";
    case VC_E_FORMAT:
        return "format";
    case VC_E_UNSUPPORTED:
        return "unsupported";
    case VC_E_ARGUMENT:
        return "argument";
    case VC_E_DEVICE:
        return "device";
    case VC_E_INTERNAL:
        return "internal";
    case VC_E_CANCELLED:
        return "cancelled";
    case VC_E_GATE:
        return "gate";
    }
    return "unknown";
}
