/* couple_lines.c - lines of a file of couplings, taken apart in place: NULs replace what ends a word. See
 * couple_lines.h.
 *
 *     heads 8: "q weight":0*64+0 = o.weight:1*64    # comment
 *     + head + +---- member ---+   +-- member --+
 */
#include "graph/couple/couple_lines.h"

#include <ctype.h>

#include "core/base/array.h"

/* What is wrong is collected up to here; more is counted. */
#define MAX_SAID 800

void vc_couple_complain(struct vc_couple_reader *r, size_t line, const char *format, ...)
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

/* The byte for what follows a backslash at *s: n, r, x1b, or the character itself. *s moves to the last character
 * used. */
static char take_escaped(char **s)
{
    unsigned byte = 0;
    int n = 0;

    if (**s == 'x' && sscanf(*s + 1, "%2x%n", &byte, &n) == 1 && n == 2 && byte != 0 &&
        isxdigit((unsigned char)(*s)[1])) {
        *s += 2;
        return (char)byte;
    }
    return (char)(**s == 'n' ? '\n' : **s == 'r' ? '\r' : **s);
}

/* Removes quotes and escapes in place: the text only becomes shorter, so that writing never passes reading. */
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
            *to++ = take_escaped(&from);
        } else {
            *to++ = *from;
        }
    }
    *s = from + 1;
    *to = '\0'; /* where the closing quote was, or before it */
    return true;
}

/* What follows the name: ":axis*block/share+offset!" or "@unit!". The signs stand in this order, each at most once. */
static bool take_place(char *s, struct vc_written_member *m)
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

/* Where the place begins in a word without quotes: at the last ':' or '@' from which on it parses, since names may
 * contain both. */
static char *place_of(char *word)
{
    struct vc_written_member ignored = {0};
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

static struct vc_written_member *add_written(struct vc_couple_reader *r)
{
    VC_LEAVE_WITH(VC_GROW(r->ctx, VC_TAG_MISC, r->members, r->capacity, r->n + 1) != VC_OK, r->status = VC_E_NOMEM,
                  NULL);
    r->members[r->n] = (struct vc_written_member){.literal = false};
    return &r->members[r->n++];
}

/* One member at *s, which moves behind it. False: something is wrong, and a sentence was noted. */
static bool take_member(struct vc_couple_reader *r, char **s)
{
    struct vc_written_member *m = add_written(r);
    char *word = *s;
    char *end = word;
    char *place = NULL;

    if (m == NULL) {
        return false;
    }
    m->literal = *word == '"';
    VC_LEAVE_WITH(m->literal && !take_quoted(&end, &m->name), vc_couple_complain(r, r->line, "a quote without an end"),
                  false);
    place = m->literal ? end : NULL;
    while (*end != '\0' && *end != '=' && *end != '#' && !is_space(*end)) {
        end++;
    }
    char last = *end;
    *end = '\0';
    if (!m->literal) {
        m->name = word;
        place = place_of(word);
    }
    if (place == NULL || !take_place(place, m) || *m->name == '\0' || place == word) {
        vc_couple_complain(r, r->line, "'%.100s' is no TENSOR:AXIS", word);
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

/* The optional head, which ends with a colon and a space: "heads 8: ", "12*3: ". */
static bool take_head(struct vc_couple_reader *r, char **s)
{
    char *colon = strchr(*s, ':');
    char *at = *s;
    int kind = 0;

    r->head = (struct vc_written_head){.unit = VC_UNIT_NEURONS};
    if (**s == '"' || colon == NULL || !is_space(colon[1])) {
        return true;
    }
    *colon = '\0';
    for (const char *name; (name = vc_couple_unit_name((enum vc_unit)kind)) != NULL; kind++) {
        size_t n = strlen(name);

        if (strncmp(at, name, n) == 0 && (at[n] == '\0' || is_space(at[n]))) {
            r->head.unit = (enum vc_unit)kind;
            at = skip_spaces(at + n);
            break;
        }
    }
    if (*at != '\0' && (!take_number(&at, &r->head.units) || r->head.units == 0 ||
                        (*at == '*' && (at++, !take_number(&at, &r->head.repeats) || r->head.repeats == 0)) ||
                        *skip_spaces(at) != '\0')) {
        vc_couple_complain(r, r->line, "'%.60s:' is not neurons, heads, experts or hidden, with a number of units", *s);
        return false;
    }
    *s = skip_spaces(colon + 1);
    return true;
}

/* Members between "=" up to the end or a comment. An empty line or comment is false, too, without a
 * sentence. */
bool vc_couple_take_line(struct vc_couple_reader *r, char *line)
{
    char *at = skip_spaces(line);

    r->n = 0;
    r->broken = false;
    if (*at == '\0' || *at == '#' || !take_head(r, &at)) {
        return false;
    }
    for (;;) {
        if (!take_member(r, &at)) {
            return false;
        }
        at = skip_spaces(at);
        if (*at != '=') {
            break;
        }
        at = skip_spaces(at + 1);
    }
    if (*at != '\0' && *at != '#') {
        vc_couple_complain(r, r->line, "'=' is expected before '%.100s'", at);
    }
    return !r->broken;
}
