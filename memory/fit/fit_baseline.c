/* fit_baseline.c - the peak of a fit document that was written before. */
#include <vcompress/fit.h>

#include <jansson.h>
#include <string.h>

#include "core/text/json_write.h"

static bool take(const json_t *bytes, uint64_t *peak)
{
    if (!json_is_integer(bytes) || json_integer_value(bytes) < 0) {
        return false;
    }
    *peak = (uint64_t)json_integer_value(bytes);
    return true;
}

/* That of the whole; of weights alone, or with activations that were given, that of the first device. */
enum vc_status vc_fit_read_peak(struct vc_ctx *ctx, const char *path, uint64_t *peak_bytes, bool *known)
{
    json_error_t error;
    uint64_t counted;
    enum vc_status status = VC_OK;

    vc_clear_error(ctx);
    *peak_bytes = 0;
    *known = false;
    VC_CALL(vc_json_charge_file(ctx, path, &counted));
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        vc_uncharge(ctx, counted);
        return vc_fail(ctx, json_error_code(&error) == json_error_cannot_open_file ? VC_E_IO : VC_E_FORMAT, "%s: %s",
                       path, error.text);
    }
    const char *schema = json_string_value(json_object_get(root, "schema"));
    if (schema == NULL || strcmp(schema, "vcompress.fit/1") != 0 || !json_is_array(json_object_get(root, "devices")) ||
        !json_is_object(json_object_get(root, "moments"))) {
        status = vc_fail(ctx, VC_E_FORMAT, "%s: is no document of the schema vcompress.fit/1", path);
        goto out;
    }
    if (take(json_object_get(json_object_get(json_object_get(root, "moments"), "peak"), "bytes"), peak_bytes)) {
        *known = true;
        goto out;
    }
    const json_t *device = json_array_get(json_object_get(root, "devices"), 0);
    const char *verdict = json_string_value(json_object_get(device, "verdict"));
    *known =
        verdict != NULL && strcmp(verdict, "unknown") != 0 && take(json_object_get(device, "peak_bytes"), peak_bytes);
out:
    json_decref(root);
    vc_uncharge(ctx, counted);
    return status;
}
