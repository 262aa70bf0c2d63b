/* page.c - a document as one HTML file: vc_page_html. The shell (shell.html, page.css and the scripts beside it) is
 * part of the program, and the same for every document; the document lies in it as it is:
 *
 *     shell.html   ... <title>@title@</title><style>@style@</style> ...
 *                  ... <script type="application/json" id="document">@document@</script> ...
 *
 * Decides nothing: what is shown of a document is the work of the scripts, and without them of page_tables.c. */

#include <vcompress/page.h>

#include "report/document_tree.h"
#include "report/page/page_tables.h"
#include "report/page/svg_text.h"

#ifndef VC_PAGE_FOLDER
#define VC_PAGE_FOLDER "report/page/" /* a build by hand starts at the root of the tree */
#endif

#define MOST_ROWS  2000 /* of a list in the tables */
#define LEAST_ROWS 20   /* where memory allows no more */

VC_EMBED(vc_page_shell, VC_PAGE_FOLDER "shell.html");
VC_EMBED(vc_page_style, VC_PAGE_FOLDER "page.css");

/* In the order in which they need each other. */
#define SCRIPTS(X) \
    X(base)        \
    X(table) X(draw) X(treemap) X(curves) X(values) X(network) X(memory) X(report) X(files) X(sensitivity) X(start)
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
        /* the first byte of both line separators is e2; most text has neither */
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

/* Each script is an element of its own: the digests in the policy of the shell are of whole elements
 * (tests/page/seal.py). */
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

/* What a page is made of. */
struct page {
    const char *document, *drawing; /* drawing: NULL without one */
    struct vc_text title, tables;
};

/* What stands for a mark of the shell. An unknown mark, or a drawing that is not there, is nothing. */
static void add_part(struct vc_text *text, const char *name, const struct page *page)
{
    if (strncmp(name, "title@", 6) == 0) {
        vc_text_add_bytes(text, page->title.data, page->title.n);
    } else if (strncmp(name, "style@", 6) == 0) {
        vc_text_add_bytes(text, vc_page_style, strlen(vc_page_style));
    } else if (strncmp(name, "document@", 9) == 0) {
        add_document(text, page->document);
    } else if (strncmp(name, "drawing@", 8) == 0 && page->drawing != NULL && strstr(page->drawing, "<svg") != NULL) {
        add_drawing(text, page->drawing);
    } else if (strncmp(name, "tables@", 7) == 0) {
        vc_text_add_bytes(text, page->tables.data, page->tables.n);
    } else if (strncmp(name, "scripts@", 8) == 0) {
        add_scripts(text);
    }
}

/* Marks have the form @name@; nothing else in the shell has that sign. */
static void add_page(struct vc_text *text, const struct page *page)
{
    const char *at = vc_page_shell;

    for (const char *mark; (mark = strchr(at, '@')) != NULL; at = strchr(mark + 1, '@') + 1) {
        vc_text_add_bytes(text, at, (size_t)(mark - at));
        add_part(text, mark + 1, page);
    }
    vc_text_add_bytes(text, at, strlen(at));
}

/* The tree is gone before the page is made, which is as large as its document. */
static enum vc_status make_tables(struct vc_ctx *ctx, struct page *page)
{
    static const struct vc_document_cut cut = {.most = MOST_ROWS, .least = LEAST_ROWS};
    struct vc_document_tree tree;

    VC_CALL(vc_document_tree(ctx, page->document, &cut, &tree));
    vc_page_title(&page->title, tree.root);
    vc_page_tables(&page->tables, tree.root);
    vc_document_tree_free(ctx, &tree);
    return page->title.status != VC_OK ? page->title.status : page->tables.status;
}

/* The page is put together twice: the first time only its length is counted, so that the second one fits exactly. */
enum vc_status vc_page_html(struct vc_ctx *ctx, const char *document, const char *drawing, char **out)
{
    struct page page = {.document = document, .drawing = drawing};
    struct vc_text text = {.ctx = ctx};
    struct vc_text length = {.ctx = ctx};
    enum vc_status status;

    *out = NULL;
    vc_clear_error(ctx);
    vc_text_init(&page.title, ctx);
    vc_text_init(&page.tables, ctx);
    VC_TRY(make_tables(ctx, &page));
    length.counting = true;
    add_page(&length, &page);
    vc_text_room(&text, length.n);
    add_page(&text, &page);
    *out = vc_text_detach(&text);
    status = text.status;
out:
    vc_text_release(&page.tables);
    vc_text_release(&page.title);
    return status;
}

enum vc_status vc_document_svg(struct vc_ctx *ctx, const struct vc_document *document, char **text)
{
    *text = NULL;
    vc_clear_error(ctx);
    if (document->kind == VC_DOCUMENT_GRAPH) {
        return vc_draw_graph(ctx, document, text);
    }
    VC_REFUSE_IF(document->kind != VC_DOCUMENT_SENSITIVITY, ctx, VC_E_ARGUMENT, "documents of kind %u have no drawing",
                 (unsigned)document->kind);
    return vc_draw_sensitivity(ctx, document, text);
}
