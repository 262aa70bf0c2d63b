/* page.c - a document as one HTML file: vc_page_html. The shell (shell.html, page.css and the scripts beside it) is
 * part of the program, and the same for every document; the document lies in it as it is:
 *
 *     shell.html   ... <title>@title@</title><style>@style@</style> ...
 *                  ... <script type="application/json" id="document">@document@</script> ...
 *
 * Decides nothing: what is shown of a document is the work of the scripts, and without them of page_tables.c. */
#include <string.h>

#include <vcompress/page.h>

#include "core/base/compiler.h"
#include "report/page/page_tables.h"

#ifndef VC_PAGE_FOLDER
#define VC_PAGE_FOLDER "report/page/" /* a build by hand starts at the root of the tree */
#endif

VC_EMBED(vc_page_shell, VC_PAGE_FOLDER "shell.html");
VC_EMBED(vc_page_style, VC_PAGE_FOLDER "page.css");

/* In the order in which they need each other. */
#define SCRIPTS(X) \
    X(base) X(table) X(draw) X(treemap) X(curves) X(values) X(memory) X(report) X(files) X(sensitivity) X(start)
#define EMBED_SCRIPT(name) VC_EMBED(vc_page_##name, VC_PAGE_FOLDER #name ".js");
SCRIPTS(EMBED_SCRIPT)

/* In a script no "<" begins an element, and "</script>" does not end it, where there is no "<". In JSON it stands in
 * strings only. U+2028 and U+2029 are line ends for old engines. */
static void add_document(struct vc_text *text, const char *json)
{
    static const struct {
        const char *from, *to;
    } escapes[] = {{"<", "\\u003c"}, {"\xe2\x80\xa8", "\\u2028"}, {"\xe2\x80\xa9", "\\u2029"}};

    while (*json != '\0') {
        size_t n = strcspn(json, "<\xe2");
        size_t k = 0;

        vc_text_add_bytes(text, json, n);
        json += n;
        while (k < 3 && strncmp(json, escapes[k].from, strlen(escapes[k].from)) != 0) {
            k++;
        }
        if (k < 3) {
            vc_text_add(text, "%s", escapes[k].to);
            json += strlen(escapes[k].from);
        } else if (*json != '\0') {
            vc_text_add_bytes(text, json++, 1);
        }
    }
}

/* A drawing in a root of its own, where its style touches nothing else. */
static void add_drawing(struct vc_text *text, const char *svg)
{
    vc_text_add(text,
                "<section id=\"drawing\"><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"drawing\">"
                "<div><template shadowrootmode=\"open\">");
    vc_text_add(text, "%s</template></div></div></section>", strstr(svg, "<svg"));
}

static void add_scripts(struct vc_text *text)
{
#define LIST_SCRIPT(name) vc_page_##name,
    static const char *const scripts[] = {SCRIPTS(LIST_SCRIPT)};

    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        vc_text_add(text, "<script>");
        vc_text_add_bytes(text, scripts[i], strlen(scripts[i]));
        vc_text_add(text, "</script>\n");
    }
}

static void add_part(struct vc_text *text, const char *name, const char *document, const char *drawing, json_t *root)
{
    if (strncmp(name, "title@", 6) == 0) {
        vc_page_title(text, root);
    } else if (strncmp(name, "style@", 6) == 0) {
        vc_text_add_bytes(text, vc_page_style, strlen(vc_page_style));
    } else if (strncmp(name, "document@", 9) == 0) {
        add_document(text, document);
    } else if (strncmp(name, "drawing@", 8) == 0 && drawing != NULL && strstr(drawing, "<svg") != NULL) {
        add_drawing(text, drawing);
    } else if (strncmp(name, "tables@", 7) == 0) {
        vc_page_tables(text, root);
    } else if (strncmp(name, "scripts@", 8) == 0) {
        add_scripts(text);
    }
}

enum vc_status vc_page_html(struct vc_ctx *ctx, const char *document, const char *drawing, char **out)
{
    json_error_t error;
    json_t *root = json_loads(document, 0, &error);
    const char *at = vc_page_shell;
    struct vc_text text;

    *out = NULL;
    vc_clear_error(ctx);
    if (root == NULL && json_error_code(&error) == json_error_numeric_overflow) {
        root = json_loads(document, JSON_DECODE_INT_AS_REAL, &error);
    }
    if (root == NULL) {
        return json_error_code(&error) == json_error_out_of_memory
                   ? vc_fail(ctx, VC_E_NOMEM, "not enough memory to read a document")
                   : vc_fail(ctx, VC_E_FORMAT, "the document is no JSON: line %d: %s", error.line, error.text);
    }
    vc_text_init(&text, ctx);
    for (const char *mark; (mark = strchr(at, '@')) != NULL; at = strchr(mark + 1, '@') + 1) {
        vc_text_add_bytes(&text, at, (size_t)(mark - at));
        add_part(&text, mark + 1, document, drawing, root);
    }
    vc_text_add(&text, "%s", at);
    json_decref(root);
    *out = vc_text_detach(&text);
    return text.status;
}
