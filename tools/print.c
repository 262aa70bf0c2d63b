/* print.c - clean text and aligned tables; figures are in print_figures.c. Knows no report and no model.
 *
 * Width is counted in columns of the terminal, not in bytes: combining characters take none, East Asian ones two.
 *
 *     out             where text goes and what it may use: colours, UTF-8, a width
 *     text            names from files made harmless, and their width
 *     lines that fit  sentences broken between words, where somebody looks at a terminal
 *     tables          cells kept row by row, or rows printed as they come */
#include "tools/print.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <vcompress/report.h>

#define WIDTH_DEFAULT 100
#define WIDTH_MIN     60
#define NAME_MIN      16 /* column 0 is not cut below this */
#define NO_MEMORY     "(no memory for what belongs here)\n"

/* The variable that decides is the first of these that is not empty, as in POSIX. setlocale is not used: the program
 * formats numbers the same way everywhere. */
static bool locale_is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *v = getenv(names[i]);

        if (v != NULL && v[0] != '\0') {
            return strstr(v, "UTF-8") != NULL || strstr(v, "utf8") != NULL || strstr(v, "utf-8") != NULL ||
                   strstr(v, "UTF8") != NULL;
        }
    }
    return false;
}

/* NO_COLOR (no-color.org) counts if it is not empty; a terminal that calls itself dumb has no colours. */
static bool wants_color(FILE *to, enum color_mode mode)
{
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");

    if (mode != COLOR_AUTO) {
        return mode == COLOR_ALWAYS;
    }
    return (no_color == NULL || no_color[0] == '\0') && term != NULL && strcmp(term, "dumb") != 0 &&
           isatty(fileno(to)) == 1;
}

/* Columns that somebody wants the text to have, at least WIDTH_MIN: the variable COLUMNS, else the terminal's size; 0:
 * neither is there, and the text goes to a file or a pipe. */
static int wanted_width(FILE *to)
{
    const char *columns = getenv("COLUMNS");
    long given = columns != NULL ? strtol(columns, NULL, 10) : 0;
    int width = given > 0 && given < 10000 ? (int)given : 0;
    struct winsize size;

    if (width == 0 && isatty(fileno(to)) == 1 && ioctl(fileno(to), TIOCGWINSZ, &size) == 0) {
        width = size.ws_col;
    }
    return width == 0 ? 0 : width < WIDTH_MIN ? WIDTH_MIN : width;
}

void out_init(struct out *out, FILE *to, enum color_mode mode, bool bytes)
{
    int width = wanted_width(to);

    *out = (struct out){.to = to, .bytes = bytes, .width = width != 0 ? width : WIDTH_DEFAULT, .limited = width != 0};
    out->utf8 = locale_is_utf8();
    out->color = wants_color(to, mode);
}

const char *out_arrow(const struct out *out)
{
    return out->utf8 ? "\xe2\x86\x92" : "->";
}

const char *out_times(const struct out *out)
{
    return out->utf8 ? "\xc3\x97" : "x";
}

const char *out_ellipsis(const struct out *out)
{
    return out->utf8 ? "\xe2\x80\xa6" : "...";
}

/* Escape sequences of ECMA-48 (SGR); "" without colours, so that callers need not ask. */
const char *out_ink(const struct out *out, enum ink ink)
{
    static const char *const codes[] = {
        [INK_NONE] = "\033[0m",  [INK_BOLD] = "\033[1m",  [INK_DIM] = "\033[2m",
        [INK_GOOD] = "\033[32m", [INK_WARN] = "\033[33m", [INK_BAD] = "\033[31m",
    };

    return out->color ? codes[ink] : "";
}

/* ---- text ---- */

/* One code point at s (n bytes, at least 1): its length, or 0 when it is not valid UTF-8. Refuses, as RFC 3629 does,
 * sequences that are longer than needed (c0, c1; e0 below U+0800; f0 below U+10000), surrogates, and numbers above
 * U+10FFFF:
 *
 *     0xxxxxxx                               1 byte     up to U+007F
 *     110xxxxx 10xxxxxx                      2 bytes    up to U+07FF
 *     1110xxxx 10xxxxxx 10xxxxxx             3 bytes    up to U+FFFF
 *     11110xxx 10xxxxxx 10xxxxxx 10xxxxxx    4 bytes    up to U+10FFFF */
static size_t decode(const unsigned char *s, size_t n, uint32_t *out)
{
    size_t len;
    uint32_t c;

    if (s[0] < 0x80) {
        len = 1;
        c = s[0];
    } else if (s[0] < 0xc2 || s[0] > 0xf4) { /* a continuation byte, c0, c1, or beyond U+10FFFF */
        return 0;
    } else if (s[0] < 0xe0) {
        len = 2;
        c = s[0] & 0x1fu;
    } else if (s[0] < 0xf0) {
        len = 3;
        c = s[0] & 0x0fu;
    } else {
        len = 4;
        c = s[0] & 0x07u;
    }
    if (len > n) {
        return 0;
    }
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xc0u) != 0x80u) {
            return 0;
        }
        c = c << 6 | (s[i] & 0x3fu);
    }
    if ((len == 3 && c < 0x800) || (len == 4 && (c < 0x10000 || c > 0x10ffff)) || (c >= 0xd800 && c < 0xe000)) {
        return 0;
    }
    *out = c;
    return len;
}

/* Control characters, and those that hide or reorder what is around them. A tensor called "\033[2J" must not clear the
 * terminal, and a name must not look like another name:
 *
 *     up to 1f, 7f to 9f      C0 and C1 controls: escape sequences begin with them
 *     ad, 200b..200f          soft hyphen, zero width space, marks of direction
 *     61c, 2028..202e         line and paragraph separator, embeddings and overrides of direction
 *     2060..206f, feff        invisible operators, byte order mark
 *     fff9..fffb, from e0000  annotations, tags */
static bool is_unsafe(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c || (c >= 0x200b && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff ||
           (c >= 0xfff9 && c <= 0xfffb) || c >= 0xe0000;
}

/* Columns of a code point: 0 for characters that combine with the one before, 2 for those of East Asian scripts and for
 * emoji, else 1. A short list of blocks, as wcwidth has it in most locales; an error here only shifts a column. */
static size_t code_width(uint32_t c)
{
    bool combining = (c >= 0x300 && c < 0x370) || (c >= 0x1ab0 && c < 0x1b00) || (c >= 0x20d0 && c < 0x2100) ||
                     (c >= 0xfe00 && c < 0xfe10) || (c >= 0xfe20 && c < 0xfe30);
    bool wide = (c >= 0x1100 && c < 0x1160) || (c >= 0x2e80 && c < 0xa4d0) || (c >= 0xac00 && c < 0xd7a4) ||
                (c >= 0xf900 && c < 0xfb00) || (c >= 0xfe30 && c < 0xfe70) || (c >= 0xff00 && c < 0xff61) ||
                (c >= 0x1f300 && c < 0x1f650) || (c >= 0x1f900 && c < 0x1fa00) || (c >= 0x20000 && c < 0x40000);

    return combining ? 0 : wide ? 2 : 1;
}

/* A printable character of ASCII. */
static bool is_plain(char c)
{
    return c >= 0x20 && c < 0x7f;
}

/* How many characters of ASCII s begins with that are printed as they are. */
static size_t plain_start(const char *s)
{
    size_t n = 0;

    while (is_plain(s[n])) {
        n++;
    }
    return n;
}

/* Replaces unsafe characters and bytes that are no UTF-8 by '?', in place: nothing becomes longer. Returns the columns
 * that the text takes. Most names are plain ASCII, which the first line skips at once. */
static size_t clean_in_place(char *s)
{
    size_t width = plain_start(s);
    size_t i = width;
    size_t k = i;
    size_t n = i + strlen(s + i);

    while (i < n) {
        uint32_t c = 0;
        size_t len = decode((const unsigned char *)s + i, n - i, &c);

        if (len == 0 || is_unsafe(c)) {
            s[k++] = '?';
            i += len == 0 ? 1 : len;
            width++;
        } else {
            memmove(s + k, s + i, len);
            k += len;
            i += len;
            width += code_width(c);
        }
    }
    s[k] = '\0';
    return width;
}

char *text_clean(const char *s)
{
    size_t n = strlen(s) + 1;
    char *clean = malloc(n);

    if (clean != NULL) {
        memcpy(clean, s, n);
        (void)clean_in_place(clean);
    }
    return clean;
}

bool print_shell_word(FILE *to, const char *s)
{
    char *word = vc_shell_word(s);

    fprintf(to, " %s", word != NULL ? word : "");
    vc_text_free(word);
    return word != NULL;
}

/* Control characters are gone after text_clean, so only the quote and the backslash need an escape. */
void print_json_text(FILE *to, const char *text)
{
    char *clean = text_clean(text);

    fputc('"', to);
    for (const char *p = clean != NULL ? clean : ""; *p != '\0'; p++) {
        if (*p == '"' || *p == '\\') {
            fputc('\\', to);
        }
        fputc(*p, to);
    }
    fputc('"', to);
    free(clean);
}

void print_clean(FILE *to, const char *s)
{
    char *clean = text_clean(s);

    fputs(clean != NULL ? clean : "?", to);
    free(clean);
}

/* The ends of lines stand in the format alone, so a name cannot begin a line. */
void say(FILE *to, const char *format, ...)
{
    size_t lines = strspn(format, "\n");
    size_t n = strlen(format);
    bool ends = n > lines && format[n - 1] == '\n';
    char *text = NULL;
    FILE *memory = open_memstream(&text, &n);
    va_list args;

    va_start(args, format);
    int printed = memory != NULL ? vfprintf(memory, format, args) : -1;
    if (memory != NULL && fclose(memory) == 0 && printed >= 0) {
        text[n - ends] = '\0';
        (void)clean_in_place(text + lines);
        fprintf(to, "%s%s", text, ends ? "\n" : "");
    } else {
        fputs(NO_MEMORY, to);
    }
    va_end(args);
    free(text);
}

void out_inked(const struct out *out, enum ink ink, const char *text)
{
    fputs(out_ink(out, ink), out->to);
    print_clean(out->to, text);
    fputs(out_ink(out, INK_NONE), out->to);
}

/* Counts a byte that is no UTF-8 as one column, as clean_in_place does: the '?' that stands for it. */
size_t text_width(const char *s)
{
    size_t width = plain_start(s);
    size_t i = width;
    size_t n = i + strlen(s + i);

    while (i < n) {
        uint32_t c = 0;
        size_t len = decode((const unsigned char *)s + i, n - i, &c);

        width += len == 0 ? 1 : code_width(c);
        i += len == 0 ? 1 : len;
    }
    return width;
}

/* ---- lines that fit ---- */

#define CONTINUED 2 /* columns that further lines are indented by, beside the line's own indent */

/* Bytes of the word that s begins with, and its columns; escape sequences for colours take none. Without memory the
 * width is 0: the line is then longer than the terminal and nothing is lost. */
static size_t word_bytes(const char *s, size_t *width)
{
    size_t end = strcspn(s, " \n");
    char *plain = malloc(end + 1);
    size_t k = 0;

    *width = 0;
    for (size_t n = 0; plain != NULL && n < end;) {
        size_t escape = s[n] == '\033' ? strcspn(s + n, "m \n") : 0;

        if (escape != 0) {
            n += escape + (s[n + escape] == 'm');
        } else {
            plain[k++] = s[n++];
        }
    }
    if (plain != NULL) {
        plain[k] = '\0';
        *width = text_width(plain);
    }
    free(plain);
    return end;
}

/* n bytes for the terminal: whoever forgot to clean a name does no harm. Colours are our own. The text passes here a
 * second time when lines are wrapped; an escape sequence survives only with colours switched on. */
static void put_safe(FILE *to, const char *s, size_t n, bool color)
{
    for (size_t i = 0; i < n;) {
        uint32_t c = 0;
        size_t len = decode((const unsigned char *)s + i, n - i, &c);
        bool ink = color && s[i] == '\033' && i + 1 < n && s[i + 1] == '[';

        if ((len == 0 || is_unsafe(c)) && s[i] != '\t' && !ink) {
            fputc('?', to);
        } else {
            fwrite(s + i, 1, len == 0 ? 1 : len, to);
        }
        i += len == 0 ? 1 : len;
    }
}

/* A command line, or its next lines: a break between its words would change it. The next lines are those behind one
 * that ends in a blank and a backslash. */
static bool is_command(const char *start, const char *s)
{
    return strncmp(s + strspn(s, " "), "vcompress ", 10) == 0 ||
           (s - start >= 3 && s[-1] == '\n' && s[-2] == '\\' && s[-3] == ' ');
}

/* One line, broken between words. Returns what follows its end. room: columns of a line; SIZE_MAX never breaks. Further
 * lines are indented by CONTINUED more than the line itself:
 *
 *     a sentence that is longer than the
 *       terminal goes on here */
static const char *wrap_line(FILE *to, const char *s, size_t room, bool color)
{
    size_t indent = strspn(s, " ") + CONTINUED;
    size_t at = 0;
    bool first = true; /* word of its line: never broken before */

    while (*s != '\0' && *s != '\n') {
        size_t blanks = strspn(s, " ");
        size_t width;
        size_t n = word_bytes(s + blanks, &width);

        if (!first && at + blanks + width > room) {
            fprintf(to, "\n%*s", (int)indent, "");
            at = indent + width;
        } else {
            fprintf(to, "%*s", (int)blanks, "");
            at += blanks + width;
        }
        put_safe(to, s + blanks, n, color);
        first = false;
        s += blanks + n;
    }
    if (*s == '\n') {
        fputc(*s++, to);
    }
    return s;
}

/* Lines are collected in memory, since a table or a sentence is put together from many calls of fprintf. */
void out_begin_wrapping(struct out *out)
{
    FILE *real = out->to;
    FILE *memory = out->limited ? open_memstream(&out->text, &out->n_bytes) : NULL;

    if (memory != NULL) { /* else lines stay as they are */
        out->real = real;
        out->to = memory;
    }
}

void out_end(struct out *out)
{
    if (out->real == NULL) {
        return;
    }
    if (fclose(out->to) == 0) {
        for (const char *s = out->text; *s != '\0';) {
            s = wrap_line(out->real, s, is_command(out->text, s) ? SIZE_MAX : (size_t)out->width, out->color);
        }
    } else {
        fputs(NO_MEMORY, out->real);
    }
    free(out->text);
    out->text = NULL;
    out->to = out->real;
    out->real = NULL;
}

/* What was printed so far appears now; printing goes on in a new stream. */
void out_flush(struct out *out)
{
    if (out->real != NULL) {
        out_end(out);
        out_begin_wrapping(out);
    }
}

/* ---- parts of text ---- */

/* Bytes of the longest start of s that takes at most `width` columns. Never cuts a character in two. */
static size_t head_bytes(const char *s, size_t width)
{
    size_t n = strlen(s);
    size_t i = 0;

    while (i < n) {
        uint32_t c = 0;
        size_t len = decode((const unsigned char *)s + i, n - i, &c);
        size_t w = len == 0 ? 1 : code_width(c);

        if (w > width) {
            break;
        }
        width -= w;
        i += len == 0 ? 1 : len;
    }
    return i;
}

/* Cuts the middle out of s (in place) so that it takes at most `width` columns; the end says more than the start. A
 * third of the room is the start, two thirds the end:
 *
 *     model.layers.11.attention.weight    to 24 columns:    model.l...tention.weight
 *
 * The text stays whole if the mark would not be shorter than what it replaces. */
static void cut_middle(char *s, size_t width, const char *ellipsis)
{
    size_t total = text_width(s);
    size_t mark = text_width(ellipsis);
    size_t head = head_bytes(s, (width - mark) / 3);
    size_t kept = width - mark - (width - mark) / 3;
    size_t n = strlen(ellipsis);

    if (total <= width) {
        return;
    }
    size_t tail = head_bytes(s, total - kept);
    while (text_width(s + tail) > kept) { /* a wide character on the border */
        do {
            tail++;
        } while (((unsigned char)s[tail] & 0xc0u) == 0x80u);
    }
    if (head + n > tail) {
        return;
    }
    memcpy(s + head, ellipsis, n);
    memmove(s + head + n, s + tail, strlen(s + tail) + 1);
}

/* ---- tables ---- */

/* The list with room for `more` elements behind its n, where it lies now; NULL: no memory, and it is as it was. The
 * capacity starts at 256 elements and doubles, so that adding n elements costs O(n) in all. */
static void *with_room(void *list, size_t n, size_t more, size_t size, size_t *capacity)
{
    size_t room = *capacity == 0 ? 256 : *capacity;
    void *grown = list;

    while (room - n < more) {
        if (room > SIZE_MAX / 2 / size) {
            return NULL;
        }
        room *= 2;
    }
    if (room != *capacity) {
        grown = realloc(list, room * size);
        *capacity = grown != NULL ? room : *capacity;
    }
    return grown;
}

/* A cell in table->bytes is its ink in one byte, then its text with a 0 at the end. */
static char *cell_text(const struct table *table, size_t cell)
{
    return table->bytes + table->cells[cell] + 1;
}

static enum ink cell_ink(const struct table *table, size_t cell)
{
    return (enum ink)table->bytes[table->cells[cell]];
}

/* Copies the text, cleaned, behind the bytes of the table, and remembers where it begins. Returns its columns; 0 with
 * table->failed where memory is short. */
static size_t keep_cell(struct table *table, enum ink ink, const char *text)
{
    size_t n = strlen(text) + 2;
    size_t *cells = with_room(table->cells, table->n_cells, 1, sizeof *cells, &table->capacity);
    char *bytes = with_room(table->bytes, table->n_bytes, n, 1, &table->bytes_capacity);

    table->cells = cells != NULL ? cells : table->cells;
    table->bytes = bytes != NULL ? bytes : table->bytes;
    table->failed = cells == NULL || bytes == NULL;
    if (table->failed) {
        return 0;
    }
    cells[table->n_cells++] = table->n_bytes;
    bytes[table->n_bytes] = (char)ink;
    memcpy(bytes + table->n_bytes + 1, text, n - 1);
    size_t width = clean_in_place(bytes + table->n_bytes + 1);
    table->n_bytes += n;
    return width;
}

/* ---- rows ---- */

/* Adds to the line that is put together of a row, so that there is one write a row; text NULL: blanks. */
static void line_add(struct table *table, const char *text, size_t n)
{
    char *line = with_room(table->line, table->n_line, n, 1, &table->line_capacity);

    if (line == NULL) {
        table->failed = true;
        return;
    }
    table->line = line;
    if (text != NULL) {
        memcpy(line + table->n_line, text, n);
    } else {
        memset(line + table->n_line, ' ', n);
    }
    table->n_line += n;
}

/* Writes the line that was put together. */
static void line_flush(struct table *table, FILE *to)
{
    fwrite(table->line, 1, table->n_line, to);
    table->n_line = 0;
}

static void print_spaces(FILE *to, size_t n)
{
    static const char blanks[] = "                                ";

    for (; n > sizeof blanks - 1; n -= sizeof blanks - 1) {
        fwrite(blanks, 1, sizeof blanks - 1, to);
    }
    fwrite(blanks, 1, n, to);
}

/* Blanks before a column: two, and one on each side of a column of arrows ('a' in table->align). So "12.0 KiB -> 3.1
 * KiB" reads as one thing. */
static size_t gap_before(const struct table *table, size_t col)
{
    if (col == 0) {
        return 0;
    }
    return table->align[col] == 'a' || table->align[col - 1] == 'a' ? 1 : 2;
}

#define SENTENCE_MIN 20 /* columns that a sentence in the last column is broken into, where it does not fit */

/* The last cell of a row, which begins at column `at`; further lines begin there, too. The room is what is left of the
 * terminal's width. With less than SENTENCE_MIN columns a break would not help. */
static void print_last(const struct out *out, size_t at, const char *text)
{
    size_t room = (size_t)out->width > at ? (size_t)out->width - at : 0;
    size_t used = 0;

    if (!out->limited || text_width(text) <= room || room < SENTENCE_MIN) {
        fputs(text, out->to);
        return;
    }
    for (const char *word = text; *word != '\0';) {
        size_t width;
        size_t n = word_bytes(word, &width);

        if (used > 0 && used + 1 + width > room) {
            fprintf(out->to, "\n%*s", (int)at, "");
            used = 0;
        } else if (used > 0) {
            fputc(' ', out->to);
            used++;
        }
        fwrite(word, 1, n, out->to);
        used += width;
        word += n + (word[n] != '\0');
    }
}

/* A row in one line. Empty cells at its end are left out with their blanks. Colours enclose the text and not its
 * blanks. */
static void print_row(struct table *table, const struct out *out, size_t first)
{
    size_t last = table->n_cols;
    size_t owed = 2; /* blanks are printed only before something: no trailing ones */
    size_t at = 0;

    while (last > 0 && cell_text(table, first + last - 1)[0] == '\0') {
        last--;
    }
    for (size_t c = 0; c < last; c++) {
        const char *text = cell_text(table, first + c);
        const char *ink = out_ink(out, cell_ink(table, first + c));
        bool inked = cell_ink(table, first + c) != INK_NONE;
        size_t own = table->way == TABLE_PRINTS ? table->own[c] : text_width(text);
        size_t pad = table->width[c] - own;

        owed += gap_before(table, c) + (table->align[c] == 'r' ? pad : 0);
        if (text[0] != '\0') {
            line_add(table, NULL, owed);
            line_add(table, ink, inked ? strlen(ink) : 0);
            at += owed;
            if (c + 1 == table->n_cols && out->limited) {
                line_flush(table, out->to);
                print_last(out, at, text);
            } else {
                line_add(table, text, strlen(text));
            }
            ink = out_ink(out, INK_NONE);
            line_add(table, ink, inked ? strlen(ink) : 0);
            at += own;
            owed = 0;
        }
        owed += table->align[c] == 'r' ? 0 : pad;
    }
    line_add(table, "\n", 1);
    line_flush(table, out->to);
}

#define FOLDED_INDENT 4
#define MAX_WORD      16 /* columns of a last cell that is no sentence */

/* As many of the columns from c on as fit into one line. Returns the first that does not. Always at least one column,
 * however long. */
static size_t print_some(const struct table *table, const struct out *out, size_t first, const size_t *width, size_t c)
{
    size_t begin = c;
    size_t at = FOLDED_INDENT;
    size_t owed = FOLDED_INDENT;
    bool some = false;

    for (; c < table->n_cols; c++) {
        const char *text = cell_text(table, first + c);
        size_t gap = c == begin ? 0 : gap_before(table, c);
        size_t pad = width[c] - text_width(text);

        if (c > begin && at + gap + width[c] > (size_t)out->width) {
            break;
        }
        at += gap + width[c];
        owed += gap + (table->align[c] == 'r' ? pad : 0);
        if (text[0] != '\0') {
            print_spaces(out->to, owed);
            fprintf(out->to, "%s%s%s", out_ink(out, cell_ink(table, first + c)), text, out_ink(out, INK_NONE));
            owed = 0;
            some = true;
        }
        owed += table->align[c] == 'r' ? 0 : pad;
    }
    fputs(some ? "\n" : "", out->to);
    return c;
}

/* A row in several lines: column 0, then the others, as many in a line as fit:
 *
 *     model.layers.0.mlp.weight
 *       512x64  f32 -> int8/channel
 *       128 KiB -> 33 KiB  3.88x */
static void print_folded(const struct table *table, const struct out *out, size_t first, const size_t *width)
{
    fprintf(out->to, "  %s%s%s\n", out_ink(out, cell_ink(table, first)), cell_text(table, first),
            out_ink(out, INK_NONE));
    for (size_t c = 1; c < table->n_cols;) {
        c = print_some(table, out, first, width, c);
    }
}

/* The rows do not fit, and it is not only the sentence in their last column, which can be broken. A sentence: a last
 * column on the left margin that is longer than any word (MAX_WORD). */
static bool must_fold(const struct table *table, const struct out *out, const size_t *width)
{
    size_t total = 2;
    size_t last = table->n_cols > 0 ? table->n_cols - 1 : 0;
    bool sentence = table->align[last] == 'l' && width[last] > MAX_WORD;

    for (size_t c = 0; c < table->n_cols; c++) {
        total += c == last && sentence ? 0 : width[c] + gap_before(table, c);
    }
    return out->limited && table->n_cols > 1 && total > (size_t)out->width;
}

/* Widens the columns to the cells of one row, which begin at cell number `first`. */
static void measure_row(struct table *table, size_t first)
{
    for (size_t c = 0; c < table->n_cols; c++) {
        size_t w = text_width(cell_text(table, first + c));

        table->width[c] = w > table->width[c] ? w : table->width[c];
    }
}

/* In one line or in several, as must_fold decided for the whole table. */
static void print_any_row(struct table *table, const struct out *out, size_t first)
{
    if (table->folded) {
        print_folded(table, out, first, table->width);
    } else {
        print_row(table, out, first);
    }
}

/* The headings as a row: before the first one, whose cells are kept (they change places), or at once where the rows are
 * printed as they come. */
static void add_headings(struct table *table)
{
    for (size_t c = 0; c < table->n_cols && table->headed && !table->failed; c++) {
        table->own[c] = table->way == TABLE_MEASURES ? text_width(table->headings[c])
                                                     : keep_cell(table, INK_DIM, table->headings[c]);
        table->width[c] = table->own[c] > table->width[c] ? table->own[c] : table->width[c];
    }
    if (table->way == TABLE_KEEPS && table->headed && !table->failed) {
        for (size_t c = 0; c < table->n_cols; c++) {
            size_t cell = table->cells[c];

            table->cells[c] = table->cells[table->n_cols + c];
            table->cells[table->n_cols + c] = cell;
        }
    }
}

/* The three ways of a table (struct table):
 *
 *     TABLE_KEEPS       the cell is kept; table_print measures and prints all rows
 *     TABLE_MEASURES    only the width is wanted; plain ASCII is measured without a copy
 *     TABLE_PRINTS      the cell is kept until its row is full, which is printed and forgotten */
void table_cell(struct table *table, char align, const char *heading, enum ink ink, const char *text)
{
    size_t column = table->column++;

    if (table->n_cols == 0) {
        table->align[column] = align;
        table->headings[column] = text_clean(heading);
        table->headed = table->headed || heading[0] != '\0';
        table->failed = table->failed || table->headings[column] == NULL;
    }
    if (table->failed) {
        return;
    }
    if (table->way == TABLE_KEEPS) {
        (void)keep_cell(table, ink, text);
        return;
    }
    size_t width = table->way == TABLE_MEASURES ? plain_start(text) : 0;
    if (table->way == TABLE_PRINTS || text[width] != '\0') { /* else no more is wanted of it */
        width = keep_cell(table, ink, text);
    }
    table->own[column] = width;
    table->width[column] = width > table->width[column] ? width : table->width[column];
}

/* Prints the cells that were kept as one row, and forgets them. */
static void end_row_at_once(struct table *table)
{
    if (table->way == TABLE_PRINTS && !table->failed) {
        print_any_row(table, table->out, 0);
    }
    table->n_cells = 0;
    table->n_bytes = 0;
}

void table_end_row(struct table *table)
{
    if (table->n_cols == 0) {
        table->n_cols = table->column;
        add_headings(table);
    }
    table->column = 0;
    if (table->way != TABLE_KEEPS) {
        end_row_at_once(table);
    }
}

void table_drop_row(struct table *table)
{
    table->n_cells = table->failed || !table->headed ? 0 : table->n_cols;
    memset(table->width, 0, sizeof table->width);
}

void table_measure(struct table *table)
{
    table->way = TABLE_MEASURES;
}

void table_again(struct table *table, const struct out *out)
{
    table->way = TABLE_PRINTS;
    table->out = out;
    table->folded = must_fold(table, out, table->width);
    if (table->headed) {
        add_headings(table);
        end_row_at_once(table);
    }
}

/* A name of column 0, whole and as it would be printed. */
struct cut_name {
    char *cut;
    const char *whole;
};

static int compare_cut(const void *a, const void *b)
{
    return strcmp(((const struct cut_name *)a)->cut, ((const struct cut_name *)b)->cut);
}

/* Cut to `width` columns, two different names of column 0 would be one. Also true where there is no memory to know.
 * Sorted by the cut names, two that are equal stand next to each other. */
static bool cut_alike(const struct table *table, const struct out *out, size_t width)
{
    size_t n = table->n_cells / table->n_cols;
    struct cut_name *names = calloc(n + 1, sizeof(*names));
    bool alike = names == NULL;

    for (size_t i = 0; i < n && !alike; i++) {
        names[i].whole = cell_text(table, i * table->n_cols);
        names[i].cut = malloc(strlen(names[i].whole) + strlen(out_ellipsis(out)) + 1);
        alike = names[i].cut == NULL;
        if (!alike) {
            strcpy(names[i].cut, names[i].whole);
            cut_middle(names[i].cut, width, out_ellipsis(out));
        }
    }
    if (!alike) {
        qsort(names, n, sizeof(*names), compare_cut);
    }
    for (size_t i = 1; i < n && !alike; i++) {
        alike = compare_cut(&names[i - 1], &names[i]) == 0 && strcmp(names[i - 1].whole, names[i].whole) != 0;
    }
    for (size_t i = 0; names != NULL && i < n; i++) {
        free(names[i].cut);
    }
    free(names);
    return alike;
}

/* Cuts the names of column 0 so that rows fit, unless they could not be told apart then. over: columns that the rows
 * are too long by. */
static void cut_names(struct table *table, const struct out *out, size_t over)
{
    size_t width = table->width[0] > NAME_MIN + over ? table->width[0] - over : NAME_MIN;

    if (cut_alike(table, out, width)) {
        return;
    }
    table->width[0] = width;
    for (size_t i = 0; i < table->n_cells; i += table->n_cols) {
        cut_middle(cell_text(table, i), width, out_ellipsis(out));
    }
}

bool table_print(struct table *table, const struct out *out, bool shorten)
{
    size_t total = 2;
    size_t room = (size_t)out->width;
    bool ok = !table->failed;

    for (size_t i = 0; ok && i < table->n_cells; i += table->n_cols) {
        measure_row(table, i);
    }
    for (size_t c = 0; c < table->n_cols; c++) {
        total += table->width[c] + gap_before(table, c);
    }
    if (ok && shorten && total > room && table->width[0] > NAME_MIN) {
        cut_names(table, out, total - room);
    }
    if (table->way == TABLE_KEEPS) {
        table->folded = ok && must_fold(table, out, table->width);
    }
    for (size_t i = 0; ok && i < table->n_cells; i += table->n_cols) {
        print_any_row(table, out, i);
    }
    for (size_t c = 0; c < TABLE_COLUMNS; c++) {
        free(table->headings[c]);
    }
    free(table->bytes);
    free(table->cells);
    free(table->line);
    *table = (struct table){0};
    return ok;
}

/* "  layout compressed-tensors: vLLM loads it", then what it was tried with and what it needs. */
void print_layout(const struct out *out, const struct vc_layout *layout)
{
    if (layout->loader[0] != '\0') {
        fprintf(out->to, "  layout %s: %s loads it\n", layout->name, layout->loader);
    } else {
        fprintf(out->to, "  layout %s: no program loads it as it is\n", layout->name);
    }
    if (layout->tried[0] != '\0') {
        fprintf(out->to, "    tried with %s\n", layout->tried);
    }
    if (layout->needs[0] != '\0') {
        fprintf(out->to, "    needs %s\n", layout->needs);
    }
}
