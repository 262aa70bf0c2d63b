/* document_rows.h - members of documents as rows. A document is a file <name>.inc with a row for each member, in their order:
 *
 *     TABLE(layer, const struct vc_memory_layer *layer)
 *     MEMBER("name", name, layer->name, "")
 *     MEMBER("weight_bytes", count, layer->weight_bytes, "of the weights as they are stored")
 *     END_TABLE
 *
 * The file is read twice. <name>_json.c includes it behind rows_write.inc: a table becomes the function
 * rows_layer(json, key, layout, layer), which writes the object. schema.c includes it behind rows_list.inc: the table becomes an array of
 * struct vc_row, of which the schema is made. Values are seen by the first reader only, sentences by the second. Rows that two documents
 * share are a file that both include inside of a table.
 *
 *   begin and end
 *     DOCUMENT(name, sentence, arguments...)          the whole document, vcompress.<name>/1; up to END_DOCUMENT(""); what
 *                                                     stands there follows the closing bracket
 *     DOCUMENTS(...)                                  the same; with several inputs the command prints an array of documents
 *     TABLE(name, arguments...)                       an object that documents contain; up to END_TABLE
 *   one value; kinds are rows of kinds.inc
 *     MEMBER(name, kind, value, sentence)
 *     MAYBE(name, kind, value, sentence)              null for a value that is none
 *     KNOWN(name, kind, condition, value, sentence)   null unless the condition holds; then the value is not computed
 *     BY(name, kind, statement, sentence)             the statement writes it
 *   one of some words, "kd|mse|cosine"
 *     WORD(name, words, number, sentence)             the word with this number, from 0 on
 *     WORD_IF(name, words, condition, number, sentence)
 *     SAID(name, words, text, sentence)               the text, which is one of them
 *     SAID_IF(name, words, text, sentence)            the same; null for NULL
 *     WORD_BITS(name, words, bits, sentence)          an array of the words whose bits are set
 *   objects; layout: FLAT in one line, LINES a line for each member
 *     OBJECT(name, layout, sentence) ... END
 *     OBJECT_IF(name, layout, condition, sentence) ... END            null unless the condition holds
 *     PART(name, layout, sentence, table, arguments...)               with the members of that table
 *     PART_IF(name, layout, condition, sentence, table, arguments...)
 *   arrays and maps, as long as `more` holds, for k = 0, 1, ...; a map is an object whose names are data
 *     LIST(name, layout, kind, more, value, sentence)
 *     LIST_MAYBE(name, layout, kind, more, value, sentence)          an item is null for a value that is none
 *     LIST_KNOWN(name, layout, kind, more, condition, value, sentence)   an item is null unless the condition holds
 *     LIST_OF(name, layout, item's layout, more, sentence, table, arguments...)
 *     LIST_BY(name, layout, kind, more, statement, sentence)         the statement writes an item
 *     LIST_EITHER(name, layout, item's layout, more, sentence, condition, table, other table, arguments...)
 *     BY_LIST(name, statement, sentence, table)                      the statement writes the array
 *     LIST_OF_IF(name, layout, item's layout, condition, more, sentence, table, arguments...)
 *     MAP_MAYBE(name, layout, kind, more, key, value, sentence)      an item is null for a value that is none
 *     MAP_KNOWN(name, layout, kind, more, key, condition, value, sentence)
 *     MAP_OF_IF(name, condition, more, key, sentence, table, arguments...)  null unless the condition holds; a line for each item
 *   which members are there
 *     IF(condition) row                               only where the condition holds
 *     WHEN(condition) rows DONE                       the same for several
 *     LATER row                                       always, but the schema does not ask for it: it came after version 1
 *     PAGE(name, kind, sentence)                      not here: pages have it (page_members.inc, page_members.c)
 *     PAGE_MAYBE(name, kind, sentence), PAGE_PART(name, sentence, table), PAGE_LIST(name, sentence, table)
 *   for the writer alone
 *     LINE                                            in a flat object the next member begins a line
 *     LET(declaration)                                of a variable */
#pragma once

#include <vcompress/dtype.h>

#include "core/text/json_write.h"

enum vc_kind {
#define KIND(name, type, writer, json_type, keywords) VC_KIND_##name,
#include "report/kinds.inc"
#undef KIND
    VC_KIND_object, /* of any members */
    VC_KIND_dim,    /* a number, or an expression as text */
    VC_KIND_counts, /* an object of counts, whose names are data */
    VC_KIND_any
};

enum vc_row_form {
    VC_ROW_END,
    VC_ROW_DOCUMENT, /* the first of its table */
    VC_ROW_DOCUMENTS,
    VC_ROW_MEMBER,
    VC_ROW_OBJECT, /* its members follow, up to an end; or has a table */
    VC_ROW_LIST,   /* of a kind, or of objects of a table */
    VC_ROW_MAP,
    VC_ROW_OPTIONAL, /* the next row */
    VC_ROW_PAGE,     /* the next row, which pages add */
    VC_ROW_WHEN,     /* rows up to DONE are optional */
    VC_ROW_DONE
};

struct vc_row {
    enum vc_row_form form;
    const char *name;
    enum vc_kind kind;
    const char *words;                  /* "a|b|c"; NULL: not one of some words */
    bool null;                          /* may be null */
    bool item_null;                     /* of a list or map: its items may be null */
    const struct vc_row *table, *other; /* other: its items have the members of one of the two */
    const char *sentence;               /* "" or NULL: its name says it */
};

/* Pages add this member to documents of that schema, "vcompress.fit/1". */
bool vc_is_page_member(const char *schema, const char *name);

/* Kinds whose writer is not in core/text/json_write.h: "" is null, a type is its name. */
static inline void vc_json_filled(struct vc_json *json, const char *key, const char *value)
{
    vc_json_string(json, key, value != NULL && value[0] != '\0' ? value : NULL);
}

static inline void vc_json_dtype(struct vc_json *json, const char *key, enum vc_dtype dtype)
{
    vc_json_string(json, key, vc_dtype_name(dtype));
}

#define KIND(name, type, writer, json_type, keywords)                                     \
    static inline void vc_write_##name(struct vc_json *json, const char *key, type value) \
    {                                                                                     \
        writer(json, key, value);                                                         \
    }
#include "report/kinds.inc"
#undef KIND
