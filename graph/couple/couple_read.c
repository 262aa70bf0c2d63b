/* couple_read.c - couplings from a file: docs/structured.md.
 *
 *     # neurons of the first layer, and the columns that read them
 *     fc1.weight:0 = fc1.bias:0 = fc2.weight:1
 *     heads 8: q.weight:0*64+0 = q.weight:0*64+512 = o.weight:1*64
 *
 * Lines are read one after the other into groups; then all of them together are looked at for axes that two groups
 * claim. Everything that is wrong goes into one sentence. */

#include "core/model/source.h"
#include "core/text/glob.h"
#include "graph/couple/couple_lines.h"
#include "graph/text_read.h"

#define MAX_FILE ((size_t)256 << 20)

/* ---- sizes ---- */

/* Entries are units times repeats: a member that takes all of an axis of 768 in blocks of 64 has 12; with share /2
 * the group has 24. 0 if the member does not tell. */
static uint64_t entries_of(const struct vc_written_member *m, uint64_t size)
{
    uint64_t n;

    return m->some || m->whole || size % m->block != 0 || !vc_mul_u64(size / m->block, m->share, &n) ? 0 : n;
}

/* The tensor that a member without a pattern names; VC_NO_TENSOR, with a complaint: it is not there or has no such
 * axis. */
static size_t tensor_of(struct vc_couple_reader *r, const struct vc_written_member *m)
{
    size_t index = vc_model_find(r->model, m->name);

    if (index == VC_NO_TENSOR) {
        vc_couple_complain(r, r->line, "%.200s: there is no such tensor", m->name);
    } else if (!m->whole && m->axis >= r->model->tensors[index].n_dims) {
        vc_couple_complain(r, r->line, "%.200s:%llu: the tensor has %u axes", m->name, (unsigned long long)m->axis,
                           r->model->tensors[index].n_dims);
        index = VC_NO_TENSOR;
    }
    return index;
}

static bool is_glob(const struct vc_written_member *m)
{
    return !m->literal && strpbrk(m->name, "*?[\\") != NULL;
}

/* What the members of a line say about the group together. */
struct sizes {
    uint64_t entries; /* 0: not known yet */
    uint64_t repeats; /* 1 at least: the least common multiple of all shares */
    uint64_t units;
    const char *by; /* the member that says so */
    uint64_t by_axis;
};

/* Takes the number of entries from a member, or compares it with the number that an earlier member gave. */
static void look_at(struct vc_couple_reader *r, struct sizes *sizes, const struct vc_written_member *m,
                    const struct vc_tensor *tensor)
{
    uint64_t size = tensor->shape[m->axis];
    uint64_t n = entries_of(m, size);

    if (n == 0 && !m->some) {
        vc_couple_complain(r, r->line, "%.200s:%llu: %llu cannot be divided into blocks of %llu", tensor->name,
                           (unsigned long long)m->axis, (unsigned long long)size, (unsigned long long)m->block);
    } else if (n != 0 && sizes->entries != 0 && n != sizes->entries) {
        vc_couple_complain(r, r->line, "%.200s:%llu has %llu entries, and %.200s:%llu %llu", tensor->name,
                           (unsigned long long)m->axis, (unsigned long long)n, sizes->by,
                           (unsigned long long)sizes->by_axis, (unsigned long long)sizes->entries);
    } else if (n != 0 && sizes->entries == 0) {
        *sizes = (struct sizes){
            .entries = n, .repeats = sizes->repeats, .units = sizes->units, .by = tensor->name, .by_axis = m->axis};
    }
}

/* Entries by a pattern's first tensor that has the axis. */
static void look_at_glob(struct vc_couple_reader *r, struct sizes *sizes, const struct vc_written_member *m)
{
    for (size_t k = 0; k < r->model->n_tensors && sizes->entries == 0; k++) {
        const struct vc_tensor *tensor = &r->model->tensors[k];

        if (m->axis < tensor->n_dims && entries_of(m, tensor->shape[m->axis]) != 0 &&
            vc_glob_match(m->name, tensor->name)) {
            look_at(r, sizes, m, tensor);
        }
    }
}

/* Units from entries: entries / units repeats. The head states the units, or the shares do: repeats is then the least common
 * multiple of the shares.
 *     q.weight:0*64 = kv.weight:0*64/2     768 and 384 elements: entries 12, shares 1 and 2, so 6 units that repeat twice in q
 */
static void find_units(struct vc_couple_reader *r, struct sizes *sizes, uint64_t units, uint64_t repeats)
{
    uint64_t largest = 0;
    bool whole = true;

    for (size_t k = 0; k < r->n; k++) {
        const struct vc_written_member *m = &r->members[k];

        whole = whole && m->whole;
        largest = m->whole && m->unit >= largest && m->unit < UINT64_MAX ? m->unit + 1 : largest;
        VC_LEAVE_IF(!m->whole && !vc_mul_u64(sizes->repeats / vc_couple_divisor(sizes->repeats, m->share), m->share,
                                             &sizes->repeats),
                    vc_couple_complain(r, r->line, "the shares have no common multiple"));
    }
    if (sizes->entries == 0 && whole) {
        sizes->entries = largest;
    } else if (sizes->entries == 0 &&
               (units == 0 || !vc_mul_u64(units, repeats != 0 ? repeats : sizes->repeats, &sizes->entries))) {
        vc_couple_complain(r, r->line,
                           "no member takes all of its axis: the number of units has to be said, as in '8: ...'");
        return;
    }
    sizes->units = units != 0 ? units : sizes->entries / sizes->repeats;
    VC_LEAVE_IF(sizes->units == 0 || sizes->entries % sizes->units != 0 ||
                    sizes->entries / sizes->units % sizes->repeats != 0 ||
                    (repeats != 0 && sizes->entries / sizes->units != repeats),
                vc_couple_complain(r, r->line, "%llu entries cannot be %llu units", (unsigned long long)sizes->entries,
                                   (unsigned long long)(units != 0 ? units : sizes->repeats)));
    sizes->repeats = sizes->entries / sizes->units;
}

/* Adds the tensor to the group, if what the member says fits; complains otherwise. */
static void bind_member(struct vc_couple_reader *r, struct vc_group *group, const struct sizes *sizes,
                        const struct vc_written_member *m, size_t index)
{
    const struct vc_tensor *tensor = &r->model->tensors[index];
    struct vc_group_member member = {.public = {.tensor = tensor->name, .index = index, .makes = m->makes},
                                     .n_dims = tensor->n_dims};
    uint64_t end;

    if (m->whole) {
        member.public.whole = true;
        member.public.unit = m->unit;
        if (m->unit >= sizes->units) {
            vc_couple_complain(r, r->line, "%.200s is unit %llu of %llu", m->name, (unsigned long long)m->unit,
                               (unsigned long long)sizes->units);
        }
    } else {
        member.size = tensor->shape[m->axis];
        member.public.axis = (unsigned)m->axis;
        member.public.offset = m->offset;
        member.public.block = m->block;
        member.public.repeat = sizes->repeats / m->share;
        if (!vc_mul_u64(sizes->entries / m->share, m->block, &end) || !vc_add_u64(end, m->offset, &end) ||
            end > member.size) {
            vc_couple_complain(r, r->line,
                               "%.200s:%llu has %llu elements, which do not reach for %llu blocks of %llu from %llu on",
                               tensor->name, (unsigned long long)m->axis, (unsigned long long)member.size,
                               (unsigned long long)(sizes->entries / m->share), (unsigned long long)m->block,
                               (unsigned long long)m->offset);
        }
    }
    if (!r->broken && r->status == VC_OK) {
        r->status = vc_couplings_add_member(r->couplings, group, &member);
    }
}

/* All tensors of a pattern that have the axis, with the size that it has to have. */
static void bind_glob(struct vc_couple_reader *r, struct vc_group *group, const struct sizes *sizes,
                      const struct vc_written_member *m)
{
    bool found = false;

    for (size_t k = 0; k < r->model->n_tensors && !r->broken; k++) {
        const struct vc_tensor *tensor = &r->model->tensors[k];

        if (m->axis < tensor->n_dims &&
            (m->some ? tensor->shape[m->axis] / m->block * m->share >= sizes->entries
                     : entries_of(m, tensor->shape[m->axis]) == sizes->entries) &&
            vc_glob_match(m->name, tensor->name)) {
            bind_member(r, group, sizes, m, k);
            found = true;
        }
    }
    if (!found && !r->broken) {
        vc_couple_complain(r, r->line, "%.200s:%llu: no tensor of that name has such an axis with %llu entries",
                           m->name, (unsigned long long)m->axis, (unsigned long long)sizes->entries);
    }
}

/* The group of the members that were read. */
static void bind_line(struct vc_couple_reader *r)
{
    struct sizes sizes = {.repeats = 1};

    for (size_t k = 0; k < r->n; k++) {
        struct vc_written_member *m = &r->members[k];

        if (is_glob(m) && m->whole) {
            vc_couple_complain(r, r->line, "%.200s: a tensor of its own has a whole name", m->name);
        } else if (!is_glob(m)) {
            size_t index = tensor_of(r, m);

            if (index != VC_NO_TENSOR && !m->whole) {
                look_at(r, &sizes, m, &r->model->tensors[index]);
            }
        }
    }
    for (size_t k = 0; k < r->n && sizes.entries == 0 && !r->broken; k++) {
        if (is_glob(&r->members[k])) {
            look_at_glob(r, &sizes, &r->members[k]);
        }
    }
    if (!r->broken) {
        find_units(r, &sizes, r->head.units, r->head.repeats);
    }
    if (r->broken) {
        return;
    }
    struct vc_group *group = vc_couplings_add(r->couplings, r->head.unit, sizes.units);
    VC_LEAVE_IF(group == NULL, r->status = VC_E_NOMEM);
    group->line = r->line;
    for (size_t k = 0; k < r->n && r->status == VC_OK; k++) {
        if (is_glob(&r->members[k])) {
            bind_glob(r, group, &sizes, &r->members[k]);
        } else {
            bind_member(r, group, &sizes, &r->members[k], vc_model_find(r->model, r->members[k].name));
        }
    }
}

/* ---- the file ---- */

static enum vc_status read_file(struct vc_ctx *ctx, const char *path, char **text)
{
    size_t n;
    enum vc_status status = vc_read_text(ctx, path, "a file of couplings", MAX_FILE, text, &n);

    if (status == VC_OK && memchr(*text, '\0', n) != NULL) {
        status = vc_fail(ctx, VC_E_FORMAT, "is not text");
    }
    return status;
}

/* Every line is read, also after a mistake, so that one run tells all of them; then overlapping claims are
 * looked for. */
static enum vc_status read_lines(struct vc_couple_reader *r, char *text)
{
    while (text != NULL) {
        char *end = strchr(text, '\n');

        if (end != NULL) {
            *end++ = '\0';
        }
        r->line++;
        if (vc_couple_take_line(r, text)) {
            bind_line(r);
        }
        VC_CALL(r->status);
        VC_CALL(r->said.status);
        text = end;
    }
    if (r->said.n == 0) {
        VC_CALL(vc_couple_check_claims(r));
    }
    if (r->said.n != 0 && r->n_unsaid != 0) {
        vc_text_add(&r->said, "; and %zu more", r->n_unsaid);
    }
    VC_CALL(r->said.status);
    VC_REFUSE_IF(r->said.n != 0, r->ctx, VC_E_FORMAT, "%s", r->said.data);
    return VC_OK;
}

enum vc_status vc_couplings_read(struct vc_ctx *ctx, const char *path, const struct vc_model *model,
                                 struct vc_couplings **out)
{
    struct vc_couple_reader r = {.ctx = ctx, .model = model};
    char *text = NULL;
    enum vc_status status = VC_OK;

    *out = NULL;
    vc_clear_error(ctx);
    vc_text_init(&r.said, ctx);
    VC_TRY(vc_couplings_create(ctx, &r.couplings));
    VC_TRY(read_file(ctx, path, &text));
    VC_TRY(read_lines(&r, text));
    VC_TRY(vc_couplings_keep_names(r.couplings));
    VC_TRY(vc_couplings_finish(r.couplings));
    *out = vc_give(&r.couplings);
out:
    VC_FREE_ALL(ctx, text, r.members);
    vc_text_release(&r.said);
    vc_result_free(r.couplings);
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", path);
}
