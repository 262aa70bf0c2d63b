/* weight_index.c - see weight_index.h. Opens no files. */
#include "formats/huggingface/weight_index.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/findings.h"
#include "formats/io/json_walk.h"

/* A name of a file in the folder, not a path that leads elsewhere. */
static bool is_plain_name(const char *name)
{
    return name[0] != '\0' && strchr(name, '/') == NULL && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static enum vc_status check_value(struct vc_ctx *ctx, const char *tensor, const json_t *value)
{
    const char *name = json_string_value(value);

    if (name == NULL) {
        return vc_fail(ctx, VC_E_FORMAT, "%s: its file in \"weight_map\" is no string", tensor);
    }
    if (!is_plain_name(name)) {
        return vc_fail(ctx, VC_E_FORMAT, "%s: its file in \"weight_map\" is '%.200s', expected a name without folders",
                       tensor, name);
    }
    return VC_OK;
}

/* Every value of the map has to be the name of a file. With findings, entries that are none leave the map. */
static enum vc_status check_values(struct vc_ctx *ctx, const struct weight_index *index)
{
    enum vc_status status = VC_OK;
    const char *tensor;
    json_t *value;
    void *next;

    json_object_foreach_safe(index->map, next, tensor, value)
    {
        status = check_value(ctx, tensor, value);
        if (status != VC_OK) {
            VC_TRY(vc_collect(ctx, status, "index", tensor));
            (void)json_object_del(index->map, tensor);
        }
    }
out:
    return status;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The files that the map names, each once, sorted. */
static enum vc_status list_files(struct vc_ctx *ctx, struct weight_index *index)
{
    size_t n = json_object_size(index->map);
    const char **names = vc_alloc_array(ctx, VC_TAG_NAMES, n, sizeof *names);
    enum vc_status status = VC_OK;
    const char *tensor;
    json_t *value;
    size_t i = 0;

    VC_TRY_ALLOC(names);
    json_object_foreach(index->map, tensor, value)
    {
        names[i++] = json_string_value(value);
    }
    if (n > 1) {
        qsort(names, n, sizeof *names, compare_names);
    }
    for (i = 0; i < n; i++) {
        index->n_files += i == 0 || strcmp(names[i - 1], names[i]) != 0;
    }
    index->files = vc_arena_alloc(ctx, &index->arena, index->n_files * sizeof *index->files);
    VC_TRY_ALLOC(index->files);
    index->n_files = 0;
    for (i = 0; i < n; i++) {
        if (i == 0 || strcmp(names[i - 1], names[i]) != 0) {
            const char *copy = vc_arena_printf(ctx, &index->arena, "%s", names[i]);

            VC_TRY_ALLOC(copy);
            index->files[index->n_files++] = copy;
        }
    }
out:
    vc_free(ctx, names);
    return status;
}

enum vc_status vc_weight_index_read(struct vc_ctx *ctx, const struct vc_infile *file, struct weight_index *out)
{
    char *text = NULL;
    json_t *root = NULL;
    enum vc_status status = VC_OK;

    *out = (struct weight_index){.n_files = 0};
    if (file->size_bytes > VC_INDEX_MAX_BYTES) {
        return vc_fail(ctx, VC_E_FORMAT, "has %" PRIu64 " bytes; an index of up to %" PRIu64 " is read",
                       file->size_bytes, VC_INDEX_MAX_BYTES);
    }
    text = vc_alloc(ctx, VC_TAG_IO, (size_t)file->size_bytes);
    VC_TRY_ALLOC(text);
    VC_TRY(vc_infile_read(ctx, file, 0, text, (size_t)file->size_bytes));
    if (vc_json_tree_load(ctx, text, (size_t)file->size_bytes, &root, &out->tree_bytes) != VC_OK) {
        VC_TRY(vc_context(ctx, ctx->status == VC_E_FORMAT ? "is no valid JSON" : "is an index"));
    }
    out->root = root;
    out->map = json_object_get(root, "weight_map");
    if (!json_is_object(out->map)) {
        VC_TRY(vc_fail(ctx, VC_E_FORMAT, "has no object \"weight_map\""));
    }
    VC_TRY(check_values(ctx, out));
    VC_TRY(list_files(ctx, out));
out:
    vc_free(ctx, text);
    return status;
}

/* ---- checking ---- */

/* total_size against the tensors. Loaders do not look at it, so a wrong one becomes a note and is no reason to refuse.
 * */
static enum vc_status check_total(struct vc_ctx *ctx, const struct weight_index *index, const char *name,
                                  uint64_t bytes, struct vc_model *model)
{
    static const char sentence[] =
        "%s: its total_size is %" JSON_INTEGER_FORMAT ", but the tensors have %" PRIu64 " bytes";
    const json_t *total = json_object_get(json_object_get(index->root, "metadata"), "total_size");

    if (!json_is_integer(total) || (uint64_t)json_integer_value(total) == bytes) {
        return VC_OK;
    }
    if (vc_collecting(ctx)) { /* tensors that are left out explain it */
        return ctx->findings->n_errors != 0 ? VC_OK
                                            : vc_find(ctx, VC_SEVERITY_WARNING, "total-size", NULL, sentence, name,
                                                      json_integer_value(total), bytes);
    }
    return vc_model_add_fact(ctx, model, VC_FACT_NOTE, sentence, name, json_integer_value(total), bytes);
}

/* A tensor that was found in a file has to be in the index, with that file. */
static enum vc_status check_tensor(struct vc_ctx *ctx, const struct weight_index *index, const char *name,
                                   const char *tensor, const char *file)
{
    const char *said = json_string_value(json_object_get(index->map, tensor));
    enum vc_status status = VC_OK;

    if (said == NULL && vc_collecting(ctx) && vc_findings_has(ctx->findings, tensor)) {
        return VC_OK; /* it has, and cannot be used */
    }
    if (said == NULL) {
        status = vc_fail(ctx, VC_E_FORMAT, "%s: lies in %s, but %s does not have it", tensor, file, name);
    } else if (strcmp(said, file) != 0) {
        status = vc_fail(ctx, VC_E_FORMAT, "%s: lies in %s, but %s has it in %s", tensor, file, name, said);
    }
    return vc_collect(ctx, status, "index", tensor);
}

/* Whether a finding about the tensor, or about its file as a whole, explains already why it is not there. */
static bool said_already(const struct vc_ctx *ctx, const struct weight_index *index, const bool *lost,
                         const char *tensor, const char *file)
{
    const char **found;

    if (!vc_collecting(ctx)) {
        return false;
    }
    found = bsearch(&file, index->files, index->n_files, sizeof *index->files, compare_names);
    return vc_findings_has(ctx->findings, tensor) || (found != NULL && lost[found - index->files]);
}

enum vc_status vc_weight_index_check(struct vc_ctx *ctx, const struct weight_index *index, const char *name,
                                     const bool *lost, struct vc_model *model)
{
    enum vc_status status = VC_OK;
    uint64_t bytes = 0;
    const char *tensor;
    json_t *value;
    size_t i;

    for (i = 0; i < model->n_tensors; i++) {
        bytes += model->tensors[i].size_bytes;
        VC_TRY(check_tensor(ctx, index, name, model->tensors[i].name, index->files[model->io[i].shard]));
    }
    json_object_foreach(index->map, tensor, value)
    {
        if (vc_model_find(model, tensor) == VC_NO_TENSOR &&
            !said_already(ctx, index, lost, tensor, json_string_value(value))) {
            status = vc_fail(ctx, VC_E_FORMAT, "%s: %s has it in %s, which does not hold it", tensor, name,
                             json_string_value(value));
            VC_TRY(vc_collect(ctx, status, "index", tensor));
        }
    }
    status = check_total(ctx, index, name, bytes, model);
out:
    return status;
}

void vc_weight_index_forget(struct vc_ctx *ctx, struct weight_index *index)
{
    vc_json_tree_free(ctx, index->root, index->tree_bytes);
    index->root = NULL;
    index->map = NULL;
    index->tree_bytes = 0;
}

void vc_weight_index_release(struct vc_ctx *ctx, struct weight_index *index)
{
    vc_weight_index_forget(ctx, index);
    vc_arena_release(ctx, &index->arena);
    *index = (struct weight_index){.n_files = 0};
}

/* ---- writing ---- */

static int compare_entries(const void *a, const void *b)
{
    return strcmp(((const struct weight_index_entry *)a)->tensor, ((const struct weight_index_entry *)b)->tensor);
}

enum vc_status vc_weight_index_text(uint64_t total_size, size_t n, struct weight_index_entry *entries,
                                    struct vc_text *text)
{
    size_t i;

    if (n > 1) {
        qsort(entries, n, sizeof *entries, compare_entries);
    }
    vc_text_add(text, "{\n  \"metadata\": {\n    \"total_size\": %" PRIu64 "\n  },\n  \"weight_map\": {", total_size);
    for (i = 0; i < n; i++) {
        vc_text_add(text, "%s\n    ", i == 0 ? "" : ",");
        vc_text_add_json_string(text, entries[i].tensor);
        vc_text_add(text, ": ");
        vc_text_add_json_string(text, entries[i].file);
    }
    vc_text_add(text, "%s}\n}\n", n == 0 ? "" : "\n  ");
    return text->status;
}
