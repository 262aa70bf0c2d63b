/* safetensors_job.c - which job made a shard: an entry of its metadata, so that files of two jobs are not taken for one
 * checkpoint.
 *
 *     "vcompress.job": "scheme=int8; granularity=channel; ...; layout=plain; tensors=291 5be0...41"
 *
 * It says the options of the job, and stands for the names of all tensors of the checkpoint, those of other workers,
 * too: an index has them where files are missing. It does not stand for shapes, values, second names, paths or times.
 * So every worker, one run for all, and passes one after the other through files write the same. */

#include "formats/safetensors/safetensors_files.h"

#define VC_BETWEEN "; "

/* A digest of one name. Those of all tensors are added up, so that their order does not matter. */
static uint64_t hash_name(const char *name, uint64_t seed)
{
    uint64_t h = seed;

    for (const char *c = name; *c != '\0'; c++) {
        h = (h ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    }
    h = (h ^ (h >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    h = (h ^ (h >> 27)) * UINT64_C(0x94d049bb133111eb);
    return h ^ (h >> 31);
}

/* size_only: the sums have as many digits whatever they are. */
static void add_name(const char *name, bool size_only, uint64_t sums[2])
{
    if (!size_only) {
        sums[0] += hash_name(name, UINT64_C(0xcbf29ce484222325));
        sums[1] += hash_name(name, UINT64_C(0x84222325cbf29ce4));
    }
}

void vc_safetensors_job_text(const struct vc_out_list *outs, const struct vc_model *model, const char *layout,
                             bool size_only, struct vc_text *text)
{
    uint64_t sums[2] = {0, 0};
    uint64_t count = 0;

    for (size_t i = 0; i < outs->n_recipe; i++) {
        vc_text_add(text, "%s=%s" VC_BETWEEN, outs->recipe[i].key, outs->recipe[i].value);
    }
    for (size_t i = 0; i < outs->n; i++) {
        const struct vc_out_tensor out = vc_out_at(outs, i);

        if (out.role == VC_PART_CODES && !out.beside && /* parts count no more when they are kept than when made */
            model->tensors[out.source].alias_of == VC_NO_TENSOR) {
            count++;
            add_name(out.name, size_only, sums);
        }
    }
    for (size_t i = 0; i < outs->n_other_shards; i++) { /* without parts */
        if (model->tensors[outs->other_shards[i].source].alias_of == VC_NO_TENSOR) {
            count++;
            add_name(outs->other_shards[i].name, size_only, sums);
        }
    }
    for (size_t i = 0; i < model->n_unseen; i++) {
        count++;
        add_name(model->unseen[i].name, size_only, sums);
    }
    vc_text_add(text, "layout=%s" VC_BETWEEN "tensors=%" PRIu64 " %016" PRIx64 "%016" PRIx64, layout, count, sums[0],
                sums[1]);
}

/* The first part in which two such texts differ: its length; *part points to it in `text`. */
static size_t find_part(const char *text, const char *other, const char **part)
{
    size_t at = 0;

    for (size_t i = 0; text[i] != '\0' && text[i] == other[i]; i++) {
        if (strncmp(text + i, VC_BETWEEN, 2) == 0) {
            at = i + 2;
        }
    }
    *part = text + (at <= strlen(text) ? at : 0);
    const char *end = strstr(*part, VC_BETWEEN);
    return end != NULL ? (size_t)(end - *part) : strlen(*part);
}

static enum vc_status refuse(struct vc_ctx *ctx, const struct safetensors_shard *a, const struct safetensors_shard *b)
{
    const char *part_a;
    const char *part_b;

    VC_REFUSE_IF(a->job == NULL || b->job == NULL, ctx, VC_E_UNSUPPORTED,
                 "%s: does not say which job made it, as %s does: they are not of one job",
                 a->job == NULL ? a->name : b->name, a->job == NULL ? b->name : a->name);
    size_t n_a = find_part(a->job, b->job, &part_a);
    size_t n_b = find_part(b->job, a->job, &part_b);
    return vc_fail(ctx, VC_E_UNSUPPORTED, "%s: was made with %.*s, %s with %.*s: they are not of one job", b->name,
                   (int)(n_b < 200 ? n_b : 200), part_b, a->name, (int)(n_a < 200 ? n_a : 200), part_a);
}

enum vc_status vc_safetensors_check_job(struct vc_ctx *ctx, const struct safetensors *self)
{
    const struct safetensors_shard *first = &self->shards[0];

    for (size_t i = 1; i < self->n_shards; i++) {
        const struct safetensors_shard *shard = &self->shards[i];

        if ((first->job == NULL) != (shard->job == NULL) ||
            (first->job != NULL && strcmp(first->job, shard->job) != 0)) {
            return refuse(ctx, first, shard);
        }
    }
    return VC_OK;
}
