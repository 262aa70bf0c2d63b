/* page_tables.c - any document as plain tables: page_tables.h. Members of an object share a table of two columns, and
 * objects of a list a table with a column for each member:
 *
 *     {"totals": {"tensors": 2}, "tensors": [{"name": "fc1.weight", "shape": [8, 4]}, ...]}
 *
 *     totals.tensors  2               tensors:  name        shape
 *                                               fc1.weight  8, 4  */
#include "report/page/page_tables.h"

#include "report/document_tree.h"
#include "report/page/svg_text.h"

#define MOST_TEXT  4000 /* characters of a string */
#define MOST_DEPTH 8
#define MOST_PATH  256

/* Such a list becomes a table of its own. */
static bool is_list_of_objects(const json_t *value)
{
    return json_is_array(value) && json_is_object(json_array_get(value, 0));
}

/* A value on one line: "8, 4"; "sqnr_db 41.2, clipped 0". Deeper values than MOST_DEPTH are left out. */
static void add_inline(struct vc_text *text, json_t *value, unsigned depth)
{
    const char *key;
    json_t *member;
    size_t i;

    if (json_is_string(value)) {
        vc_svg_add_text(text, json_string_value(value), MOST_TEXT);
    } else if (json_is_integer(value)) {
        vc_text_add(text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    } else if (json_is_real(value)) {
        vc_text_add_json_number(text, json_real_value(value));
    } else if (json_is_boolean(value)) {
        vc_text_add(text, json_is_true(value) ? "yes" : "no");
    } else if (json_is_array(value) && depth < MOST_DEPTH) {
        json_array_foreach(value, i, member)
        {
            vc_text_add(text, i == 0 ? "" : json_is_object(member) ? "; " : ", ");
            add_inline(text, member, depth + 1);
        }
    } else if (json_is_object(value) && depth < MOST_DEPTH) {
        i = 0;
        json_object_foreach(value, key, member)
        {
            vc_text_add(text, i++ == 0 ? "" : ", ");
            vc_svg_add_text(text, key, MOST_PATH);
            vc_text_add(text, " ");
            add_inline(text, member, depth + 1);
        }
    }
}

/* The objects of a list; the first object has the names of the columns. Members that later objects have beyond these
 * are not shown. */
static void add_list(struct vc_text *text, const char *title, json_t *list)
{
    json_t *first = json_array_get(list, 0);
    const char *key;
    json_t *row, *member;
    size_t i;

    vc_text_add(text, "<h2>");
    vc_svg_add_text(text, title, MOST_PATH);
    vc_text_add(text, "</h2><div class=\"scroll\"><table><thead><tr>");
    json_object_foreach(first, key, member)
    {
        vc_text_add(text, "<th>");
        vc_svg_add_text(text, key, MOST_PATH);
        vc_text_add(text, "</th>");
    }
    vc_text_add(text, "</tr></thead><tbody>\n");
    json_array_foreach(list, i, row)
    {
        if (json_is_number(row)) { /* of a document that is cut */
            vc_text_add(text, "<tr><td>and %zu more</td></tr>\n", vc_document_left_out(list));
            break;
        }
        vc_text_add(text, "<tr>");
        json_object_foreach(first, key, member)
        {
            vc_text_add(text, "<td>");
            add_inline(text, json_object_get(row, key), 0);
            vc_text_add(text, "</td>");
        }
        vc_text_add(text, "</tr>\n");
    }
    vc_text_add(text, "</tbody></table></div>\n");
}

/* Rows of an object's members; with `lists`, the lists of objects inside instead. */
static void add_members(struct vc_text *text, const char *path, json_t *object, bool lists, unsigned depth)
{
    char name[MOST_PATH];
    const char *key;
    json_t *member;

    json_object_foreach(object, key, member)
    {
        (void)snprintf(name, sizeof name, "%s%s%s", path, *path == '\0' ? "" : ".", key);
        /* objects inside are members by longer paths: "totals.file.before" */
        if (json_is_object(member) && depth < MOST_DEPTH) {
            add_members(text, name, member, lists, depth + 1);
        } else if (is_list_of_objects(member) && lists) {
            add_list(text, name, member);
        } else if (!is_list_of_objects(member) && !lists && !json_is_null(member)) {
            vc_text_add(text, "<tr><th>");
            vc_svg_add_text(text, name, MOST_PATH);
            vc_text_add(text, "</th><td>");
            add_inline(text, member, 0);
            vc_text_add(text, "</td></tr>\n");
        }
    }
}

/* First the table of single members, then a table for each list. */
void vc_page_tables(struct vc_text *text, json_t *document)
{
    vc_text_add(text, "<div class=\"scroll\"><table><tbody>\n");
    add_members(text, "", document, false, 0);
    vc_text_add(text, "</tbody></table></div>\n");
    add_members(text, "", document, true, 0);
}

/* The file is the first of these members that the document has: input, file, model, a, student. The command is the
 * first word of `command`, else the name of the schema. */
void vc_page_title(struct vc_text *text, const json_t *document)
{
    const char *schema = json_string_value(json_object_get(document, "schema"));
    const char *command = json_string_value(json_object_get(document, "command"));
    const json_t *file = json_object_get(document, "input");
    const char *path, *slash;

    file = file != NULL ? file : json_object_get(document, "file");
    file = file != NULL ? file : json_object_get(document, "model");
    file = file != NULL ? file : json_object_get(document, "a");
    file = json_is_object(file) ? json_object_get(file, "path") : file;
    path = json_string_value(file != NULL ? file : json_object_get(document, "student"));
    if (path != NULL) {
        slash = strrchr(path, '/');
        vc_svg_add_text(text, slash != NULL && slash[1] != '\0' ? slash + 1 : path, 120);
        vc_text_add(text, " &#183; ");
    }
    if (command == NULL && schema != NULL && strncmp(schema, "vcompress.", 10) == 0) {
        command = schema + 10;
    }
    command = command == NULL ? "vcompress" : command;
    vc_text_add(text, "%.*s", (int)strspn(command, "abcdefghijklmnopqrstuvwxyz_"), command);
}
