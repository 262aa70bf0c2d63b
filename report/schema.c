/* schema.c - the JSON Schema of a document, made of its rows (document_rows.h). This file reads all documents by
 * rows_list.inc: each table is an array of struct vc_row that ends with VC_ROW_END, and a document begins with a row of
 * its name and sentence.
 *
 *     rows_plan[]                                       schema
 *       DOCUMENT "plan" "How a model can ..."           "description"
 *       PAGE; MEMBER "command_line"                     a property that is not required
 *       MEMBER "version" text                           "version": {"type": "string"}, required
 *       OBJECT "options" ... END                        a property of type object, with properties of its own
 *
 * A reader starts at write_schema. The document of a failure, {"schema", "error"}, is the alternative of every
 * document. */

#include <vcompress/page.h>

#include "report/document_parts.h"
/* "int8|int32|int2|...": INT8 and INT32 are no rows of that table. */
static const char schemes[] = "int8|int32"
#define INTS(NAME, name, ...)   "|" name
#define FLOATS(NAME, name, ...) "|" name
#define TABLE(NAME, name)       "|" name
#include "core/model/code_schemes.inc"
    ;

#define TRAINING
#include "report/rows_list.inc"

#include "report/error.inc"

#include "report/layout.inc"
#include "report/memory_parts.inc"
#include "report/model_file.inc"
#include "report/page_members.inc"
#include "report/quality.inc"

#include "report/changes.inc"
#include "report/diff.inc"
#include "report/distill.inc"
#include "report/estimate.inc"
#include "report/evaluate.inc"
#include "report/fit.inc"
#include "report/gpus.inc"
#include "report/graph.inc"
#include "report/inspect.inc"
#include "report/plan.inc"
#include "report/report.inc"
#include "report/sensitivity.inc"
#include "report/shrink.inc"
#include "report/verify.inc"

/* The members of the document of a failure. */
static const struct vc_row failure[] = {PART("error", LINES, "", error, ){.form = VC_ROW_END}};
/* All documents, in the order of their names. A new document is an entry here, and its file among the ones above. */
static const struct vc_row *const documents[] = {
    rows_changes, rows_diff,    rows_distill, rows_estimate, rows_evaluate,    rows_fit,    rows_gpus,
    rows_graph,   rows_inspect, rows_plan,    rows_report,   rows_sensitivity, rows_shrink, rows_verify};

/* What a value of each kind is in JSON Schema; type NULL: the keywords say it. */
static const struct {
    const char *type, *keywords;
} kinds[] = {
#define KIND(name, c_type, writer, json_type, keywords) [VC_KIND_##name] = {json_type, keywords},
#include "report/kinds.inc"
#undef KIND
    [VC_KIND_object] = {"object", ""},
    [VC_KIND_dim] = {NULL, "\"type\": [\"integer\", \"string\"]"},
    [VC_KIND_counts] = {"object", "\"additionalProperties\": {\"type\": \"integer\", \"minimum\": 0}"},
    [VC_KIND_any] = {NULL, ""}};

/* "type": "string", or with null ["string", "null"]; nothing for NULL. */
static void write_type(struct vc_json *json, const char *type, bool null)
{
    if (null) {
        vc_json_begin(json, "type", '[', true);
        vc_json_string(json, NULL, type);
        vc_json_string(json, NULL, "null");
        vc_json_end(json, ']');
    } else if (type != NULL) {
        vc_json_string(json, "type", type);
    }
}

/* What a value that is no object may be. Words are an "enum", which lists null itself where the value may be null. */
static void write_value(struct vc_json *json, const struct vc_row *row, bool null)
{
    const char *keywords = kinds[row->kind].keywords;
    unsigned n_words = 1;

    /* keywords come behind the type, or stand alone */
    if (row->words == NULL) {
        write_type(json, kinds[row->kind].type, null);
        vc_text_add(json->text, "%s%s", json->level[json->depth].some && *keywords != '\0' ? ", " : "", keywords);
        return;
    }
    for (const char *c = row->words; *c != '\0'; c++) {
        n_words += *c == '|';
    }
    vc_json_begin(json, "enum", '[', true);
    for (unsigned i = 0; i < n_words; i++) {
        vc_json_word(json, NULL, row->words, i);
    }
    if (null) {
        vc_json_null(json, NULL);
    }
    vc_json_end(json, ']');
}

/* The row behind this one, and if this is an object whose members follow, behind its end. Walks nested objects by
 * recursion. */
static const struct vc_row *behind(const struct vc_row *row)
{
    if (row->form == VC_ROW_OBJECT && row->table == NULL) {
        for (row++; row->form != VC_ROW_END; row = behind(row)) {
        }
    }
    return row + 1;
}

/* "required": members that documents of all versions have, without those of a condition, of pages, and those that came
 * later. `optional` is about the next row alone, `several` about all up to DONE. first: a name that is not among the
 * rows. */
static void write_required(struct vc_json *json, const struct vc_row *row, const char *first)
{
    bool optional = false;
    bool several = false;

    vc_json_begin(json, "required", '[', true);
    if (first != NULL) {
        vc_json_string(json, NULL, first);
    }
    /* a member of its own, not one of an object inside */
    for (; row->form != VC_ROW_END; row = behind(row)) {
        if (row->name != NULL && !optional && !several) {
            vc_json_string(json, NULL, row->name);
        }
        optional = row->form == VC_ROW_OPTIONAL || row->form == VC_ROW_PAGE;
        several = (several || row->form == VC_ROW_WHEN) && row->form != VC_ROW_DONE;
    }
    vc_json_end(json, ']');
}

static void write_members(struct vc_json *json, const struct vc_row *row, const char *schema);

/* What an object holds: of $defs, under its name, or one of two. */
static void write_definition(struct vc_json *json, const char *name, const struct vc_row *rows, const char *schema)
{
    vc_json_begin(json, name, '{', false);
    vc_json_string(json, "type", "object");
    write_members(json, rows, schema);
    vc_json_end(json, '}');
}

/* What lies behind the name of a member. Scalars and lists of scalars stand in one line, objects in several. */
static void write_member(struct vc_json *json, const struct vc_row *row)
{
    bool scalar = row->form == VC_ROW_MEMBER || (row->form != VC_ROW_OBJECT && row->table == NULL);

    vc_json_begin(json, row->name, '{', scalar);
    if (row->sentence != NULL && *row->sentence != '\0') {
        vc_json_string(json, "description", row->sentence);
    }
    if (row->form == VC_ROW_MEMBER) {
        write_value(json, row, row->null);
    } else if (row->form == VC_ROW_OBJECT) {
        write_type(json, "object", row->null);
        write_members(json, row->table != NULL ? row->table : row + 1, NULL);
    } else {
        write_type(json, row->form == VC_ROW_LIST ? "array" : "object", row->null);
        vc_json_begin(json, row->form == VC_ROW_LIST ? "items" : "additionalProperties", '{', scalar);
        if (row->other != NULL) {
            vc_json_begin(json, "oneOf", '[', false);
            write_definition(json, NULL, row->table, NULL);
            write_definition(json, NULL, row->other, NULL);
            vc_json_end(json, ']');
        } else if (row->table != NULL) {
            write_type(json, "object", false);
            write_members(json, row->table, NULL);
        } else {
            write_value(json, row, row->item_null);
        }
        vc_json_end(json, '}');
    }
    vc_json_end(json, '}');
}

/* The members of an object, up to its end. schema: the first member of a document, with this value; or NULL. */
static void write_members(struct vc_json *json, const struct vc_row *row, const char *schema)
{
    write_required(json, row, schema != NULL ? "schema" : NULL);
    vc_json_begin(json, "properties", '{', false);
    if (schema != NULL) {
        vc_json_begin(json, "schema", '{', true);
        vc_json_string(json, "const", schema);
        vc_json_end(json, '}');
    }
    for (; row->form != VC_ROW_END; row = behind(row)) {
        if (row->name != NULL) {
            write_member(json, row);
        }
    }
    vc_json_end(json, '}');
}

/* A document, the document of a failure, or (list) an array of these. */
static void write_either(struct vc_json *json, bool list)
{
    static const char *const definitions[] = {"#/$defs/answer", "#/$defs/failure", "#/$defs/list"};

    vc_json_begin(json, "oneOf", '[', true);
    for (size_t i = 0; i < (list ? 3 : 2); i++) {
        vc_json_begin(json, NULL, '{', true);
        vc_json_string(json, "$ref", definitions[i]);
        vc_json_end(json, '}');
    }
    vc_json_end(json, ']');
}

/* An array of documents. */
static void write_list(struct vc_json *json)
{
    vc_json_begin(json, "list", '{', false);
    vc_json_string(json, "description", "of a command with several inputs: a document for each, in their order");
    vc_json_string(json, "type", "array");
    vc_json_begin(json, "items", '{', true);
    write_either(json, false);
    vc_json_end(json, '}');
    vc_json_end(json, '}');
}

/* The whole schema: its name, its sentence, the alternatives, and their definitions. */
static void write_schema(struct vc_json *json, const struct vc_row *document)
{
    bool list = document->form == VC_ROW_DOCUMENTS;
    char text[512];

    vc_json_string(json, "$schema", "https://json-schema.org/draft/2020-12/schema");
    (void)snprintf(text, sizeof text, "urn:vcompress:%s:1", document->name);
    vc_json_string(json, "$id", text);
    (void)snprintf(text, sizeof text, "vcompress %s, version 1", document->name);
    vc_json_string(json, "title", text);
    (void)snprintf(text, sizeof text, "%s New members may be added within version 1; none are renamed or removed.",
                   document->sentence);
    vc_json_string(json, "description", text);
    write_either(json, list);
    (void)snprintf(text, sizeof text, "vcompress.%s/1", document->name);
    vc_json_begin(json, "$defs", '{', false);
    write_definition(json, "answer", document + 1, text);
    write_definition(json, "failure", failure, text);
    if (list) {
        write_list(json);
    }
    vc_json_end(json, '}');
}

/* A PAGE row is followed by the row of its member. */
bool vc_is_page_member(const char *schema, const char *name)
{
    char own[64];

    for (size_t i = 0; i < sizeof documents / sizeof *documents; i++) {
        const struct vc_row *row = documents[i] + 1;

        (void)snprintf(own, sizeof own, "vcompress.%s/1", documents[i]->name);
        for (; strcmp(own, schema) == 0 && row->form != VC_ROW_END; row = behind(row)) {
            if (row->form == VC_ROW_PAGE && strcmp(row[1].name, name) == 0) {
                return true;
            }
        }
    }
    return false;
}

const char *vc_schema_name(size_t index)
{
    return index < sizeof documents / sizeof *documents ? documents[index]->name : NULL;
}

/* An unknown name is refused with the names that there are. */
enum vc_status vc_schema_json(struct vc_ctx *ctx, const char *name, char **text)
{
    struct vc_text schema;
    struct vc_json json;
    char names[256] = "";
    size_t i = 0;

    *text = NULL;
    while (vc_schema_name(i) != NULL && strcmp(vc_schema_name(i), name) != 0) {
        size_t n = strlen(names);

        (void)snprintf(names + n, sizeof names - n, "%s%s", n == 0 ? "" : ", ", vc_schema_name(i++));
    }
    VC_REFUSE_IF(vc_schema_name(i) == NULL, ctx, VC_E_ARGUMENT, "no document is called '%s': %s", name, names);
    vc_json_open(&json, &schema, ctx, '{', NULL);
    write_schema(&json, documents[i]);
    vc_json_end(&json, '}');
    return vc_json_finish(&json, text);
}
