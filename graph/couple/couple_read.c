/* couple_read.c - couplings from a file: docs/structured.md.
 *
 *     # neurons of the first layer, and the columns that read them
 *     fc1.weight:0 = fc1.bias:0 = fc2.weight:1
 *     heads 8: q.weight:0*64+0 = q.weight:0*64+512 = o.weight:1*64
 *
 * Lines are read one after the other into groups; then all of them together are looked at for axes that two groups
 * claim. Everything that is wrong goes into one sentence. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"
#include "core/base/glob.h"
#include "core/model/source.h"
#include "graph/couple/couple.h"

#define MAX_FILE ((size_t)256 << 20)

/* What is wrong is collected up to here; more is counted. */
#define MAX_SAID 800

struct reader {
    struct vc_ctx *ctx;
    const struct vc_model *model;
    struct vc_couplings *couplings;
    size_t line;
    struct vc_text said;
    size_t n_unsaid;
    enum vc_status status; /* no memory */
    /* of the line that is being read */
    struct written *members;
    size_t n, capacity;
    bool broken; /* something about it was said */
};

/* A member as it is written. */
struct written {
    char *name;
    bool literal; /* it was in quotes: no pattern */
    bool whole, some, makes;
    uint64_t unit, axis, block, share, offset;
};

/* Notes what is wrong with the line. */
static void complain(struct reader *r, size_t line, const char *format, ...) VC_PRINTF(3, 4);
static void complain(struct reader *r, size_t line, const char *format, ...)
{
    char text[512];
    va_list args;

    r->broken = true;
    if (r->said.n >= MAX_SAID) {
        r->n_unsaid++;
        return;
    }
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    vc_text_add(&r->said, "%sline %zu: %s", r->said.n == 0 ? "" : "; ", line, text);
}

/* ---- words ---- */

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static char *skip_spaces(char *s)
{
    while (is_space(*s)) {
        s++;
    }
    return s;
}

/* Digits at *s; false: none, or too many. */
static bool take_number(char **s, uint64_t *n)
{
    char *at = *s;

    *n = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (!vc_mul_u64(*n, 10, n) || !vc_add_u64(*n, (uint64_t)(*at - '0'), n)) {
            return false;
        }
    }
    if (at == *s) {
        return false;
    }
    *s = at;
    return true;
}

/* The name in quotes that begins at *s, in place, without them. */
static bool take_quoted(char **s, char **name)
{
    char *from = *s + 1;
    char *to = from;

    *name = to;
    for (; *from != '"'; from++) {
        if (*from == '\0') {
            return false;
        }
        if (*from == '\\' && from[1] != '\0') {
            from++;
            *to++ = (char)(*from == 'n' ? '\n' : *from == 'r' ? '\r' : *from);
        } else {
            *to++ = *from;
        }
    }
    *s = from + 1;
    *to = '\0'; /* where the closing quote was, or before it */
    return true;
}

/* What is behind the name: ":axis*block/share+offset!" or "@unit!". */
static bool take_place(char *s, struct written *m)
{
    static const char signs[] = "*/+";
    uint64_t *const fields[] = {&m->block, &m->share, &m->offset};

    m->block = m->share = 1;
    m->whole = *s == '@';
    if ((*s != ':' && *s != '@') || (s++, !take_number(&s, m->whole ? &m->unit : &m->axis))) {
        return false;
    }
    for (size_t k = 0; k < 3 && !m->whole; k++) {
        if (*s == signs[k]) {
            s++;
            if (!take_number(&s, fields[k])) {
                return false;
            }
            m->some = m->some || k == 2;
        }
    }
    m->makes = *s == '!';
    s += m->makes ? 1 : 0;
    return *s == '\0' && m->block != 0 && m->share != 0;
}

/* Where the place begins in a word without quotes: at the last ':' or '@' that has one behind it. */
static char *place_of(char *word)
{
    struct written ignored = {0};
    char *at = word + strlen(word);

    while (at != word) {
        at--;
        if ((*at == ':' || *at == '@') && take_place(at, &ignored)) {
            return at;
        }
    }
    return NULL;
}

/* ---- a line ---- */

static struct written *add_written(struct reader *r)
{
    size_t larger = r->capacity == 0 ? 16 : 2 * r->capacity;
    struct written *more;

    if (r->n == r->capacity) {
        more = vc_alloc_array(r->ctx, VC_TAG_MISC, larger, sizeof *more);
        if (more == NULL) {
            r->status = VC_E_NOMEM;
            return NULL;
        }
        if (r->n != 0) {
            memcpy(more, r->members, r->n * sizeof *more);
        }
        vc_free(r->ctx, r->members);
        r->members = more;
        r->capacity = larger;
    }
    r->members[r->n] = (struct written){.literal = false};
    return &r->members[r->n++];
}

/* One member at *s, which is moved behind it. False: something is wrong with it, which was said. */
static bool take_member(struct reader *r, char **s)
{
    struct written *m = add_written(r);
    char *word = *s;
    char *end = word;
    char *place = NULL;
    char last;

    if (m == NULL) {
        return false;
    }
    m->literal = *word == '"';
    if (m->literal && !take_quoted(&end, &m->name)) {
        complain(r, r->line, "a quote without an end");
        return false;
    }
    place = m->literal ? end : NULL;
    while (*end != '\0' && *end != '=' && *end != '#' && !is_space(*end)) {
        end++;
    }
    last = *end;
    *end = '\0';
    if (!m->literal) {
        m->name = word;
        place = place_of(word);
    }
    if (place == NULL || !take_place(place, m) || *m->name == '\0' || place == word) {
        complain(r, r->line, "'%.100s' is no TENSOR:AXIS", word);
        return false;
    }
    if (!m->literal) {
        *place = '\0';
    }
    *end = last == '=' || last == '#' ? last : ' ';
    if (last == '\0') {
        *end = '\0';
    }
    *s = end;
    return true;
}

/* "heads 8:", "12*3:" in front of the members. units and repeats 0: not said. */
static bool take_head(struct reader *r, char **s, enum vc_unit *unit, uint64_t *units, uint64_t *repeats)
{
    char *colon = strchr(*s, ':');
    char *at = *s;
    int kind = 0;

    *unit = VC_UNIT_NEURONS;
    *units = *repeats = 0;
    if (**s == '"' || colon == NULL || !is_space(colon[1])) {
        return true;
    }
    *colon = '\0';
    for (const char *name; (name = vc_couple_unit_name((enum vc_unit)kind)) != NULL; kind++) {
        size_t n = strlen(name);

        if (strncmp(at, name, n) == 0 && (at[n] == '\0' || is_space(at[n]))) {
            *unit = (enum vc_unit)kind;
            at = skip_spaces(at + n);
            break;
        }
    }
    if (*at != '\0' &&
        (!take_number(&at, units) || *units == 0 ||
         (*at == '*' && (at++, !take_number(&at, repeats) || *repeats == 0)) || *skip_spaces(at) != '\0')) {
        complain(r, r->line, "'%.60s:' is not neurons, heads, experts or hidden, with a number of units", *s);
        return false;
    }
    *s = skip_spaces(colon + 1);
    return true;
}

/* ---- sizes ---- */

static uint64_t divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* Entries of the whole group, repeats included, by a member that takes all of its axis; 0: it does not tell. */
static uint64_t entries_of(const struct written *m, uint64_t size)
{
    uint64_t n;

    return m->some || m->whole || size % m->block != 0 || !vc_mul_u64(size / m->block, m->share, &n) ? 0 : n;
}

/* The tensor that a member without a pattern names; VC_NO_TENSOR, with a complaint: it is not there or has no such
 * axis. */
static size_t tensor_of(struct reader *r, const struct written *m)
{
    size_t index = vc_model_find(r->model, m->name);

    if (index == VC_NO_TENSOR) {
        complain(r, r->line, "%.200s: there is no such tensor", m->name);
    } else if (!m->whole && m->axis >= r->model->tensors[index].n_dims) {
        complain(r, r->line, "%.200s:%llu: the tensor has %u axes", m->name, (unsigned long long)m->axis,
                 r->model->tensors[index].n_dims);
        index = VC_NO_TENSOR;
    }
    return index;
}

static bool is_glob(const struct written *m)
{
    return !m->literal && strpbrk(m->name, "*?[\\") != NULL;
}

/* What the line says about its sizes. */
struct sizes {
    uint64_t entries; /* 0: not known yet */
    uint64_t repeats; /* 1 at least: the least common multiple of all shares */
    uint64_t units;
    const char *by; /* the member that says so */
    uint64_t by_axis;
};

/* One member with the axis it means: sets `entries`, or compares with it. */
static void look_at(struct reader *r, struct sizes *sizes, const struct written *m, const struct vc_tensor *tensor)
{
    uint64_t size = tensor->shape[m->axis];
    uint64_t n = entries_of(m, size);

    if (n == 0 && !m->some) {
        complain(r, r->line, "%.200s:%llu: %llu cannot be divided into blocks of %llu", tensor->name,
                 (unsigned long long)m->axis, (unsigned long long)size, (unsigned long long)m->block);
    } else if (n != 0 && sizes->entries != 0 && n != sizes->entries) {
        complain(r, r->line, "%.200s:%llu has %llu entries, and %.200s:%llu %llu", tensor->name,
                 (unsigned long long)m->axis, (unsigned long long)n, sizes->by, (unsigned long long)sizes->by_axis,
                 (unsigned long long)sizes->entries);
    } else if (n != 0 && sizes->entries == 0) {
        *sizes = (struct sizes){
            .entries = n, .repeats = sizes->repeats, .units = sizes->units, .by = tensor->name, .by_axis = m->axis};
    }
}

/* Entries by a pattern's first tensor that has the axis. */
static void look_at_glob(struct reader *r, struct sizes *sizes, const struct written *m)
{
    for (size_t k = 0; k < r->model->n_tensors && sizes->entries == 0; k++) {
        const struct vc_tensor *tensor = &r->model->tensors[k];

        if (m->axis < tensor->n_dims && entries_of(m, tensor->shape[m->axis]) != 0 &&
            vc_glob_match(m->name, tensor->name)) {
            look_at(r, sizes, m, tensor);
        }
    }
}

/* The number of units: what the head says, or the entries by the shares. */
static void find_units(struct reader *r, struct sizes *sizes, uint64_t units, uint64_t repeats)
{
    uint64_t largest = 0;
    bool whole = true;

    for (size_t k = 0; k < r->n; k++) {
        const struct written *m = &r->members[k];

        whole = whole && m->whole;
        largest = m->whole && m->unit >= largest && m->unit < UINT64_MAX ? m->unit + 1 : largest;
        if (!m->whole && !vc_mul_u64(sizes->repeats / divisor(sizes->repeats, m->share), m->share, &sizes->repeats)) {
            complain(r, r->line, "the shares have no common multiple");
            return;
        }
    }
    if (sizes->entries == 0 && whole) {
        sizes->entries = largest;
    } else if (sizes->entries == 0 &&
               (units == 0 || !vc_mul_u64(units, repeats != 0 ? repeats : sizes->repeats, &sizes->entries))) {
        complain(r, r->line, "no member takes all of its axis: the number of units has to be said, as in '8: ...'");
        return;
    }
    sizes->units = units != 0 ? units : sizes->entries / sizes->repeats;
    if (sizes->units == 0 || sizes->entries % sizes->units != 0 ||
        sizes->entries / sizes->units % sizes->repeats != 0 ||
        (repeats != 0 && sizes->entries / sizes->units != repeats)) {
        complain(r, r->line, "%llu entries cannot be %llu units", (unsigned long long)sizes->entries,
                 (unsigned long long)(units != 0 ? units : sizes->repeats));
        return;
    }
    sizes->repeats = sizes->entries / sizes->units;
}

/* Adds the tensor to the group, if what the member says fits; complains otherwise. */
static void bind_member(struct reader *r, struct vc_group *group, const struct sizes *sizes, const struct written *m,
                        size_t index)
{
    const struct vc_tensor *tensor = &r->model->tensors[index];
    struct vc_group_member member = {.public = {.tensor = tensor->name, .index = index, .makes = m->makes},
                                     .n_dims = tensor->n_dims};
    uint64_t end;

    if (m->whole) {
        member.public.whole = true;
        member.public.unit = m->unit;
        if (m->unit >= sizes->units) {
            complain(r, r->line, "%.200s is unit %llu of %llu", m->name, (unsigned long long)m->unit,
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
            complain(r, r->line,
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
static void bind_glob(struct reader *r, struct vc_group *group, const struct sizes *sizes, const struct written *m)
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
        complain(r, r->line, "%.200s:%llu: no tensor of that name has such an axis with %llu entries", m->name,
                 (unsigned long long)m->axis, (unsigned long long)sizes->entries);
    }
}

/* The group of the members that were read. */
static void bind_line(struct reader *r, enum vc_unit unit, uint64_t units, uint64_t repeats)
{
    struct sizes sizes = {.repeats = 1};
    struct vc_group *group;

    for (size_t k = 0; k < r->n; k++) {
        struct written *m = &r->members[k];

        if (is_glob(m) && m->whole) {
            complain(r, r->line, "%.200s: a tensor of its own has a whole name", m->name);
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
        find_units(r, &sizes, units, repeats);
    }
    if (r->broken) {
        return;
    }
    group = vc_couplings_add(r->couplings, unit, sizes.units);
    if (group == NULL) {
        r->status = VC_E_NOMEM;
        return;
    }
    group->line = r->line;
    for (size_t k = 0; k < r->n && r->status == VC_OK; k++) {
        if (is_glob(&r->members[k])) {
            bind_glob(r, group, &sizes, &r->members[k]);
        } else {
            bind_member(r, group, &sizes, &r->members[k], vc_model_find(r->model, r->members[k].name));
        }
    }
}

static void read_line(struct reader *r, char *line)
{
    enum vc_unit unit;
    uint64_t units;
    uint64_t repeats;
    char *at = skip_spaces(line);

    r->line++;
    r->n = 0;
    r->broken = false;
    if (*at == '\0' || *at == '#' || !take_head(r, &at, &unit, &units, &repeats)) {
        return;
    }
    for (;;) {
        if (!take_member(r, &at)) {
            return;
        }
        at = skip_spaces(at);
        if (*at != '=') {
            break;
        }
        at = skip_spaces(at + 1);
    }
    if (*at != '\0' && *at != '#') {
        complain(r, r->line, "'=' is expected before '%.100s'", at);
        return;
    }
    bind_line(r, unit, units, repeats);
}

/* ---- axes that are claimed twice ---- */

struct claim {
    const struct vc_group_member *member;
    const struct vc_group *group;
};

static uint64_t end_of(const struct claim *a)
{
    const struct vc_coupling_member *m = &a->member->public;

    return m->whole ? 0 : m->offset + a->group->n_units * m->block * m->repeat;
}

static int compare_claims(const void *a, const void *b)
{
    const struct claim *x = a;
    const struct claim *y = b;
    const struct vc_coupling_member *m = &x->member->public;
    const struct vc_coupling_member *o = &y->member->public;

    if (m->index != o->index) {
        return m->index < o->index ? -1 : 1;
    }
    if (m->whole != o->whole) {
        return m->whole ? -1 : 1;
    }
    if (m->axis != o->axis) {
        return m->axis < o->axis ? -1 : 1;
    }
    if (m->offset != o->offset) {
        return m->offset < o->offset ? -1 : 1;
    }
    if (end_of(x) != end_of(y)) { /* the larger one first: what lies in it follows */
        return end_of(x) > end_of(y) ? -1 : 1;
    }
    return x->group->line != y->group->line ? (x->group->line < y->group->line ? -1 : 1)
                                            : (m->block > o->block) - (m->block < o->block);
}

/* Units of one lie inside of the units of the other, in the same way in each: heads, and the elements of a head. */
static bool is_inside(const struct claim *inner, const struct claim *outer)
{
    const struct vc_coupling_member *i = &inner->member->public;
    const struct vc_coupling_member *o = &outer->member->public;
    uint64_t period = inner->group->n_units * i->block;

    return o->block % period == 0 &&
           (i->offset >= o->offset ? i->offset - o->offset : o->offset - i->offset) % period == 0;
}

static void complain_of(struct reader *r, const struct claim *a, const struct claim *b)
{
    const struct vc_coupling_member *m = &a->member->public;
    size_t first = a->group->line < b->group->line ? a->group->line : b->group->line;
    size_t last = a->group->line < b->group->line ? b->group->line : a->group->line;

    if (m->whole) {
        complain(r, last, "%.200s is claimed by line %zu already", m->tensor, first);
    } else {
        complain(r, last, "%.200s:%u is claimed by line %zu already", m->tensor, m->axis, first);
    }
}

/* Members of all groups, sorted by where they lie: each is compared with the last one that reaches over its begin. */
static enum vc_status check_claims(struct reader *r)
{
    const struct vc_couplings *couplings = r->couplings;
    struct claim *claims;
    size_t n = 0;
    size_t at = 0;
    size_t over = 0;
    enum vc_status status = VC_OK;

    for (size_t k = 0; k < couplings->n; k++) {
        n += couplings->groups[k].n;
    }
    claims = vc_alloc_array(r->ctx, VC_TAG_MISC, n + 1, sizeof *claims);
    VC_TRY_ALLOC(claims);
    for (size_t k = 0; k < couplings->n; k++) {
        for (size_t i = 0; i < couplings->groups[k].n; i++) {
            claims[at++] = (struct claim){.member = &couplings->groups[k].members[i], .group = &couplings->groups[k]};
        }
    }
    qsort(claims, n, sizeof *claims, compare_claims);
    for (size_t k = 1; k < n; k++) {
        const struct claim *a = &claims[over];
        const struct claim *b = &claims[k];
        bool same = a->member->public.index == b->member->public.index &&
                    a->member->public.whole == b->member->public.whole &&
                    a->member->public.axis == b->member->public.axis;

        if (same && (b->member->public.whole ||
                     (b->member->public.offset < end_of(a) && !is_inside(b, a) && !is_inside(a, b)))) {
            complain_of(r, a, b);
        }
        if (!same || end_of(b) >= end_of(a)) {
            over = k;
        }
    }
out:
    vc_free(r->ctx, claims);
    return status;
}

/* ---- the file ---- */

static enum vc_status read_file(struct vc_ctx *ctx, const char *path, char **text)
{
    FILE *file = fopen(path, "rb");
    size_t capacity = (size_t)1 << 16;
    size_t n = 0;
    char *more;
    enum vc_status status = VC_OK;

    *text = NULL;
    if (file == NULL) {
        return vc_fail_errno(ctx, errno, "cannot open it");
    }
    for (;;) {
        more = vc_alloc(ctx, VC_TAG_MISC, capacity + 1);
        VC_TRY_ALLOC(more);
        if (n != 0) {
            memcpy(more, *text, n);
        }
        vc_free(ctx, *text);
        *text = more;
        n += fread(*text + n, 1, capacity - n, file);
        if (n < capacity) {
            break;
        }
        capacity *= 4;
        if (capacity > MAX_FILE) {
            status = vc_fail(ctx, VC_E_FORMAT, "is larger than a file of couplings may be, 256 MiB");
            goto out;
        }
    }
    if (ferror(file) != 0) {
        status = vc_fail_errno(ctx, errno, "cannot read it");
    } else if (memchr(*text, '\0', n) != NULL) {
        status = vc_fail(ctx, VC_E_FORMAT, "is not text");
    } else {
        (*text)[n] = '\0';
    }
out:
    (void)fclose(file);
    return status;
}

static enum vc_status read_lines(struct reader *r, char *text)
{
    enum vc_status status = VC_OK;

    while (text != NULL) {
        char *end = strchr(text, '\n');

        if (end != NULL) {
            *end++ = '\0';
        }
        read_line(r, text);
        VC_TRY(r->status);
        VC_TRY(r->said.status);
        text = end;
    }
    if (r->said.n == 0) {
        VC_TRY(check_claims(r));
    }
    if (r->said.n != 0 && r->n_unsaid != 0) {
        vc_text_add(&r->said, "; and %zu more", r->n_unsaid);
    }
    VC_TRY(r->said.status);
    if (r->said.n != 0) {
        status = vc_fail(r->ctx, VC_E_FORMAT, "%s", r->said.data);
    }
out:
    return status;
}

enum vc_status vc_couplings_read(struct vc_ctx *ctx, const char *path, const struct vc_model *model,
                                 struct vc_couplings **out)
{
    struct reader r = {.ctx = ctx, .model = model};
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
    *out = r.couplings;
    r.couplings = NULL;
out:
    vc_free(ctx, text);
    vc_free(ctx, r.members);
    vc_text_release(&r.said);
    vc_couplings_free(r.couplings);
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", path);
}
