/* fetch.h - bytes of a URL, by ranges: tries, redirects, who gets the token, and what makes an answer wrong.
 *
 *     429, 500, 502, 503, 504, a cut connection    again, after a pause that doubles (or as Retry-After says), from the
 *                                                  byte on that is missing; five times without a new byte
 *     301, 302, 303, 307, 308                      followed, ten at most, never from https to http; the token goes to the
 *                                                  endpoint's origin alone
 *     another ETag or length than before           the input changed
 *     200 in place of 206                          a server without ranges: good for the beginning of a file
 *
 * No answer is read further than was asked. */
#pragma once

#include "core/text/text.h"
#include <vcompress/remote.h>

#include "formats/remote/http.h"

#define VC_FETCH_UNKNOWN UINT64_MAX

struct vc_answer;

/* A connection, and what is sent with it. One thread at a time. */
struct vc_fetcher {
    const struct vc_http *http;
    void *handle;
    char *authorization;            /* "Bearer ..."; NULL: there is no token. The pool's, cleared before it is freed */
    char origin[256];               /* who may get it: "https://host:port" */
    unsigned seconds;               /* without a byte */
    double pause;                   /* before the second try, in seconds */
    struct vc_remote_info *traffic; /* whose requests and bytes are counted */
    struct vc_answer *answer;       /* of the request that is made; the pool's */
    char *next;                     /* two URLs, of redirects; the pool's */
};

/* What is known of one URL. Zeros, `url`, and `size` where a list has told it (else VC_FETCH_UNKNOWN), before the first
 * call. */
struct vc_fetched {
    const char *url;
    char *target; /* where redirects lead; the pool's; NULL: not known */
    uint64_t size;
    char etag[128];
};

/* Loads the plug-in and reads the environment. endpoint: "https://host", whose origin gets the token; NULL: nobody does.
 * Release in any case. */
enum vc_status vc_fetcher_open(struct vc_ctx *ctx, const char *endpoint, struct vc_remote_info *traffic,
                               struct vc_fetcher *out);
void vc_fetcher_close(struct vc_ctx *ctx, struct vc_fetcher *fetcher);

/* Both are of one server: "https://host:port" is the same. A token goes to no other. */
bool vc_fetch_same_origin(const char *a, const char *b);

/* The URL is https, or http of this machine; else VC_E_UNSUPPORTED. */
enum vc_status vc_fetch_check_url(struct vc_ctx *ctx, const char *url);

/* Exactly n bytes from `offset` on, n > 0, in a file of known length. */
enum vc_status vc_fetch_range(struct vc_ctx *ctx, struct vc_fetcher *fetcher, struct vc_fetched *file, uint64_t offset,
                              void *dst, size_t n);

/* The first bytes of a file whose length is not known, at most n; sets file->size. *got tells how many. */
enum vc_status vc_fetch_head(struct vc_ctx *ctx, struct vc_fetcher *fetcher, struct vc_fetched *file, void *dst,
                             size_t n, size_t *got);

/* All of an answer whose length nobody knows, at most `most` bytes. */
enum vc_status vc_fetch_text(struct vc_ctx *ctx, struct vc_fetcher *fetcher, const char *url, size_t most,
                             struct vc_text *out);
