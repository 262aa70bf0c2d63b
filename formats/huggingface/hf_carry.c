/* hf_carry.c - see hf_carry.h. Copies files; of config.json the new text is made when the job is
 * planned (formats/huggingface/hf_rewrite.c), so that what it cannot say is refused before weights are read.
 *
 * A sink calls plan (layout), expect (before its files begin), check (several workers), write (after the weights),
 * release. Files are opened one after the other, and copied through one buffer of VC_CARRY_BYTES. */
#include "formats/huggingface/hf_carry.h"

#include "formats/huggingface/hf_rewrite.h"

#define VC_CARRY_BYTES ((size_t)256 << 10)
#define VC_NAMED_FILES 4

/* The config.json among the files that go along; NULL if there is none. */
static const struct vc_carried *find_config(const struct vc_infolder *from)
{
    for (size_t i = 0; i < vc_infolder_carried_count(from); i++) {
        if (strcmp(vc_infolder_carried(from, i)->name, VC_HF_CONFIG_NAME) == 0) {
            return vc_infolder_carried(from, i);
        }
    }
    return NULL;
}

/* Appends the whole of a small file to the text. */
static enum vc_status read_text(struct vc_ctx *ctx, struct vc_infolder *from, const struct vc_carried *carried,
                                struct vc_text *text)
{
    struct vc_infile *file = NULL;
    char *data = NULL;
    enum vc_status status;

    VC_TRY(vc_infolder_open_carried(ctx, from, carried, &file));
    VC_TRY(vc_infile_text(ctx, file, VC_HF_CONFIG_MAX_BYTES, &data));
    VC_TRY(vc_infile_check(ctx, file));
    vc_text_add_bytes(text, data, (size_t)file->size_bytes);
    status = text->status;
out:
    vc_free(ctx, data);
    vc_infile_close(ctx, file);
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", carried->name);
}

/* The text of the config.json that goes along, where that is a model's; empty otherwise, and where the file is empty or
 * too large to be one. */
static enum vc_status read_config(struct vc_ctx *ctx, struct vc_infolder *from, struct vc_text *text)
{
    const struct vc_carried *config = find_config(from);
    bool is_model;

    if (config == NULL || config->size_bytes == 0 || config->size_bytes > VC_HF_CONFIG_MAX_BYTES) {
        return VC_OK;
    }
    VC_CALL(read_text(ctx, from, config, text));
    VC_CALL(vc_hf_config_is_model(ctx, text->data, text->n, &is_model));
    if (!is_model) {
        vc_text_release(text);
        vc_text_init(text, ctx);
    }
    return VC_OK;
}

/* A folder without config.json unties nothing. */
enum vc_status vc_hf_carry_unties(struct vc_ctx *ctx, struct vc_infolder *from, bool *unties)
{
    VC_SCOPED_TEXT struct vc_text text = {.ctx = ctx};

    *unties = false;
    VC_CALL(read_config(ctx, from, &text));
    if (text.n != 0) {
        VC_CALL(vc_hf_config_unties(ctx, text.data, text.n, unties));
    }
    return VC_OK;
}

/* The new text of config.json, where the job changes what it says. A config.json of another program ({"port": 8080}) is
 * copied. */
static enum vc_status plan_config(struct vc_ctx *ctx, const struct vc_hf_change *change, struct vc_hf_carry *to)
{
    VC_SCOPED_TEXT struct vc_text old = {.ctx = ctx};

    if (!vc_hf_rewrite_needed(change)) {
        return VC_OK;
    }
    VC_CALL(read_config(ctx, to->from, &old));
    if (old.n != 0) {
        VC_CALL(vc_hf_rewrite(ctx, old.data, old.n, change, &to->config));
    }
    return VC_OK;
}

/* For the report: "left behind: a.bin, b.gguf and 3 more". At most VC_NAMED_FILES names, each cut at 100 bytes. */
static enum vc_status name_skipped(struct vc_ctx *ctx, struct vc_hf_carry *to)
{
    size_t n = vc_infolder_skipped_count(to->from);
    const char *text = "left behind: ";

    if (n == 0) {
        return VC_OK;
    }
    for (size_t i = 0; i < n && i < VC_NAMED_FILES && text != NULL; i++) {
        text =
            vc_arena_printf(ctx, &to->arena, "%s%s%.100s", text, i == 0 ? "" : ", ", vc_infolder_skipped(to->from, i));
    }
    if (n > VC_NAMED_FILES && text != NULL) {
        text = vc_arena_printf(ctx, &to->arena, "%s and %zu more", text, n - VC_NAMED_FILES);
    }
    to->note = text;
    return text != NULL ? VC_OK : VC_E_NOMEM;
}

/* What ModelOpt or quanto says of codes in a file of its own: it stays behind where they are no more. */
static bool says_of_codes(const struct vc_hf_carry *carry, const struct vc_carried *file)
{
    return carry->decodes && vc_is_one_of(file->name, VC_HF_MODELOPT_NAME " quanto_qmap.json quantization_map.json");
}

/* Whether a tensor of codes is written as something else than a copy: then files that describe the codes are wrong. */
static bool decodes(const struct vc_hf_change *change)
{
    for (size_t i = 0; i < change->outs->n; i++) {
        const struct vc_out_tensor out = vc_out_at(change->outs, i);

        if (!out.kept && change->model->tensors[out.source].quant != NULL) {
            return true;
        }
    }
    return false;
}

/* to->n_bytes counts the source's config.json, not the new one: the estimate of space need not know the difference. */
enum vc_status vc_hf_carry_plan(struct vc_ctx *ctx, struct vc_infolder *from, const struct vc_hf_change *change,
                                struct vc_hf_carry *to)
{
    to->from = from;
    to->decodes = change != NULL && decodes(change);
    for (size_t i = 0; i < vc_infolder_carried_count(from); i++) {
        if (!says_of_codes(to, vc_infolder_carried(from, i)) &&
            !vc_add_u64(to->n_bytes, vc_infolder_carried(from, i)->size_bytes, &to->n_bytes)) {
            to->n_bytes = UINT64_MAX;
        }
    }
    if (change != NULL) {
        VC_CALL(plan_config(ctx, change, to));
    }
    return name_skipped(ctx, to);
}

/* ---- writing ---- */

/* All carried names, also those that says_of_codes leaves behind. */
enum vc_status vc_hf_carry_expect(struct vc_ctx *ctx, const struct vc_infolder *from, struct vc_outfolder *folder)
{
    for (size_t i = 0; i < vc_infolder_carried_count(from); i++) {
        VC_CALL(vc_outfolder_expect(ctx, folder, vc_infolder_carried(from, i)->name));
    }
    return VC_OK;
}

enum vc_status vc_hf_carry_check(struct vc_ctx *ctx, const struct vc_hf_carry *carry, const struct vc_outfolder *folder)
{
    for (size_t i = 0; i < vc_infolder_carried_count(carry->from); i++) {
        const struct vc_carried *file = vc_infolder_carried(carry->from, i);

        if (!says_of_codes(carry, file)) {
            VC_CALL(vc_outfolder_check(ctx, folder, file->name));
        }
    }
    return VC_OK;
}

/* The file is complete and synced when the folder keeps it. */
enum vc_status vc_hf_write_text(struct vc_ctx *ctx, struct vc_outfolder *folder, const char *name, const char *text,
                                size_t n)
{
    struct vc_outfile *file = NULL;

    VC_CALL(vc_outfolder_add(ctx, folder, name, &file));
    VC_CALL(vc_outfile_begin(ctx, file));
    VC_CALL(vc_outfile_write(ctx, file, 0, text, n));
    return vc_outfolder_keep(ctx, folder, file);
}

static enum vc_status copy_bytes(struct vc_ctx *ctx, const struct vc_infile *from, struct vc_outfile *to, char *buffer)
{
    for (uint64_t at = 0; at < from->size_bytes; at += VC_CARRY_BYTES) {
        size_t n = (size_t)vc_min_u64(VC_CARRY_BYTES, from->size_bytes - at);

        VC_CALL(vc_check_cancelled(ctx));
        VC_CALL(vc_infile_read(ctx, from, at, buffer, n));
        VC_CALL(vc_outfile_write(ctx, to, at, buffer, n));
    }
    return VC_OK;
}

/* One file of the source's folder, byte for byte. An empty file has no infile (`in` NULL), and is made empty. */
static enum vc_status copy_file(struct vc_ctx *ctx, struct vc_infolder *from, const struct vc_carried *carried,
                                struct vc_outfolder *folder, char *buffer)
{
    struct vc_infile *in = NULL;
    struct vc_outfile *to = NULL;
    enum vc_status status;

    VC_TRY(vc_outfolder_add(ctx, folder, carried->name, &to));
    VC_TRY(vc_outfile_begin(ctx, to));
    VC_TRY(vc_infolder_open_carried(ctx, from, carried, &in));
    if (in != NULL) {
        VC_TRY(copy_bytes(ctx, in, to, buffer));
        VC_TRY(vc_infile_check(ctx, in));
    }
    VC_TRY(vc_outfolder_keep(ctx, folder, to));
out:
    vc_infile_close(ctx, in);
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", carried->name);
}

enum vc_status vc_hf_carry_write(struct vc_ctx *ctx, const struct vc_hf_carry *carry, struct vc_outfolder *folder)
{
    VC_SCOPED char *buffer = vc_alloc(ctx, VC_TAG_IO, VC_CARRY_BYTES);

    VC_CALL_ALLOC(buffer);
    for (size_t i = 0; i < vc_infolder_carried_count(carry->from); i++) {
        const struct vc_carried *file = vc_infolder_carried(carry->from, i);

        if (carry->config.n != 0 && strcmp(file->name, VC_HF_CONFIG_NAME) == 0) {
            VC_CALL(vc_hf_write_text(ctx, folder, file->name, carry->config.data, carry->config.n));
        } else if (!says_of_codes(carry, file)) {
            VC_CALL(copy_file(ctx, carry->from, file, folder, buffer));
        }
    }
    return VC_OK;
}

void vc_hf_carry_release(struct vc_ctx *ctx, struct vc_hf_carry *carry)
{
    vc_text_release(&carry->config);
    vc_arena_release(ctx, &carry->arena);
    *carry = (struct vc_hf_carry){.from = NULL};
}
