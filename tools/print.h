/* print.h - how figures, names and tables look: units, arrows, colours, columns.
 *
 * Names come from untrusted files: everything printed through here has control characters (and those that reorder
 * text) replaced by '?'. UTF-8 only where the locale says so (LC_ALL, LC_CTYPE, LANG), else plain ASCII. */
#pragma once

#include <vcompress/model.h>

#if defined(__GNUC__)
#define TOOLS_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define TOOLS_PRINTF(fmt, args)
#endif

#define CELL_BYTES 64 /* enough for every figure below */
/* Room for one figure, until the end of the block: fmt_size(CELL, out, bytes). */
#define CELL ((char[CELL_BYTES]){0})

enum color_mode { COLOR_AUTO = 0, COLOR_ALWAYS, COLOR_NEVER };

/* Where a report goes and how it may look. */
struct out {
    FILE *to;
    bool color;
    bool utf8;
    bool bytes;   /* exact bytes instead of KiB, MiB, GiB */
    int width;    /* columns */
    bool limited; /* somebody looks at it: no line is wider. Else sentences stay whole, for grep */
    /* out_begin_wrapping: `to` is a stream in memory, whose lines out_flush breaks on their way to `real`. */
    FILE *real;
    char *text;
    size_t n_bytes;
};

/* The width is what the variable COLUMNS says, else that of the terminal, else 100. */
void out_init(struct out *out, FILE *to, enum color_mode mode, bool bytes);

/* From now on lines wider than out->width are broken between words, where the width is limited; what is printed arrives
 * with out_flush. out_end flushes, too, and ends it. */
void out_begin_wrapping(struct out *out);
void out_flush(struct out *out);
void out_end(struct out *out);

const char *out_arrow(const struct out *out);    /* "→" or "->" */
const char *out_times(const struct out *out);    /* "×" or "x" */
const char *out_ellipsis(const struct out *out); /* "…" or "..." */

enum ink { INK_NONE = 0, INK_BOLD, INK_DIM, INK_GOOD, INK_WARN, INK_BAD };
const char *out_ink(const struct out *out, enum ink ink); /* INK_NONE ends the colour */

/* Figures, into a buffer of CELL_BYTES; they return it. */
char *fmt_size(char *buf, const struct out *out, uint64_t bytes); /* "1.15 MiB", "512 B" */
/* What is left of a device, or is missing, with a minus sign: "1.02 GiB", "-12.0 MiB". */
char *fmt_headroom(char *buf, const struct out *out, int64_t bytes);
char *fmt_count(char *buf, uint64_t n);                                              /* "301,066" */
char *fmt_figure(char *buf, uint64_t n);                                             /* "302 M", "1.75 G" */
char *fmt_ratio(char *buf, const struct out *out, uint64_t before, uint64_t after);  /* "3.88×" */
char *fmt_change(char *buf, const struct out *out, uint64_t before, uint64_t after); /* "3.88× smaller" */
char *fmt_percent(char *buf, double part, double whole);                             /* "1.3 %" */
const char *fmt_share(char *buf, double share);                                      /* "98.2 %", "-" for NaN */
char *fmt_db(char *buf, double db);                                                  /* "46.2 dB", "exact" */
char *fmt_real(char *buf, double x);                                                 /* "0.0013", 3 digits */
const char *plural(uint64_t n);                                                      /* "s", or "" for one */
/* Anything else, as printf has it. */
char *fmt_text(char *buf, const char *format, ...) TOOLS_PRINTF(2, 3);
char *fmt_shape(char *buf, const struct out *out, unsigned n_dims, const uint64_t *shape); /* "512×64", "scalar" */
/* "12 s left", "3:05 left", "1:02:45 left" when `part` of the work took so many seconds; "" while that says little. */
char *fmt_left(char *buf, double seconds, double part);

/* Columns that `s` takes when printed. */
size_t text_width(const char *s);
/* Control characters replaced; a copy that the caller frees; NULL: no memory. */
char *text_clean(const char *s);
void print_clean(FILE *to, const char *s);
/* Prints as fprintf does, but cleans what it prints; the lines of the format end at its begin and its end alone. */
void say(FILE *to, const char *format, ...) TOOLS_PRINTF(2, 3);
/* The text, cleaned, in a colour. */
void out_inked(const struct out *out, enum ink ink, const char *text);

/* The text as a string of JSON, with its quotes; control characters are replaced as above. */
void print_json_text(FILE *to, const char *text);

/* A blank and the word, as a shell reads it back (vc_shell_word). False: no memory, and the line has to be left out. */
bool print_shell_word(FILE *to, const char *s);

/* How quantized weights lie in a file: a line that says what loads it, and what else there is to say under it. */
void print_layout(const struct out *out, const struct vc_layout *layout);

#define TABLE_COLUMNS 80

/* A table: cells are added row by row, then printed with columns aligned. A cell says all that there is to know of its
 * column: how the column is aligned, its heading, the colour, the text; table_end_row ends the row. The headings are
 * printed once, dimmed, above the first row, where some are not "". A table without rows prints nothing. All rows have
 * the columns of the first one.
 *
 *     table_cell(&table, 'l', "type", INK_NONE, vc_dtype_name(d->dtype));
 *     table_cell(&table, 'r', "size", INK_NONE, fmt_size(CELL, out, d->size_bytes));        type      size
 *     table_end_row(&table);                                                                f32   1.15 MiB
 *
 * A table begins as {.failed = false}. Running out of memory is remembered and reported by table_print. With -v it has
 * as many rows as the file has tensors, so cells are kept small:
 *
 *     cells    0 . . .   9 . .   13 ...       where each begins in
 *     bytes    \0 "w.weight" \0 "8×8" ...     one ink and one text after the other */
struct table {
    char align[TABLE_COLUMNS];     /* l(eft), r(ight), or a for a column of arrows */
    char *headings[TABLE_COLUMNS]; /* owned, cleaned */
    size_t n_cols;                 /* 0: no row has ended yet */
    size_t column;                 /* of the next cell */
    size_t n_cells, capacity;
    size_t *cells;
    size_t n_bytes, bytes_capacity;
    char *bytes;
    bool failed, headed;                                    /* headed: some heading is not "" */
    enum { TABLE_KEEPS, TABLE_MEASURES, TABLE_PRINTS } way; /* the last two: of all rows only the last one is kept */
    const struct out *out;
    size_t width[TABLE_COLUMNS];
    size_t own[TABLE_COLUMNS]; /* of the row that is added, where rows are not kept */
    bool folded;
    char *line; /* the row that is printed */
    size_t n_line, line_capacity;
};

void table_cell(struct table *table, char align, const char *heading, enum ink ink, const char *text);
void table_end_row(struct table *table);
/* The first row gave the headings alone: of a table that has them without rows, too. */
void table_drop_row(struct table *table);
/* Prints with an indent of 2. When the rows are wider than out->width (and shorten is set), column 0 is cut in the
 * middle. Where that is not enough and the width is limited, each row takes several lines: column 0, then the others.
 * False: no memory. Frees the cells in any case. */
bool table_print(struct table *table, const struct out *out, bool shorten);

/* A table with as many rows as a file has tensors is added twice, so that none of it is kept: after table_measure the
 * rows are only measured. After table_again the same rows are added once more and printed as they come; table_print
 * ends that. */
void table_measure(struct table *table);
void table_again(struct table *table, const struct out *out);
