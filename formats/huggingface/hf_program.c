/* hf_program.c - see hf_program.h. Of the text only the sizes are understood here (hf_edit.h).
 *
 * graph/ builds a graph from the text; passes ask it for sizes, and change them, through vc_hf_program_sizes. Texts are
 * copied into the caller's arena. */
#include "formats/huggingface/hf_program.h"

#include "formats/huggingface/config/hf_config.h"
#include "formats/huggingface/config/hf_edit.h"
#include "formats/huggingface/config/hf_json.h"
#include "formats/huggingface/infolder.h"
#include "formats/io/side_file.h"

/* The functions of vc_program_sizes (core/model/program.h) for a config.json. */
static enum vc_status says(struct vc_ctx *ctx, const struct vc_program *program, enum vc_edit_key key, uint64_t number,
                           const char *tensor, bool *out)
{
    return vc_hf_edit_says(ctx, program->config, program->config_bytes, key, number, tensor, out);
}

static enum vc_status count_shared_experts(struct vc_ctx *ctx, const struct vc_program *program, uint64_t *n)
{
    return vc_hf_edit_shared(ctx, program->config, program->config_bytes, n);
}

/* program->config becomes the edited text; the old one stays in the arena. */
static enum vc_status edit(struct vc_ctx *ctx, const struct vc_edit *edits, size_t n, struct vc_arena *arena,
                           struct vc_program *program)
{
    VC_SCOPED_TEXT struct vc_text text = {.ctx = ctx};

    VC_CALL(vc_hf_edit(ctx, program->config, program->config_bytes, edits, n, &text));
    VC_CALL_ALLOC(program->config = vc_arena_copy(ctx, arena, text.data, text.n));
    program->config_bytes = text.n;
    return VC_OK;
}

const struct vc_program_sizes vc_hf_program_sizes = {
    .says = says, .shared_experts = count_shared_experts, .edit = edit};

/* The text as it is read strictly, so that graph/ may read it with any reader: no NaN, no tree that is much larger than
 * the text. The tree is written out again: what jansson accepted, without the NaN and large integers that hf_json.c
 * read as 0. */
static enum vc_status take_text(struct vc_ctx *ctx, const char *text, size_t n, struct vc_arena *arena,
                                struct vc_program *out)
{
    VC_SCOPED_JSON struct hf_json json = {0};
    enum vc_status status = VC_OK;

    VC_TRY(vc_hf_json_load(ctx, text, n, true, &json));
    size_t n_own = json_dumpb(json.root, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY);
    char *own = vc_arena_alloc(ctx, arena, n_own + 1);
    VC_TRY_ALLOC(own);
    (void)json_dumpb(json.root, own, n_own, JSON_COMPACT | JSON_ENCODE_ANY);
    own[n_own] = '\0';
    *out = (struct vc_program){.kind = VC_PROGRAM_CONFIG,
                               .config = own,
                               .config_bytes = n_own,
                               .config_path = VC_HF_CONFIG_NAME,
                               .sizes = &vc_hf_program_sizes};
out:
    return status == VC_E_FORMAT ? vc_context(ctx, "%s", VC_HF_CONFIG_NAME) : status;
}

/* A folder that was made in memory has the text there; else it is read beside the model. */
enum vc_status vc_hf_program_beside(struct vc_ctx *ctx, const struct vc_model *model, struct vc_arena *arena,
                                    struct vc_program *out)
{
    const char *place = model->folder != NULL ? vc_infolder_path(model->folder) : model->path;
    VC_SCOPED char *text = NULL;
    size_t n = 0;
    const char *made = model->folder != NULL ? vc_infolder_made(model->folder, VC_HF_CONFIG_NAME, &n) : NULL;

    if (made != NULL) {
        return take_text(ctx, made, n, arena, out);
    }
    VC_CALL(vc_hf_config_read_beside(ctx, place, &text, &n));
    if (text != NULL) {
        VC_CALL(take_text(ctx, text, n, arena, out));
    }
    return VC_OK;
}

/* A path that the user gave for a configuration alone: a missing file is a failure here. */
enum vc_status vc_hf_program_read(struct vc_ctx *ctx, const char *path, struct vc_arena *arena, struct vc_program *out)
{
    const char *inside = vc_infolder_is(path) ? vc_arena_printf(ctx, arena, "%s/%s", path, VC_HF_CONFIG_NAME) : path;
    struct vc_infile *file = NULL;
    char *text = NULL;
    bool there;
    enum vc_status status = VC_OK;

    *out = (struct vc_program){.kind = VC_PROGRAM_NONE};
    VC_TRY_ALLOC(inside);
    if (inside != path) {
        VC_TRY(vc_side_check(ctx, path, VC_HF_CONFIG_NAME, &there));
    }
    VC_TRY(vc_infile_open(ctx, inside, &file));
    VC_TRY(vc_infile_text(ctx, file, VC_HF_CONFIG_MAX_BYTES, &text));
    VC_TRY(take_text(ctx, text, (size_t)file->size_bytes, arena, out));
out:
    vc_infile_close(ctx, file);
    vc_free(ctx, text);
    return status;
}
