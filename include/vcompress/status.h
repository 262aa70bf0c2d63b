/* status.h - what a call of the library can answer.
 *
 * The values are grouped by what the caller can do about them. The sentence that belongs to a status is kept in the
 * context (context.h). The numbers are stable. */
#ifndef VCOMPRESS_STATUS_H
#define VCOMPRESS_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define VC_API
#else
#define VC_API __attribute__((visibility("default")))
#endif

enum vc_status {
    VC_OK = 0,
    VC_E_NOMEM = 1,       /* memory, or the limit set by vc_ctx_set_max_memory: use a larger one */
    VC_E_IO = 2,          /* the system refused: no space, no permission, no such file */
    VC_E_FORMAT = 3,      /* the file is damaged */
    VC_E_UNSUPPORTED = 4, /* the file is valid, but not one this version can work on */
    VC_E_ARGUMENT = 5,    /* an option or argument is wrong */
    VC_E_DEVICE = 6,      /* the requested device cannot be had */
    VC_E_INTERNAL = 7,    /* a guarantee of our own code was broken: please report */
    VC_E_CANCELLED = 8,   /* vc_ctx_cancel was called */
    VC_E_GATE = 9         /* the work is done, and the answer is no: a gate was missed, nothing was written */
};

/* A short lower-case name such as "format"; never NULL. */
VC_API const char *vc_status_name(enum vc_status status);

#ifdef __cplusplus
}
#endif
#endif
