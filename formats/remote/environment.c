/* environment.c - see environment.h. */
#include "formats/remote/environment.h"

#include <limits.h>
#include <strings.h>

#include "core/base/plugin.h"

#define HUB        "https://huggingface.co" /* where HF_ENDPOINT is not set */
#define MOST_TOKEN 1024
#define PACKAGE                                                                                                      \
    "it is built with libcurl (Debian: libcurl4-openssl-dev) and installed as component http; without it, download " \
    "the model first"

static const struct vc_plugin_kind http_plugin = {"VCOMPRESS_HTTP_PATH", VC_HTTP_FILE, VC_HTTP_SYMBOL, false};

/* A variable that is set and not empty; NULL: it is not. */
static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* A switch of the hub's own tools. */
static bool is_on(const char *name)
{
    const char *value = variable(name);

    return value != NULL && (strcmp(value, "1") == 0 || strcasecmp(value, "on") == 0 || strcasecmp(value, "yes") == 0 ||
                             strcasecmp(value, "true") == 0);
}

/* ---- the plug-in ---- */

static const struct vc_http *try_place(const char *path, char outcome[VC_PLUGIN_OUTCOME])
{
    vc_http_entry_fn *entry;
    void *symbol;
    void *library = vc_plugin_load(&http_plugin, path, &symbol, outcome);

    if (library == NULL) {
        return NULL;
    }
    memcpy(&entry, &symbol, sizeof entry); /* POSIX: a function pointer fits into void *, ISO C has no cast for it */
    const struct vc_http *http = entry();
    if (http == NULL || http->abi != VC_HTTP_ABI || http->struct_size < sizeof *http) {
        (void)snprintf(outcome, VC_PLUGIN_OUTCOME, "it was made for another version (ABI %u, this program needs %u)",
                       http != NULL ? (unsigned)http->abi : 0, VC_HTTP_ABI);
        vc_plugin_unload(library);
        return NULL;
    }
    return http;
}

enum vc_status vc_http_load(struct vc_ctx *ctx, const struct vc_http **out)
{
    VC_SCOPED struct vc_plugin_search *s = vc_alloc(ctx, VC_TAG_MISC, sizeof *s);
    char tried[VC_MESSAGE_BYTES];

    *out = NULL;
    VC_CALL_ALLOC(s);
    vc_plugin_list(&http_plugin, s);
    for (unsigned k = 0; k < s->n_places && *out == NULL; k++) {
        *out = try_place(s->places[k].path, s->places[k].outcome);
    }
    if (*out == NULL) {
        vc_plugin_tried(&http_plugin, s, tried, sizeof tried);
        return vc_fail(ctx, VC_E_DEVICE, "the plug-in " VC_HTTP_FILE " could not be loaded: %s; " PACKAGE, tried);
    }
    return VC_OK;
}

/* ---- the hub ---- */

enum vc_status vc_hub_endpoint(struct vc_ctx *ctx, char *buffer, size_t room)
{
    const char *value = variable("HF_ENDPOINT");

    value = value != NULL ? value : HUB;
    size_t n = strlen(value);
    VC_REFUSE_IF(is_on("HF_HUB_OFFLINE"), ctx, VC_E_IO, "HF_HUB_OFFLINE is set, so nothing is asked of the hub");
    VC_REFUSE_IF(n >= room, ctx, VC_E_UNSUPPORTED, "HF_ENDPOINT is too long");
    memcpy(buffer, value, n + 1);
    while (n > 0 && buffer[n - 1] == '/') {
        buffer[--n] = '\0';
    }
    return VC_OK;
}

/* The path of the token's file. */
static bool token_path(char path[PATH_MAX])
{
    const char *own = variable("HF_TOKEN_PATH");
    const char *home = variable("HF_HOME");
    const char *cache = variable("XDG_CACHE_HOME");
    const char *user = variable("HOME");
    int n = -1;

    if (own != NULL) {
        n = snprintf(path, PATH_MAX, "%s", own);
    } else if (home != NULL) {
        n = snprintf(path, PATH_MAX, "%s/token", home);
    } else if (cache != NULL) {
        n = snprintf(path, PATH_MAX, "%s/huggingface/token", cache);
    } else if (user != NULL) {
        n = snprintf(path, PATH_MAX, "%s/.cache/huggingface/token", user);
    }
    return n > 0 && n < PATH_MAX;
}

/* The first word of the file; false if there is none. */
static bool read_token(char token[MOST_TOKEN])
{
    char path[PATH_MAX];
    FILE *file = token_path(path) ? fopen(path, "re") : NULL;
    bool there = file != NULL && fgets(token, MOST_TOKEN, file) != NULL;

    if (file != NULL) {
        (void)fclose(file);
    }
    return there;
}

enum vc_status vc_hub_token(struct vc_ctx *ctx, char **out)
{
    static const char scheme[] = "Bearer ";
    const char *value = variable("HF_TOKEN");
    char token[MOST_TOKEN];
    enum vc_status status = VC_OK;

    *out = NULL;
    if (is_on("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
        return VC_OK;
    }
    value = value != NULL ? value : variable("HUGGING_FACE_HUB_TOKEN");
    if (value == NULL && read_token(token)) {
        value = token;
    }
    if (value == NULL) {
        return VC_OK;
    }
    value += strspn(value, " \t\r\n");
    size_t n = strcspn(value, " \t\r\n");
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)value[i] <= ' ' || (unsigned char)value[i] >= 0x7f) {
            VC_TRY(vc_fail(ctx, VC_E_ARGUMENT, "the hub's token has a character that no token has"));
        }
    }
    if (n == 0) {
        goto out;
    }
    VC_TRY_ALLOC(*out = vc_alloc(ctx, VC_TAG_IO, sizeof scheme + n));
    memcpy(*out, scheme, sizeof scheme - 1);
    memcpy(*out + sizeof scheme - 1, value, n);
    (*out)[sizeof scheme - 1 + n] = '\0';
out:
    memset(token, 0, sizeof token);
    return status;
}

/* ---- times ---- */

static double number(const char *name, double least, double most, double otherwise)
{
    const char *text = variable(name);
    char *end = NULL;
    double value = text != NULL ? strtod(text, &end) : otherwise;

    return end == NULL || (end != text && *end == '\0' && value >= least && value <= most) ? value : otherwise;
}

unsigned vc_http_timeout(void)
{
    return (unsigned)number("VCOMPRESS_HTTP_TIMEOUT", 1, 3600, 60);
}

double vc_http_pause(void)
{
    return number("VCOMPRESS_HTTP_RETRY", 0, 60, 0.5);
}
