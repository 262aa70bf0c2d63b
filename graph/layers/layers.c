/* layers.c - lists of layers: lines, words, and which layer each is. What a layer becomes is in layer_kinds.c.
 *
 * The text is copied line by line into a buffer that words are cut out of; lines beyond VC_LAYER_MAX_LINE
 * are refused. */
#include "graph/layers/layers.h"

#include "graph/layers/layer_kinds.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The next word of the line, in place: up to a space, or to the ']' of a shape, which may contain spaces.
 * NULL: none is left. */
static char *next_word(char **at)
{
    char *s = *at;
    char *word;
    bool in_shape = false;

    while (is_space(*s)) {
        s++;
    }
    if (*s == '\0' || *s == '#') {
        return NULL;
    }
    for (word = s; *s != '\0' && (in_shape || !is_space(*s)); s++) {
        in_shape = *s == '[' || (in_shape && *s != ']');
    }
    if (*s != '\0') {
        *s++ = '\0';
    }
    *at = s;
    return word;
}

/* Splits one line; false: nothing on it, or a problem was noted. */
static bool split(struct vc_layer_list *list, char *line)
{
    struct vc_layer *layer = &list->layer;
    char *word = next_word(&line);

    *layer = (struct vc_layer){.kind = word};
    if (word == NULL) {
        return false;
    }
    while ((word = next_word(&line)) != NULL) {
        char *equals = strchr(word, '=');

        VC_LEAVE_WITH(layer->n_words == VC_LAYER_MAX_WORDS || layer->n_options == VC_LAYER_MAX_WORDS,
                      vc_layer_fail(list, "has too many words"), false);
        if (equals == NULL) {
            layer->words[layer->n_words++] = word;
        } else {
            *equals = '\0';
            layer->options[layer->n_options].name = word;
            layer->options[layer->n_options++].value = equals + 1;
        }
    }
    return true;
}

/* "... as NAME" at the end: the value gets that name. */
static void take_name(struct vc_layer_list *list)
{
    struct vc_layer *layer = &list->layer;

    if (layer->n_words >= 2 && strcmp(layer->words[layer->n_words - 2], "as") == 0) {
        layer->as = layer->words[layer->n_words - 1];
        layer->n_words -= 2;
    }
}

/* Skips comments and empty lines; then the word "input" and a space have to follow. */
bool vc_layers_probe(const char *text, size_t n)
{
    size_t at = 0;

    while (at < n) {
        while (at < n && (is_space(text[at]) || text[at] == '\n')) {
            at++;
        }
        if (at == n || text[at] != '#') {
            break;
        }
        while (at < n && text[at] != '\n') {
            at++;
        }
    }
    return n - at > 6 && memcmp(text + at, "input", 5) == 0 && is_space(text[at + 5]);
}

/* Without an `output` line the last value is the output. */
void vc_layers_build(struct vc_graph *graph, const char *text, size_t n, const struct vc_model *model)
{
    struct vc_layer_list list = {.graph = graph, .model = model, .value = VC_NO_VALUE};
    size_t at = 0;

    while (at < n && graph->status == VC_OK) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t length = end == NULL ? n - at : (size_t)(end - (text + at));
        char line[VC_LAYER_MAX_LINE];

        list.line++;
        if (length >= sizeof line || memchr(text + at, '\0', length) != NULL) {
            vc_layer_fail(&list, length >= sizeof line ? "is too long" : "is not text");
        } else {
            memcpy(line, text + at, length);
            line[length] = '\0';
            if (split(&list, line)) {
                take_name(&list);
                vc_layer_add(&list);
            }
        }
        at += length + 1;
    }
    if (list.value == VC_NO_VALUE && graph->n_problems == 0) {
        vc_graph_complain(graph, "the list has no layers");
    }
    if (!list.has_output && list.value != VC_NO_VALUE) {
        vc_graph_add_output(graph, list.value);
    }
}
