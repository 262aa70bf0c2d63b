/* model_index.c - see model_index.h.
 *
 * No path of the file is followed: names of parts are checked to be one step below the folder. */
#include "formats/huggingface/model_index.h"

#include "formats/huggingface/config/hf_json.h"

/* The name of a folder beside the file: one step, not hidden. */
static bool is_folder_name(const char *name)
{
    return name[0] != '\0' && name[0] != '.' && strchr(name, '/') == NULL && strlen(name) <= 128;
}

static int compare_parts(const void *a, const void *b)
{
    return strcmp(((const struct vc_pipeline_part *)a)->name, ((const struct vc_pipeline_part *)b)->name);
}

/* A member of the object: a part where the value is the pair of a library and a class. A pair of nulls is a part that
 * the pipeline does without, anything else an option. */
static enum vc_status add_part(struct vc_ctx *ctx, struct vc_arena *arena, const char *key, const json_t *value,
                               struct vc_pipeline_part *parts, size_t *n)
{
    const char *library = json_string_value(json_array_get(value, 0));
    const char *class_name = json_string_value(json_array_get(value, 1));

    if (key[0] == '_' || json_array_size(value) != 2 || library == NULL || class_name == NULL) {
        return VC_OK;
    }
    VC_REFUSE_IF(!is_folder_name(key), ctx, VC_E_FORMAT, "has a part '%.100s', which is no name of a folder beside it",
                 key);
    VC_REFUSE_IF(*n == VC_MODEL_INDEX_MAX_PARTS, ctx, VC_E_UNSUPPORTED, "has more than %d parts",
                 VC_MODEL_INDEX_MAX_PARTS);
    struct vc_pipeline_part *part = &parts[(*n)++];
    part->name = vc_arena_printf(ctx, arena, "%s", key);
    part->library = vc_arena_printf(ctx, arena, "%.100s", library);
    part->class_name = vc_arena_printf(ctx, arena, "%.100s", class_name);
    VC_CALL_ALLOC(part->name);
    VC_CALL_ALLOC(part->library);
    VC_CALL_ALLOC(part->class_name);
    return VC_OK;
}

/* Room for all parts is taken at once, since there are few. */
enum vc_status vc_model_index_parse(struct vc_ctx *ctx, struct vc_arena *arena, const char *text, size_t n,
                                    struct vc_pipeline_part **parts, size_t *n_parts)
{
    VC_SCOPED_JSON struct hf_json json = {0};
    const char *key;
    json_t *value;

    *n_parts = 0;
    VC_CALL_ALLOC(*parts = vc_arena_alloc(ctx, arena, VC_MODEL_INDEX_MAX_PARTS * sizeof **parts));
    VC_CALL(vc_hf_json_load(ctx, text, n, true, &json));
    VC_REFUSE_IF(!json_is_object(json.root), ctx, VC_E_FORMAT, "is no JSON object");
    json_object_foreach(json.root, key, value)
    {
        VC_CALL(add_part(ctx, arena, key, value, *parts, n_parts));
    }
    if (*n_parts > 1) {
        qsort(*parts, *n_parts, sizeof **parts, compare_parts);
    }
    return VC_OK;
}
