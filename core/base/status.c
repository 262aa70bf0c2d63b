/* status.c - names of the status values. */
#include <vcompress/status.h>

const char *vc_status_name(enum vc_status status)
{
    static const char *const names[] = {[VC_OK] = "ok",
                                        [VC_E_NOMEM] = "memory",
                                        [VC_E_IO] = "io",
                                        [VC_E_FORMAT] = "format",
                                        [VC_E_UNSUPPORTED] = "unsupported",
                                        [VC_E_ARGUMENT] = "argument",
                                        [VC_E_DEVICE] = "device",
                                        [VC_E_INTERNAL] = "internal",
                                        [VC_E_CANCELLED] = "cancelled",
                                        [VC_E_GATE] = "gate"};

    return (unsigned)status < sizeof names / sizeof *names ? names[status] : "unknown";
}
