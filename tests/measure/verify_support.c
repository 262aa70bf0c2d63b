/* verify_support.c - see verify_support.h. */
#include "verify_support.h"

struct bytes st_file(const char *header, const void *data, size_t n)
{
    struct bytes b = {NULL, 0, 0};

    bytes_u64(&b, strlen(header));
    bytes_add(&b, header, strlen(header));
    bytes_add(&b, data, n);
    return b;
}

struct bytes st_zeros(const char *header, size_t n)
{
    struct bytes b = st_file(header, "", 0);

    bytes_fill(&b, 0, n);
    return b;
}

struct vc_verification *verify_bytes(struct vc_ctx *ctx, const struct bytes *b, struct vc_verify_options options)
{
    struct vc_verification *v = NULL;
    char path[512];
    int fd = walk_file_open(b->p, b->n, path, sizeof path);

    if (vc_verify(ctx, path, &options, &v) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    walk_file_close(fd, path);
    return v;
}

/* "error hole a|warning tied b" */
static void spell(const struct vc_verification *v, char *text, size_t n)
{
    size_t at = 0;
    size_t i;

    text[0] = '\0';
    for (i = 0; i < v->n_findings && at < n; i++) {
        const struct vc_finding *f = &v->findings[i];

        at += (size_t)snprintf(text + at, n - at, "%s%s %s%s%s", i == 0 ? "" : "|",
                               f->severity == VC_SEVERITY_ERROR ? "error" : "warning", f->id,
                               f->tensor[0] == '\0' ? "" : " ", f->tensor);
    }
}

void expect_at(const char *path, struct vc_verify_options options, const char *wanted)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_verification *v = NULL;
    char found[4096];
    size_t i;

    if (vc_verify(ctx, path, &options, &v) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    spell(v, found, sizeof found);
    if (strcmp(found, wanted) != 0) {
        for (i = 0; i < v->n_findings; i++) {
            print_message("%s: %s: %s\n", v->findings[i].id, v->findings[i].tensor, v->findings[i].sentence);
        }
        fail_msg("found '%s', expected '%s'", found, wanted);
    }
    for (i = 0; i < v->n_findings; i++) {
        assert_true(strlen(v->findings[i].sentence) > 5);
        assert_null(strchr(v->findings[i].sentence, '\n'));
    }
    assert_int_equal(v->n_errors + v->n_warnings, v->n_findings);
    vc_result_free(v);
    vc_ctx_free(ctx);
}

void expect(const struct bytes *b, struct vc_verify_options options, const char *wanted)
{
    char path[512];
    int fd = walk_file_open(b->p, b->n, path, sizeof path);

    expect_at(path, options, wanted);
    walk_file_close(fd, path);
}
