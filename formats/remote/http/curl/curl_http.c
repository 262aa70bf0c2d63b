/* curl_http.c - the plug-in vcompress_http.so: requests by libcurl, which checks certificates and knows proxies. */
#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "formats/remote/http.h"

/* Curl's own defaults check the certificate and the name in it; they are said all the same. */
#define CONNECT_SECONDS 30L

/* One connection at a time, which libcurl keeps open for the next request. */
struct handle {
    CURL *curl;
};

/* What callbacks of one request see. */
struct request {
    const struct vc_http_get *get;
    bool enough;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Once in a process, before any handle. */
static void start(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* NULL: no memory, in `why`. */
static void *open_handle(char why[VC_HTTP_WHY])
{
    struct handle *handle = calloc(1, sizeof *handle);

    (void)pthread_once(&once, start);
    if (handle != NULL) {
        handle->curl = curl_easy_init();
    }
    if (handle == NULL || handle->curl == NULL) {
        (void)snprintf(why, VC_HTTP_WHY, "not enough memory");
        free(handle);
        return NULL;
    }
    return handle;
}

static void close_handle(void *user)
{
    struct handle *handle = user;

    if (handle != NULL) {
        curl_easy_cleanup(handle->curl);
        free(handle);
    }
}

static size_t on_header(char *line, size_t size, size_t n, void *user)
{
    struct request *request = user;

    request->get->header(request->get->user, line, size * n);
    return size * n;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *user)
{
    struct request *request = user;

    request->enough = request->enough || !request->get->body(request->get->user, bytes, size * n);
    return request->enough ? 0 : size * n;
}

static int on_progress(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    struct request *request = user;

    (void)a, (void)b, (void)c, (void)d;
    request->enough = request->enough || request->get->stop(request->get->user);
    return request->enough ? 1 : 0;
}

/* Everything of the request that is not the URL. */
static void set_options(CURL *curl, struct request *request)
{
    const char *certificates = getenv("SSL_CERT_FILE");

    curl_easy_setopt(curl, CURLOPT_URL, request->get->url);
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
    curl_easy_setopt(curl, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    if (strncasecmp(request->get->url, "http:", 5) == 0) { /* to this machine: no proxy of another one sees it */
        curl_easy_setopt(curl, CURLOPT_PROXY, "");
    }
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)request->get->seconds);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "vcompress/" VC_VERSION_STRING);
    curl_easy_setopt(curl, CURLOPT_RANGE, request->get->range);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, request);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, request);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, request);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    if (certificates != NULL && certificates[0] != '\0') {
        curl_easy_setopt(curl, CURLOPT_CAINFO, certificates);
    }
}

/* Another try cannot help where the name or the certificate is wrong. */
static bool is_final(CURLcode code)
{
    switch (code) {
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_OUT_OF_MEMORY:
        return true;
    default:
        return false;
    }
}

static enum vc_http_end get_once(void *user, const struct vc_http_get *get, char why[VC_HTTP_WHY])
{
    struct handle *handle = user;
    struct request request = {.get = get};
    struct curl_slist *headers = NULL;
    char error[CURL_ERROR_SIZE] = "";
    char *line = NULL;
    CURLcode code = CURLE_OUT_OF_MEMORY;

    curl_easy_reset(handle->curl);
    set_options(handle->curl, &request);
    curl_easy_setopt(handle->curl, CURLOPT_ERRORBUFFER, error);
    if (get->authorization != NULL) {
        size_t n = sizeof "Authorization: " + strlen(get->authorization);

        line = malloc(n);
        if (line == NULL) {
            goto out;
        }
        (void)snprintf(line, n, "Authorization: %s", get->authorization);
        headers = curl_slist_append(NULL, line);
        if (headers == NULL) {
            goto out;
        }
        curl_easy_setopt(handle->curl, CURLOPT_HTTPHEADER, headers);
    }
    code = curl_easy_perform(handle->curl);
out:
    curl_easy_setopt(handle->curl, CURLOPT_HTTPHEADER, NULL);
    curl_easy_setopt(handle->curl, CURLOPT_ERRORBUFFER, NULL);
    curl_slist_free_all(headers);
    if (line != NULL) {
        memset(line, 0, strlen(line));
        free(line);
    }
    if (code == CURLE_OK) {
        return VC_HTTP_ANSWERED;
    }
    (void)snprintf(why, VC_HTTP_WHY, "%.250s", error[0] != '\0' ? error : curl_easy_strerror(code));
    if (request.enough) {
        return VC_HTTP_ENOUGH;
    }
    return is_final(code) ? VC_HTTP_FAILED : VC_HTTP_BROKEN;
}

static const struct vc_http table = {.abi = VC_HTTP_ABI,
                                     .struct_size = sizeof table,
                                     .name = "libcurl",
                                     .open = open_handle,
                                     .close = close_handle,
                                     .get = get_once};

__attribute__((visibility("default"))) const struct vc_http *vc_http_entry(void);

const struct vc_http *vc_http_entry(void)
{
    return &table;
}
