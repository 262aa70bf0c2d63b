/* fetch.c - see fetch.h. Sentences name the host, never the whole URL: what signed URLs have behind '?' is a secret, too. */
#include "formats/remote/fetch.h"

#include <strings.h>
#include <time.h>

#include "formats/remote/environment.h"

#define SCHEME_END    "://"
#define SECURE        "https://"
#define PLAIN         "http://"
#define MAX_REDIRECTS 10
#define MAX_TRIES     5
#define MAX_URL       8192
#define MAX_PAUSE     60.0
#define MAX_SKIPPED   ((size_t)64 << 10)
#define FEW_BYTES     64 /* an answer of fewer that are not the last ones is no progress */

/* ---- URLs ---- */

/* Length of "https://host:port". */
static size_t origin_bytes(const char *url)
{
    const char *host = strstr(url, SCHEME_END);

    return host != NULL ? (size_t)(host - url) + 3 + strcspn(host + 3, "/?#") : 0;
}

bool vc_fetch_same_origin(const char *a, const char *b)
{
    size_t n = origin_bytes(a);

    return n == origin_bytes(b) && strncmp(a, b, n) == 0;
}

static bool is_secure(const char *url)
{
    return strncasecmp(url, SECURE, strlen(SECURE)) == 0;
}

/* http is for servers of this machine: what is sent does not leave it. */
static bool is_local(const char *url)
{
    static const char *const hosts[] = {"localhost", "127.0.0.1", "[::1]"};
    bool plain = strncmp(url, PLAIN, strlen(PLAIN)) == 0;

    for (size_t i = 0; plain && i < sizeof hosts / sizeof hosts[0]; i++) {
        const char *behind = url + strlen(PLAIN);
        size_t n = strlen(hosts[i]);

        if (strncmp(behind, hosts[i], n) == 0 && (behind[n] == '\0' || behind[n] == ':' || behind[n] == '/')) {
            return true;
        }
    }
    return false;
}

enum vc_status vc_fetch_check_url(struct vc_ctx *ctx, const char *url)
{
    size_t n = origin_bytes(url);

    for (const char *c = url; *c != '\0'; c++) {
        VC_REFUSE_IF((unsigned char)*c <= ' ' || *c == 0x7f, ctx, VC_E_UNSUPPORTED,
                     "an address has no blanks and no control characters");
    }
    VC_REFUSE_IF(memchr(url, '@', n) != NULL, ctx, VC_E_UNSUPPORTED,
                 "names and passwords in an address are not taken; tokens come from the environment");
    VC_REFUSE_IF(!is_secure(url) && !is_local(url), ctx, VC_E_UNSUPPORTED,
                 "%.*s: only https is read (http of this machine, too)", (int)vc_min_u64(n, 200), url);
    return VC_OK;
}

/* ---- one request ---- */

struct vc_answer {
    struct vc_ctx *ctx;
    long status;
    uint64_t first, total; /* of Content-Range; UNKNOWN: it does not say */
    uint64_t length;       /* Content-Length; UNKNOWN */
    char etag[128];        /* or the time of the last change, where there is none */
    char location[MAX_URL];
    unsigned retry_after; /* seconds; 0: it does not say */
    bool coded;           /* the bytes are compressed, which nobody asked for */
    unsigned char *to;    /* NULL: into `text` */
    size_t most, got;
    bool more;      /* there was more than `most` */
    bool cut;       /* it ended too early */
    size_t skipped; /* bytes of answers that are not read */
    struct vc_text *text;
};

/* The value of a header where the line is one of that name; NULL: it is another. */
static const char *value_of(const char *line, size_t n, const char *name)
{
    size_t n_name = strlen(name);

    if (n <= n_name || strncasecmp(line, name, n_name) != 0 || line[n_name] != ':') {
        return NULL;
    }
    line += n_name + 1;
    return line + strspn(line, " \t");
}

static void copy_value(char *to, size_t room, const char *value)
{
    size_t n = strcspn(value, "\r\n");

    if (n < room) {
        memcpy(to, value, n);
        to[n] = '\0';
    }
}

static uint64_t number_at(const char *text)
{
    char *end;
    unsigned long long v = text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : UINT64_MAX;

    return v;
}

/* What headers say, before the first of them. */
static void begin_answer(struct vc_answer *a, long status)
{
    a->status = status;
    a->first = a->total = a->length = VC_FETCH_UNKNOWN;
    a->etag[0] = a->location[0] = '\0';
    a->retry_after = 0;
    a->coded = false;
}

/* The line is not terminated; lines that are too long say nothing. */
static void on_header(void *user, const char *bytes, size_t n)
{
    struct vc_answer *a = user;
    char line[MAX_URL];
    const char *value;

    if (n >= sizeof line) {
        return;
    }
    memcpy(line, bytes, n);
    line[n] = '\0';
    if (strncmp(line, "HTTP/", 5) == 0) { /* of the last answer, where there are several ("103 Early Hints") */
        const char *blank = strchr(line, ' ');

        begin_answer(a, blank != NULL ? strtol(blank, NULL, 10) : 0);
    } else if ((value = value_of(line, n, "Content-Range")) != NULL && strncmp(value, "bytes ", 6) == 0) {
        const char *slash = strchr(value, '/');

        a->first = number_at(value + 6);
        a->total = slash != NULL ? number_at(slash + 1) : VC_FETCH_UNKNOWN;
    } else if ((value = value_of(line, n, "Content-Length")) != NULL) {
        a->length = number_at(value);
    } else if ((value = value_of(line, n, "ETag")) != NULL ||
               (a->etag[0] == '\0' && (value = value_of(line, n, "Last-Modified")) != NULL)) {
        /* Of several servers behind one address some say that it is weak, others not. */
        copy_value(a->etag, sizeof a->etag, strncmp(value, "W/", 2) == 0 ? value + 2 : value);
    } else if ((value = value_of(line, n, "Location")) != NULL) {
        copy_value(a->location, sizeof a->location, value);
    } else if ((value = value_of(line, n, "Retry-After")) != NULL) {
        uint64_t seconds = number_at(value); /* unknown: it is a date */

        a->retry_after = seconds != VC_FETCH_UNKNOWN ? (unsigned)vc_min_u64(seconds, (uint64_t)MAX_PAUSE) : 0;
    } else if ((value = value_of(line, n, "Content-Encoding")) != NULL) {
        a->coded = strncasecmp(value, "identity", 8) != 0;
    }
}

/* What is said with an error or a redirect is not kept; where it is short the connection is good for the next one. */
static bool on_body(void *user, const void *bytes, size_t n)
{
    struct vc_answer *a = user;

    if (a->status != 200 && a->status != 206) {
        a->skipped += n;
        return a->skipped < MAX_SKIPPED;
    }
    size_t part = (size_t)vc_min_u64(n, a->most - a->got);
    if (a->to != NULL) {
        memcpy(a->to + a->got, bytes, part);
    } else {
        vc_text_add_bytes(a->text, bytes, part);
    }
    a->got += part;
    a->more = part < n;
    return !a->more && (a->text == NULL || a->text->status == VC_OK);
}

static bool on_stop(void *user)
{
    const struct vc_answer *a = user;

    return atomic_load(&a->ctx->shared->cancelled) != 0;
}

/* One request without redirects; the token only where the origin is the endpoint's. */
static enum vc_http_end get_once(struct vc_fetcher *f, const char *url, const char *range, struct vc_answer *a,
                                 char why[VC_HTTP_WHY])
{
    bool trusted = f->authorization != NULL && vc_fetch_same_origin(url, f->origin);
    const struct vc_http_get get = {.url = url,
                                    .range = range,
                                    .authorization = trusted ? f->authorization : NULL,
                                    .seconds = f->seconds,
                                    .user = a,
                                    .header = on_header,
                                    .body = on_body,
                                    .stop = on_stop};

    begin_answer(a, 0);
    a->more = false;
    a->skipped = 0;
    enum vc_http_end end = f->http->get(f->handle, &get, why);
    a->cut = end == VC_HTTP_BROKEN;
    f->traffic->n_requests++;
    f->traffic->n_bytes += a->got;
    return end;
}

/* "https://cdn/x", "//cdn/x", "/x", "x", "?x" behind `url`. false: nothing, or one that is not followed. */
static bool follow(const char *url, const char *location, char next[MAX_URL])
{
    const char *mark = strstr(location, SCHEME_END);
    size_t n = origin_bytes(url);
    int length = -1;

    if (mark != NULL && mark < location + strcspn(location, "/?")) {
        length = snprintf(next, MAX_URL, "%s", location);
    } else if (location[0] == '/' && location[1] == '/') {
        length = snprintf(next, MAX_URL, "%s%s", is_secure(url) ? "https:" : "http:", location);
    } else if (location[0] != '\0') {
        size_t kept = location[0] == '/' ? n : strcspn(url, "?#");

        while (kept > n && location[0] != '?' && url[kept - 1] != '/') {
            kept--;
        }
        length =
            snprintf(next, MAX_URL, "%.*s%s%s", (int)kept, url, kept == n && location[0] != '/' ? "/" : "", location);
    }
    return length > 0 && length < MAX_URL && memchr(next, '@', origin_bytes(next)) == NULL &&
           (is_secure(next) || (!is_secure(url) && is_local(next)));
}

static bool is_redirect(long status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* A request with its redirects. *target: the URL that answered, where that is another one. */
static enum vc_status get(struct vc_ctx *ctx, struct vc_fetcher *f, const char *url, const char *range,
                          struct vc_answer *a, char **target, enum vc_http_end *end, char why[VC_HTTP_WHY])
{
    const char *at = url;

    *end = get_once(f, at, range, a, why);
    for (unsigned n = 0; is_redirect(a->status); n++) {
        char *to = f->next + (n % 2) * (size_t)MAX_URL;

        VC_CALL(vc_check_cancelled(ctx));
        VC_REFUSE_IF(n == MAX_REDIRECTS || !follow(at, a->location, to), ctx, VC_E_IO, "%.*s: %s",
                     (int)vc_min_u64(origin_bytes(at), 200), at,
                     n == MAX_REDIRECTS ? "too many redirects" : "a redirect that is not followed");
        at = to;
        *end = get_once(f, at, range, a, why);
    }
    if (at != url && target != NULL && (a->status == 200 || a->status == 206)) {
        vc_free(ctx, *target);
        VC_CALL_ALLOC(*target = vc_strdup(ctx, VC_TAG_IO, at));
    }
    return VC_OK;
}

/* ---- tries ---- */

static enum vc_status pause_for(struct vc_ctx *ctx, double seconds)
{
    for (double left = seconds; left > 0; left -= 0.05) {
        double part = left < 0.05 ? left : 0.05;
        const struct timespec slice = {0, (long)(part * 1e9)};

        VC_CALL(vc_check_cancelled(ctx));
        (void)nanosleep(&slice, NULL);
    }
    return vc_check_cancelled(ctx);
}

/* Another try may have an answer. */
static bool is_passing(enum vc_http_end end, const struct vc_answer *a)
{
    long s = a->status;

    return end == VC_HTTP_BROKEN || s == 408 || s == 429 || (s >= 500 && s != 501 && s != 505);
}

static enum vc_status refuse_status(struct vc_ctx *ctx, const struct vc_fetcher *f, const char *url, long status)
{
    int n = (int)vc_min_u64(origin_bytes(url), 200);

    VC_REFUSE_IF(status == 401 || status == 403, ctx, VC_E_IO, "%.*s answers %ld: %s", n, url, status,
                 f->authorization != NULL
                     ? "the token has no access; for a gated model its terms have to be accepted first"
                     : "it wants a token (HF_TOKEN, or the hub's own login), or there is no such model");
    if (status == 404 || status == 410) {
        return vc_fail(ctx, VC_E_IO, "%.*s answers %ld: there is no such model, revision or file", n, url, status);
    }
    return vc_fail(ctx, VC_E_IO, "%.*s answers %ld", n, url, status);
}

/* Asks until there is an answer of 200 or 206, or none can be had. *tries: without a new byte so far. */
static enum vc_status ask(struct vc_ctx *ctx, struct vc_fetcher *f, struct vc_fetched *file, const char *range,
                          struct vc_answer *a, unsigned *tries)
{
    bool led = file->target != NULL;
    char why[VC_HTTP_WHY] = "";
    enum vc_http_end end = VC_HTTP_FAILED;

    for (;;) {
        VC_CALL(vc_check_cancelled(ctx));
        VC_CALL(get(ctx, f, led ? file->target : file->url, range, a, &file->target, &end, why));
        VC_CALL(vc_check_cancelled(ctx));
        if (led && (a->status == 400 || a->status == 401 || a->status == 403 || a->status == 404 || a->status == 410)) {
            led = false; /* signed addresses are good for a while */
            continue;
        }
        if (!is_passing(end, a)) {
            break;
        }
        if (a->got != 0) {
            return VC_OK; /* what came of a cut answer counts */
        }
        VC_REFUSE_IF(++*tries > MAX_TRIES, ctx, VC_E_IO, "%.*s gives no answer after %u tries: %s",
                     (int)vc_min_u64(origin_bytes(file->url), 200), file->url, *tries,
                     end == VC_HTTP_BROKEN ? why
                     : a->status == 429    ? "too many requests (429)"
                                           : "errors of the server");
        double wait = f->pause * (double)(1u << (*tries - 1));
        wait = a->retry_after > wait ? a->retry_after : wait;
        VC_CALL(pause_for(ctx, wait < MAX_PAUSE ? wait : MAX_PAUSE));
    }
    VC_REFUSE_IF(end == VC_HTTP_FAILED, ctx, VC_E_IO, "%.*s: %s", (int)vc_min_u64(origin_bytes(file->url), 200),
                 file->url, why);
    VC_RETURN_IF(a->status != 200 && a->status != 206 && a->status != 416, refuse_status(ctx, f, file->url, a->status));
    VC_REFUSE_IF(a->coded, ctx, VC_E_IO, "the server compresses its answers, which was not asked for");
    return a->text != NULL ? a->text->status : VC_OK;
}

/* ---- what an answer says of the file ---- */

static enum vc_status refuse_change(struct vc_ctx *ctx)
{
    return vc_fail(ctx, VC_E_FORMAT, "was changed while it was read");
}

/* The answer is of the same file, and of the range that was asked for. */
static enum vc_status check_answer(struct vc_ctx *ctx, struct vc_fetched *file, const struct vc_answer *a,
                                   uint64_t offset)
{
    uint64_t total = a->status == 206 ? a->total : a->length;

    if (a->status == 200 && total == VC_FETCH_UNKNOWN && !a->more && !a->cut) { /* in chunks, and it came whole */
        total = a->got;
    }
    if (a->status == 416 || (file->size != VC_FETCH_UNKNOWN && total != VC_FETCH_UNKNOWN && total != file->size) ||
        (file->etag[0] != '\0' && a->etag[0] != '\0' && strcmp(file->etag, a->etag) != 0)) {
        return refuse_change(ctx);
    }
    VC_REFUSE_IF(a->status == 206 && a->first != offset, ctx, VC_E_IO,
                 "the server answers with another range than was asked for");
    VC_REFUSE_IF(a->status == 200 && offset != 0, ctx, VC_E_UNSUPPORTED,
                 "the server gives no ranges; the file has to be downloaded");
    VC_REFUSE_IF(a->more && a->status == 206, ctx, VC_E_IO, "the server gives more bytes than were asked for");
    if (file->size == VC_FETCH_UNKNOWN) {
        VC_REFUSE_IF(total == VC_FETCH_UNKNOWN, ctx, VC_E_UNSUPPORTED, "the server does not say how long the file is");
        file->size = total;
    }
    if (file->etag[0] == '\0') {
        memcpy(file->etag, a->etag, sizeof file->etag);
    }
    return VC_OK;
}

enum vc_status vc_fetch_range(struct vc_ctx *ctx, struct vc_fetcher *f, struct vc_fetched *file, uint64_t offset,
                              void *dst, size_t n)
{
    struct vc_answer *a = f->answer;
    size_t got = 0;
    unsigned tries = 0;

    while (got < n) {
        char range[64];

        *a = (struct vc_answer){.ctx = ctx, .to = (unsigned char *)dst + got, .most = n - got};
        (void)snprintf(range, sizeof range, "%" PRIu64 "-%" PRIu64, offset + got, offset + n - 1);
        VC_CALL(ask(ctx, f, file, range, a, &tries));
        VC_CALL(check_answer(ctx, file, a, offset + got));
        tries = a->got >= vc_min_u64(FEW_BYTES, n - got) ? 0 : tries + 1;
        got += a->got;
        VC_REFUSE_IF(got < n && tries > MAX_TRIES, ctx, VC_E_IO, "the server gives few bytes at a time, or none");
    }
    return VC_OK;
}

enum vc_status vc_fetch_head(struct vc_ctx *ctx, struct vc_fetcher *f, struct vc_fetched *file, void *dst, size_t n,
                             size_t *got)
{
    struct vc_answer *a = f->answer;
    unsigned tries = 0;
    size_t rest = 0;
    char range[64];

    *got = 0;
    *a = (struct vc_answer){.ctx = ctx, .to = dst, .most = n};
    (void)snprintf(range, sizeof range, "0-%zu", n - 1);
    VC_CALL(ask(ctx, f, file, range, a, &tries));
    VC_REFUSE_IF(a->status == 416, ctx, VC_E_FORMAT, "is empty (0 bytes)");
    VC_CALL(check_answer(ctx, file, a, 0));
    *got = a->got;
    if (*got < n && *got < file->size) { /* it was cut, or the server gives less at a time */
        rest = (size_t)vc_min_u64(n, file->size) - *got;
        VC_CALL(vc_fetch_range(ctx, f, file, *got, (unsigned char *)dst + *got, rest));
    }
    *got += rest;
    return VC_OK;
}

enum vc_status vc_fetch_text(struct vc_ctx *ctx, struct vc_fetcher *f, const char *url, size_t most,
                             struct vc_text *out)
{
    struct vc_fetched file = {.url = url, .size = VC_FETCH_UNKNOWN};
    struct vc_answer *a = f->answer;
    unsigned tries = 0;
    enum vc_status status = VC_OK;
    bool whole = false;

    while (!whole) { /* a cut answer is asked for again from its beginning: lists have no ranges */
        out->n = 0;
        *a = (struct vc_answer){.ctx = ctx, .text = out, .most = most};
        VC_TRY(ask(ctx, f, &file, NULL, a, &tries));
        if (a->more) {
            VC_TRY(vc_fail(ctx, VC_E_FORMAT, "an answer of more than %zu bytes", most));
        }
        whole = !a->cut && (a->length == VC_FETCH_UNKNOWN || a->got == a->length);
        if (!whole && ++tries > MAX_TRIES) {
            VC_TRY(
                vc_fail(ctx, VC_E_IO, "%.*s gives answers that are cut", (int)vc_min_u64(origin_bytes(url), 200), url));
        }
    }
out:
    vc_free(ctx, file.target);
    return status;
}

/* ---- open, close ---- */

enum vc_status vc_fetcher_open(struct vc_ctx *ctx, const char *endpoint, struct vc_remote_info *traffic,
                               struct vc_fetcher *out)
{
    char why[VC_HTTP_WHY] = "";
    size_t n = endpoint != NULL ? origin_bytes(endpoint) : 0;

    *out = (struct vc_fetcher){.seconds = vc_http_timeout(), .pause = vc_http_pause(), .traffic = traffic};
    VC_CALL_ALLOC(out->answer = vc_calloc_array(ctx, VC_TAG_IO, 1, sizeof *out->answer));
    VC_CALL_ALLOC(out->next = vc_alloc(ctx, VC_TAG_IO, 2 * (size_t)MAX_URL));
    VC_CALL(vc_http_load(ctx, &out->http));
    out->handle = out->http->open(why);
    VC_REFUSE_IF(out->handle == NULL, ctx, VC_E_DEVICE, "%s could not begin: %s", out->http->name, why);
    if (endpoint != NULL) {
        VC_CALL(vc_fetch_check_url(ctx, endpoint));
        VC_REFUSE_IF(n >= sizeof out->origin, ctx, VC_E_UNSUPPORTED, "HF_ENDPOINT is too long");
        memcpy(out->origin, endpoint, n);
        VC_CALL(vc_hub_token(ctx, &out->authorization));
    }
    return VC_OK;
}

void vc_fetcher_close(struct vc_ctx *ctx, struct vc_fetcher *f)
{
    if (f->http != NULL && f->handle != NULL) {
        f->http->close(f->handle);
    }
    if (f->authorization != NULL) {
        memset(f->authorization, 0, strlen(f->authorization));
        vc_free(ctx, f->authorization);
    }
    VC_FREE_ALL(ctx, f->answer, f->next);
    *f = (struct vc_fetcher){.http = NULL};
}
