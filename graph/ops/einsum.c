/* einsum.c - equations: see einsum.h. Both the shapes (ops_einsum.c) and the loops (loops_einsum.h) parse the text
 * here, so that they cannot disagree.
 *
 *     labels     0 .. 25 "A" to "Z"     26 .. 51 "a" to "z"     52 .. 59 dimensions of "...", aligned at the last
 */
#include "graph/ops/einsum.h"

#define ELLIPSIS 52 /* the first label of "..."; its last dimension is the last label */

/* One part of the equation, without blanks. */
struct term {
    unsigned n;                /* letters, and one for "..." */
    unsigned char letters[64]; /* labels; ELLIPSIS for "..." */
    bool has_ellipsis;
    const char *wrong;
};

static int label_of(char c)
{
    return c >= 'a' && c <= 'z' ? c - 'a' + 26 : c >= 'A' && c <= 'Z' ? c - 'A' : -1; /* in the order of ASCII */
}

/* Reads one term, up to a comma, an arrow or the end; returns where it stopped. What is wrong is in t->wrong. */
static const char *read_term(const char *s, struct term *t)
{
    *t = (struct term){.n = 0};
    for (; *s != '\0' && *s != ',' && *s != '-' && t->wrong == NULL; s++) {
        int label = label_of(*s);

        if (*s == ' ') {
            continue;
        }
        if (strncmp(s, "...", 3) == 0 && !t->has_ellipsis) {
            label = ELLIPSIS;
            t->has_ellipsis = true;
            s += 2;
        }
        if (label < 0 || t->n == sizeof t->letters) {
            t->wrong = "has a sign that is no letter, or too many letters";
            break;
        }
        t->letters[t->n++] = (unsigned char)label;
    }
    return s;
}

/* The labels of an input's dimensions. "..." stands for those dimensions that no letter names; they are labelled
 * from the last label backwards, so that "..." of inputs with different ranks broadcasts at the last dimension. */
static const char *spread(const struct term *t, unsigned n_dims, unsigned char *labels)
{
    unsigned letters = t->n - t->has_ellipsis;
    unsigned at = 0;

    if (n_dims < letters || (n_dims > letters && !t->has_ellipsis)) {
        return "has another number of letters than an input has dimensions";
    }
    for (unsigned k = 0; k < t->n; k++) {
        if (t->letters[k] != ELLIPSIS) {
            labels[at++] = t->letters[k];
        }
        for (unsigned d = 0; t->letters[k] == ELLIPSIS && d < n_dims - letters; d++) {
            labels[at++] = (unsigned char)(VC_EINSUM_LABELS - (n_dims - letters) + d);
        }
    }
    return NULL;
}

/* Appends a label to the order unless it is there; false: it was. */
static bool add_label(struct vc_einsum *e, bool *seen, unsigned label)
{
    if (seen[label]) {
        return false;
    }
    seen[label] = true;
    e->order[e->n_labels++] = (unsigned char)label;
    return true;
}

/* The term behind the arrow: the labels of the output in their order. Letters must come once, and in some input. */
static const char *take_output(const char *s, const unsigned *uses, bool *seen, struct vc_einsum *e)
{
    struct term t;

    s = read_term(s, &t);
    if (t.wrong != NULL || *s != '\0') {
        return t.wrong != NULL ? t.wrong : "has more than one output";
    }
    for (unsigned k = 0; k < t.n; k++) {
        if (t.letters[k] == ELLIPSIS) {
            for (unsigned label = ELLIPSIS; label < VC_EINSUM_LABELS; label++) {
                (void)(uses[label] != 0 && add_label(e, seen, label));
            }
        } else if (uses[t.letters[k]] == 0 || !add_label(e, seen, t.letters[k])) {
            return "has a letter in the output twice, or one that no input has";
        }
    }
    return NULL;
}

/* Without an arrow the output is "...", then the letters that come once, in alphabetical order (upper case first). */
static void guess_output(const unsigned *uses, bool *seen, struct vc_einsum *e)
{
    for (unsigned k = 0; k < VC_EINSUM_LABELS; k++) {
        unsigned label = (k + ELLIPSIS) % VC_EINSUM_LABELS;

        if (uses[label] == 1 || (uses[label] != 0 && label >= ELLIPSIS)) {
            (void)add_label(e, seen, label);
        }
    }
}

/* Terms first, which count the uses of each label; then the output's labels; then all other labels, which are
 * summed. */
const char *vc_einsum_parse(const char *equation, unsigned n_inputs, const unsigned *n_dims, struct vc_einsum *out)
{
    unsigned uses[VC_EINSUM_LABELS] = {0};
    bool seen[VC_EINSUM_LABELS] = {false};
    const char *s = equation;
    const char *wrong = NULL;

    *out = (struct vc_einsum){.n_inputs = n_inputs};
    if (n_inputs > VC_EINSUM_INPUTS) {
        return "is for more than 8 inputs, which is not supported";
    }
    for (unsigned k = 0; k < n_inputs && wrong == NULL; k++) {
        struct term t;

        s = read_term(s, &t);
        out->n_dims[k] = n_dims[k];
        wrong = t.wrong != NULL ? t.wrong : spread(&t, n_dims[k], out->labels[k]);
        for (unsigned d = 0; wrong == NULL && d < n_dims[k]; d++) {
            uses[out->labels[k][d]]++;
        }
        if (wrong == NULL && (*s == ',') != (k + 1 < n_inputs)) {
            wrong = "is for another number of inputs";
        }
        s += *s == ',';
    }
    if (wrong != NULL || (*s == '-' && s[1] != '>')) {
        return wrong != NULL ? wrong : "has a sign that is no letter";
    }
    if (*s == '-') {
        wrong = take_output(s + 2, uses, seen, out);
    } else {
        guess_output(uses, seen, out);
    }
    out->n_out = out->n_labels;
    for (unsigned k = 0; k < n_inputs; k++) {
        for (unsigned d = 0; d < n_dims[k]; d++) {
            (void)add_label(out, seen, out->labels[k][d]);
        }
    }
    return wrong != NULL ? wrong : out->n_out > VC_GRAPH_MAX_DIMS ? "makes more than 8 dimensions" : NULL;
}
