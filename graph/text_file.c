/* text_file.c - a graph from a text file that people write: reads the file and gives the text to the parser that
 * understands it, graph/onnx (ONNX's textual form) or graph/layers (a list of layers). Called through
 * vc_graph_read_text by every command with --graph. */

#include "core/text/text.h"
#include "graph/build.h"
#include "graph/layers/layers.h"
#include "graph/text_read.h"

#define MAX_TEXT ((size_t)16 << 20)

/* True if the text begins like ONNX's textual form: "<ir_version: 10, ...> agraph (float[N, 784] x) => ...". A list
 * of layers never begins with "<". */
static bool looks_like_onnx(const char *text, size_t n)
{
    size_t at = 0;

    while (at < n && strchr(" \t\r\n", text[at]) != NULL) {
        at++;
    }
    return n - at > 2 && text[at] == '<' && memchr(text + at, '>', n - at) != NULL;
}

/* Looks at the first 4096 bytes only: a file of weights may have gigabytes. A NUL among them means binary. */
bool vc_graph_is_text(const char *path)
{
    char head[4096];
    FILE *file = fopen(path, "rb");
    size_t n = file == NULL ? 0 : fread(head, 1, sizeof head, file);

    if (file != NULL) {
        (void)fclose(file);
    }
    return n != 0 && memchr(head, '\0', n) == NULL &&
           (vc_layers_probe(head, n) || looks_like_onnx(head, n) || vc_ends_in(path, ".txt") ||
            vc_ends_in(path, ".onnxtxt"));
}

/* What is not ONNX by its first character or by its name is taken for a list of layers: its errors name the line,
 * which helps the writer of either kind. */
static enum vc_status build(struct vc_ctx *ctx, const char *path, const char *text, size_t n,
                            const struct vc_graph_options *options, struct vc_graph **out)
{
    struct vc_graph *graph = NULL;

    if (looks_like_onnx(text, n) || (vc_ends_in(path, ".onnxtxt") && !vc_layers_probe(text, n))) {
        return vc_graph_parse_text(ctx, text, n, options, out);
    }
    VC_CALL(vc_graph_create(ctx, &graph));
    vc_layers_build(graph, text, n, options->weights);
    return vc_graph_finish(graph, out);
}

/* The path goes in front of every sentence. */
enum vc_status vc_graph_read_text(struct vc_ctx *ctx, const char *path, const struct vc_graph_options *options,
                                  struct vc_graph **out)
{
    struct vc_graph_options own;
    char *text = NULL;
    size_t n = 0;
    enum vc_status status = VC_OK;

    *out = NULL;
    vc_clear_error(ctx);
    VC_TRY(vc_graph_options_read(ctx, options, &own));
    VC_TRY(vc_read_text(ctx, path, "the text of a graph", MAX_TEXT, &text, &n));
    VC_TRY(build(ctx, path, text, n, &own, out));
out:
    vc_free(ctx, text);
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", path);
}
