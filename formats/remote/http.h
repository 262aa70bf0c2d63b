/* http.h - one request over HTTP: what the plug-in vcompress_http.so offers the library. It follows no redirect, tries
 * nothing again and knows no token: fetch.c decides what is sent where. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VC_HTTP_ABI    1
#define VC_HTTP_SYMBOL "vc_http_entry"
#define VC_HTTP_FILE   "vcompress_http.so"
#define VC_HTTP_WHY    256

enum vc_http_end {
    VC_HTTP_ANSWERED = 0, /* the whole answer came */
    VC_HTTP_ENOUGH = 1,   /* a callback wanted no more */
    VC_HTTP_BROKEN = 2,   /* no connection, cut, too slow: another try may have an answer */
    VC_HTTP_FAILED = 3    /* it never will: a certificate that is not right, no such host */
};

struct vc_http_get {
    const char *url;           /* https, or http */
    const char *range;         /* "0-131071"; NULL: all of it */
    const char *authorization; /* the value of that header; NULL: none */
    unsigned seconds;          /* without a byte, until it counts as broken */
    void *user;
    void (*header)(void *user, const char *line, size_t n); /* each line, that of the status first */
    bool (*body)(void *user, const void *bytes, size_t n);  /* false: enough */
    bool (*stop)(void *user);                               /* asked now and then; true: enough */
};

struct vc_http {
    uint32_t abi;
    size_t struct_size;
    const char *name; /* "libcurl 7.88.1" */
    /* A handle keeps connections; one thread at a time. NULL: why tells. */
    void *(*open)(char why[VC_HTTP_WHY]);
    void (*close)(void *handle);
    /* why: filled where the end is BROKEN or FAILED; no secrets in it. */
    enum vc_http_end (*get)(void *handle, const struct vc_http_get *get, char why[VC_HTTP_WHY]);
};

typedef const struct vc_http *vc_http_entry_fn(void);
