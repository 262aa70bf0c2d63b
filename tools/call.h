/* call.h - a command as a function of a program, for bindings of other languages (python/): words in, the JSON document
 * or a sentence out. Nothing is printed, no signal is caught. Several threads may call at once.
 *
 * The library vcompress_call.so exports these functions. Their names and the structure may change with any version:
 * programs in C use <vcompress/vcompress.h>. */
#ifndef VC_TOOLS_CALL_H
#define VC_TOOLS_CALL_H

#include <vcompress/vcompress.h>

struct vcompress_call {
    char **words; /* "quantize", "--int8", "m.npz"; their order is changed */
    int n_words;
    const struct vc_reader
        *reader; /* what quantize and its like, and inspect, read in place of INPUT; NULL: the file */
    const struct vc_writer *writer;                                   /* ... and write in place of -o; NULL: the file */
    void (*progress)(void *user, const struct vc_progress *progress); /* as of vc_ctx_set_progress; NULL: none */
    void *user;

    int status;     /* as that of the command, 0 to 4 */
    char *document; /* JSON; NULL: there is none */
    char *sentence; /* of the last failure; NULL: there was none */

    /* Its own: zeros at the start. */
    _Atomic(struct vc_ctx *) ctx;
    _Atomic bool cancelled;
    FILE *nowhere; /* for tables */
};

/* Runs the command and fills the results. `call` stays where it is until vcompress_call_end, once, which frees them. */
VC_API void vcompress_call_run(struct vcompress_call *call);
/* Ends it with status 4 soon, from any thread, between the start of vcompress_call_run and vcompress_call_end. */
VC_API void vcompress_call_cancel(struct vcompress_call *call);
VC_API void vcompress_call_end(struct vcompress_call *call);

#endif
