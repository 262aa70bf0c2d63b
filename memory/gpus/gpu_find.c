/* gpu_find.c - which GPU a text means. Names are compared as words: "NVIDIA A100-SXM4-80GB" is a, 100, sxm, 4, 80, gb.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/text/text.h"
#include "memory/gpus/gpu_rows.h"

#define MAX_WORDS  32
#define MAX_NEAR   8
#define NEAR_BYTES 64 /* of a name that is compared by its letters */

/* A piece of a name: letters, or digits. The text is not ended by 0. */
struct word {
    const char *text;
    size_t n;
};

struct words {
    size_t n;
    struct word of[MAX_WORDS];
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* A letter of a text as a small one. */
static char small(char c)
{
    return (char)(c | (is_letter(c) ? 0x20 : 0));
}

/* Letters of either case are the same. Few words are as long as another, which is asked first: each row of the catalogue is
 * compared with all before it. */
static bool same_word(struct word a, struct word b)
{
    size_t k = 0;

    while (a.n == b.n && k < a.n && small(a.text[k]) == small(b.text[k])) {
        k++;
    }
    return a.n == b.n && k == a.n;
}

#define WORD(text)             \
    {                          \
        text, sizeof(text) - 1 \
    }

static bool is_word(struct word word, const char *text)
{
    return same_word(word, (struct word){text, strlen(text)});
}

/* What people leave out, and drivers do not. */
static bool is_brand(struct word word)
{
    static const struct word brands[] = {WORD("nvidia"),  WORD("amd"),       WORD("geforce"), WORD("tesla"),
                                         WORD("quadro"),  WORD("instinct"),  WORD("radeon"),  WORD("gpu"),
                                         WORD("edition"), WORD("generation")};

    for (size_t k = 0; k < sizeof brands / sizeof brands[0]; k++) {
        if (same_word(word, brands[k])) {
            return true;
        }
    }
    return false;
}

/* The next word of the text from *at on, behind which *at is then; n 0 if there is none. Letters and digits are
 * words of their own, so that "3060Ti" and "3060 Ti" are the same. */
static struct word next_word(const char **at, const char *end)
{
    while (*at < end) {
        struct word word = {*at, 0};
        bool digits = is_digit(**at);

        while (*at < end && (digits ? is_digit(**at) : is_letter(**at))) {
            (*at)++;
        }
        word.n = (size_t)(*at - word.text);
        if (word.n == 0) {
            (*at)++;
        } else if (!is_brand(word)) {
            return word;
        }
    }
    return (struct word){end, 0};
}

static struct words words_of(const char *text, size_t n)
{
    struct words words = {0};
    const char *end = text + n;

    while (words.n < MAX_WORDS && (words.of[words.n] = next_word(&text, end)).n != 0) {
        words.n++;
    }
    return words;
}

/* Whether the text has these words and no others: it is read as far as they agree. */
static bool is_name(const char *text, const struct words *words)
{
    const char *end = text + strlen(text);
    size_t k = 0;

    while (k < words->n && same_word(next_word(&text, end), words->of[k])) {
        k++;
    }
    return k == words->n && (k == MAX_WORDS || next_word(&text, end).n == 0);
}

/* How many of the words come in the text, in their order. *only_size: what it has besides is the size of a memory. */
static size_t words_in(const struct words *words, const struct words *text, bool *only_size)
{
    size_t found = 0;

    *only_size = true;
    for (size_t k = 0; k < text->n; k++) {
        if (found < words->n && same_word(words->of[found], text->of[k])) {
            found++;
        } else if (k + 1 < text->n && is_digit(text->of[k].text[0]) && is_word(text->of[k + 1], "gb")) {
            k++;
        } else {
            *only_size = false;
        }
    }
    return found;
}

/* Of the row itself, or one of its aliases. */
static bool has_name(const struct vc_gpu *gpu, const struct words *name)
{
    bool found = is_name(gpu->name, name);

    for (size_t k = 0; !found && k < gpu->n_aliases; k++) {
        found = is_name(gpu->aliases[k], name);
    }
    return found;
}

/* The row with that name in full. */
struct vc_gpu *vc_gpus_row(const struct vc_gpus *gpus, const char *name)
{
    struct words words = words_of(name, strlen(name));

    for (size_t k = 0; k < gpus->list.n; k++) {
        if (has_name(gpus->list.rows[k], &words)) {
            return gpus->list.rows[k];
        }
    }
    return NULL;
}

/* The only row whose name has the words and nothing else but the size of its memory, or else the only one whose name has
 * them at all; NULL: none, or several. */
static const struct vc_gpu *only_one(const struct vc_gpus *gpus, const struct words *words)
{
    const struct vc_gpu *one = NULL;
    const struct vc_gpu *with_more = NULL;
    size_t n = 0;
    size_t n_with_more = 0;

    for (size_t k = 0; words->n != 0 && k < gpus->list.n; k++) {
        struct words own = words_of(gpus->list.rows[k]->name, strlen(gpus->list.rows[k]->name));
        bool only_size;

        if (words_in(words, &own, &only_size) == words->n) {
            with_more = gpus->list.rows[k];
            n_with_more++;
            one = only_size ? with_more : one;
            n += only_size;
        }
    }
    one = n == 1 ? one : NULL;
    return n_with_more == 1 ? with_more : one;
}

/* "M2 Max", "Apple M1": processors whose memory is not that of a card. */
static bool is_apple(const char *text)
{
    return strncasecmp(text, "apple", 5) == 0 ||
           ((text[0] == 'M' || text[0] == 'm') && text[1] >= '1' && text[1] <= '9' &&
            (text[2] == '\0' || text[2] == ' ' || text[2] == '-'));
}

/* The words without spaces, in small letters: "rtx4060ti". */
static void join(const struct words *words, char joined[NEAR_BYTES])
{
    size_t n = 0;

    for (size_t k = 0; k < words->n; k++) {
        for (size_t i = 0; i < words->of[k].n && n < NEAR_BYTES - 1; i++) {
            char c = words->of[k].text[i];

            joined[n++] = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
        }
    }
    joined[n] = '\0';
}

/* Names that are listed, the nearest first; those that are as near in the order of the catalogue. */
struct nearest {
    char joined[NEAR_BYTES]; /* of the text */
    bool by_distance;        /* false: all in the order of the catalogue */
    size_t n_all, n;
    size_t costs[MAX_NEAR];
    const struct vc_gpu *of[MAX_NEAR];
};

/* Keeps the nearest rows in order, for the sentence that names them. */
static void consider(struct nearest *nearest, const struct vc_gpu *gpu, const struct words *own)
{
    char joined[NEAR_BYTES];
    size_t cost = 0;
    size_t at;

    if (nearest->by_distance) {
        join(own, joined);
        cost = strncmp(joined, nearest->joined, strlen(nearest->joined)) == 0
                   ? 0 /* what was given is its beginning */
                   : vc_text_distance(nearest->joined, joined);
    }
    nearest->n_all++;
    if (nearest->n == MAX_NEAR && cost >= nearest->costs[MAX_NEAR - 1]) {
        return;
    }
    nearest->n += nearest->n < MAX_NEAR;
    for (at = nearest->n - 1; at > 0 && nearest->costs[at - 1] > cost; at--) {
        nearest->costs[at] = nearest->costs[at - 1];
        nearest->of[at] = nearest->of[at - 1];
    }
    nearest->costs[at] = cost;
    nearest->of[at] = gpu;
}

/* Names with as many of the words as any name has, as a list. */
static enum vc_status refuse(struct vc_ctx *ctx, const struct vc_gpus *gpus, const char *text,
                             const struct words *words)
{
    struct nearest nearest = {.n = 0};
    struct vc_text list;
    size_t most = 0;
    bool only_size;

    for (size_t k = 0; k < gpus->list.n; k++) {
        struct words own = words_of(gpus->list.rows[k]->name, strlen(gpus->list.rows[k]->name));
        size_t found = words_in(words, &own, &only_size);

        most = found > most ? found : most;
    }
    bool all = words->n != 0 && most == words->n;
    VC_REFUSE_IF(!all && is_apple(text), ctx, VC_E_ARGUMENT,
                 "'%s' is no card with a memory of its own; %s SIZE asks about what its programs may have of the "
                 "computer's, some two thirds to three quarters",
                 text, vc_option(ctx, "visible_bytes"));
    join(words, nearest.joined);
    nearest.by_distance = !all;
    for (size_t k = 0; most != 0 && k < gpus->list.n; k++) {
        struct words own = words_of(gpus->list.rows[k]->name, strlen(gpus->list.rows[k]->name));

        if (words_in(words, &own, &only_size) == most) {
            consider(&nearest, gpus->list.rows[k], &own);
        }
    }
    vc_text_init(&list, ctx);
    for (size_t k = 0; k < nearest.n; k++) {
        vc_text_add(&list, "%s%s", k == 0 ? "" : ", ", nearest.of[k]->name);
    }
    if (nearest.n_all > MAX_NEAR) {
        vc_text_add(&list, ", and %zu more", nearest.n_all - MAX_NEAR);
    }
    if (list.status == VC_OK) {
        if (nearest.n == 0) {
            (void)vc_fail(ctx, VC_E_ARGUMENT, "no GPU is called '%s'", text);
        } else {
            (void)vc_fail(ctx, VC_E_ARGUMENT, all ? "'%s' could be any of %s" : "no GPU is called '%s'; near it: %s",
                          text, list.data);
        }
    }
    vc_text_release(&list);
    return ctx->status;
}

/* "A100:8" is eight of them; an instance is so many of its GPU. A name that is none in full may still be a part of only
 * one. */
enum vc_status vc_gpus_find(struct vc_ctx *ctx, const struct vc_gpus *gpus, const char *text, const struct vc_gpu **gpu,
                            unsigned *count)
{
    const char *colon = strrchr(text, ':');
    size_t n = colon != NULL ? (size_t)(colon - text) : strlen(text);
    struct words words = words_of(text, n);
    const struct vc_gpu *found = NULL;
    unsigned long number = 1;

    vc_clear_error(ctx);
    *gpu = NULL;
    if (colon != NULL) {
        char *end;

        number = is_digit(colon[1]) ? strtoul(colon + 1, &end, 10) : 0;
        if (number == 0 || number > 1048576 || *end != '\0') {
            return vc_fail(ctx, VC_E_ARGUMENT, "'%s': behind the colon stands how many there are, 1 to 1048576", text);
        }
    }
    for (size_t k = 0; k < gpus->list.n && found == NULL; k++) {
        found = has_name(gpus->list.rows[k], &words) ? gpus->list.rows[k] : NULL;
    }
    found = found != NULL ? found : only_one(gpus, &words);
    VC_RETURN_IF(found == NULL, refuse(ctx, gpus, text, &words));
    *count = (unsigned)number * found->count;
    *gpu = found->of != NULL ? found->of : found;
    return VC_OK;
}

bool vc_gpu_matches(const struct vc_gpu *gpu, const char *text)
{
    struct words words = words_of(text, strlen(text));
    bool only_size;

    for (size_t k = 0; k < gpu->n_aliases + 2; k++) {
        const char *of = k == 0 ? gpu->name : k == 1 ? gpu->architecture : gpu->aliases[k - 2];
        struct words own = words_of(of, strlen(of));

        if (words_in(&words, &own, &only_size) == words.n) {
            return true;
        }
    }
    return false;
}
