/* status.h - the results that a call of the library can return.
 *
 * The values are grouped by what the caller can do about the failure. The context keeps the sentence of the last
 * failure (vc_ctx_message). The numbers are stable. */
#ifndef VCOMPRESS_STATUS_H
#define VCOMPRESS_STATUS_H

/* Around the declarations of each header: a compiler for C++ reads them as those of C. */
#ifdef __cplusplus
#define VC_BEGIN_C extern "C" {
#define VC_END_C   }
#else
#define VC_BEGIN_C
#define VC_END_C
#endif

VC_BEGIN_C

#if defined(_WIN32)
#define VC_API
#else
#define VC_API __attribute__((visibility("default")))
#endif

enum vc_status {
    VC_OK = 0,
    VC_E_NOMEM = 1,       /* memory is short, or the limit of vc_ctx_set_max_memory is too low */
    VC_E_IO = 2,          /* a system call failed: no space, no permission, no such file */
    VC_E_FORMAT = 3,      /* the file is damaged */
    VC_E_UNSUPPORTED = 4, /* the file is valid, but this version cannot work on the file */
    VC_E_ARGUMENT = 5,    /* an option or argument is wrong */
    VC_E_DEVICE = 6,      /* the requested device is not available */
    VC_E_INTERNAL = 7,    /* a bug in the library: please report */
    VC_E_CANCELLED = 8,   /* vc_ctx_cancel was called */
    VC_E_GATE = 9         /* a gate (a limit such as min_sqnr_db) was missed; nothing was written */
};

/* A short lower-case name such as "format"; never NULL. */
VC_API const char *vc_status_name(enum vc_status status);

VC_END_C
#endif
