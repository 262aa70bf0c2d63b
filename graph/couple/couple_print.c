/* couple_print.c - couplings as the text of a file, which couple_read.c reads again: docs/structured.md.
 *
 *     # goes through Softmax, which divides by the sum over it: fc3.weight:0 = fc3.bias:0
 *     heads 12*1: q.weight:0*64 = o.weight:1*64
 */

#include "graph/couple/couple.h"

const char *vc_couple_unit_name(enum vc_unit unit)
{
    static const char *const names[] = {"neurons", "heads", "experts", "hidden"};

    return (size_t)unit < sizeof names / sizeof *names ? names[unit] : NULL;
}

/* A control character: of ASCII, or the first byte of one of those that UTF-8 has from U+0080 to U+009F. */
static bool is_control(const char *s)
{
    unsigned char c = (unsigned char)s[0];

    return c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)s[1] < 0xa0) || (c >= 0x80 && c < 0xa0);
}

static bool any_control(const char *name)
{
    while (*name != '\0' && !is_control(name)) {
        name++;
    }
    return *name != '\0';
}

/* Names of other characters stand in quotes. */
static bool is_plain(const char *name)
{
    return !any_control(name) && *name != '\0' && *name != '#' && strpbrk(name, " \t\r\n\v\f\"=*?[]\\!") == NULL;
}

/* Quotes, backslashes and control characters are escaped, so that a name from a file cannot forge a line or a
 * terminal's control sequence. */
static void add_name(struct vc_text *text, const char *name)
{
    if (is_plain(name)) {
        vc_text_add(text, "%s", name);
        return;
    }
    vc_text_add(text, "\"");
    for (; *name != '\0'; name++) {
        if (*name == '\n' || *name == '\r') {
            vc_text_add(text, *name == '\n' ? "\\n" : "\\r");
        } else if (is_control(name)) {
            vc_text_add(text, "\\x%02x", (unsigned char)*name);
        } else {
            vc_text_add(text, *name == '"' || *name == '\\' ? "\\%c" : "%c", *name);
        }
    }
    vc_text_add(text, "\"");
}

static void add_number(struct vc_text *text, char sign, uint64_t n)
{
    vc_text_add(text, "%c", sign);
    vc_text_add_uint(text, n);
}

/* Leaves out what is usual: block 1, repeat as the group's, all of the axis, units made where a reader expects it. */
void vc_couple_add_member(struct vc_text *text, const struct vc_group *group, const struct vc_group_member *member)
{
    const struct vc_coupling_member *m = &member->public;

    add_name(text, m->tensor);
    if (m->whole) {
        add_number(text, '@', m->unit);
    } else {
        add_number(text, ':', m->axis);
        if (m->block != 1) {
            add_number(text, '*', m->block);
        }
        if (m->repeat != group->repeats) {
            add_number(text, '/', group->repeats / m->repeat);
        }
        if (!vc_couple_is_all(group, member)) {
            add_number(text, '+', m->offset);
        }
    }
    if (group->states_makes && m->makes) {
        vc_text_add(text, "!");
    }
}

/* "heads 12*3: ", where something is not said by the members. */
static void add_head(struct vc_text *text, const struct vc_group *group)
{
    if (group->unit == VC_UNIT_NEURONS && !group->states_units) {
        return;
    }
    if (group->unit != VC_UNIT_NEURONS) {
        vc_text_add(text, "%s", vc_couple_unit_name(group->unit));
    }
    if (group->states_units) {
        vc_text_add(text, group->unit == VC_UNIT_NEURONS ? "" : " ");
        vc_text_add_uint(text, group->n_units);
    }
    if (group->states_repeat) {
        add_number(text, '*', group->repeats);
    }
    vc_text_add(text, ": ");
}

enum vc_status vc_couplings_print(struct vc_ctx *ctx, const struct vc_couplings *couplings, char **text)
{
    struct vc_text out = {.ctx = ctx};
    enum vc_status status = VC_OK;

    *text = NULL;
    vc_clear_error(ctx);
    for (size_t k = 0; k < couplings->public.n; k++) {
        const struct vc_group *group = &couplings->groups[k];

        if (group->fixed != NULL) {
            vc_text_add(&out, "# %s: ", group->fixed);
        }
        add_head(&out, group);
        for (size_t i = 0; i < group->n; i++) {
            vc_text_add(&out, i == 0 ? "" : " = ");
            vc_couple_add_member(&out, group, &group->members[i]);
        }
        vc_text_add(&out, "\n");
    }
    if (out.n == 0) {
        vc_text_add(&out, "# nothing is coupled\n");
    }
    *text = vc_text_detach(&out);
    status = out.status;
    return status;
}
