/* progress.c - one line on the terminal while the library works: how far, how fast, how long still, at which tensor.
 * Only when stderr is a terminal that can clear a line, and not with -q or --no-progress.
 *
 * And for programs, with --progress-fd, lines of JSON in a descriptor:
 *
 *     {"what": "quantize", "done": 4096, "total": 65536, "unit": "bytes", "seconds": 0.1, "tensor": "fc1.weight"}
 *
 * Both at most ten times a second; of lines the last of a part is always there, with done equal to total. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/app.h"

#define BAR_CELLS 24
#define INTERVAL  0.1 /* seconds between two lines */
#define QUIET     0.3 /* seconds; work that is over sooner shows nothing */

static struct {
    struct out out;            /* how standard error may look */
    bool on, shown;            /* on: there is a terminal */
    FILE *lines;               /* NULL: nobody asked for lines */
    double last_line;          /* when the last line of JSON was written */
    double begin, last;        /* when the work began; when the line on the terminal was drawn last */
    const char *what;          /* the phase: rate and time left are those since it began */
    double phase_begin;        /* seconds, of the clock that now() reads */
    uint64_t phase_done, done; /* when it began; the last */
} state;

/* Seconds of a clock that no one sets: only differences mean something. */
static double now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* 0 where the total is not known. */
static double part_of(uint64_t done, uint64_t total)
{
    return total > 0 ? (double)done / (double)total : 0;
}

/* Seconds of the phase; *done: what was done in them. before: what was done already where a phase begins with *done. A
 * phase begins with another `what`, or where *done falls. Rate and time left are of the phase alone, since reading is
 * faster than training. */
static double phase(const char *what, double t, uint64_t before, uint64_t *done)
{
    if (state.what == NULL || strcmp(state.what, what) != 0 || *done < state.done) {
        bool first = state.what == NULL;

        state.what = what;
        state.phase_begin = first ? state.begin : t;
        state.phase_done = before;
    }
    state.done = *done;
    *done -= state.phase_done;
    return t - state.phase_begin;
}

/* A line for --progress-fd. What cannot be written, since nobody reads any more, does not stop the work. */
static void print_line(const char *what, uint64_t done, uint64_t total, const char *unit, const char *tensor)
{
    double t = now();
    char seconds[32];

    if (state.lines == NULL || (t - state.last_line < INTERVAL && done != total)) {
        return;
    }
    state.last_line = t;
    snprintf(seconds, sizeof seconds, "%.3f", t - state.begin);
    fprintf(state.lines, "{\"what\": ");
    print_json_text(state.lines, what);
    fprintf(state.lines, ", \"done\": %llu, \"total\": %llu, \"unit\": \"%s\", \"seconds\": %s",
            (unsigned long long)done, (unsigned long long)total, unit, seconds);
    if (tensor != NULL && tensor[0] != '\0') {
        fprintf(state.lines, ", \"tensor\": ");
        print_json_text(state.lines, tensor);
    }
    fputs("}\n", state.lines);
    (void)fflush(state.lines);
}

/* A bar of BAR_CELLS columns. */
static void print_bar(FILE *to, const struct out *out, double part)
{
    const char *done = out->utf8 ? "\xe2\x94\x81" : "=";
    const char *open = out->utf8 ? "\xe2\x94\x80" : "-";
    int full = (int)(part * BAR_CELLS);

    for (int i = 0; i < BAR_CELLS; i++) {
        fputs(i < full ? done : open, to);
    }
}

/* Called by the library while it works (vc_ctx_set_progress):
 *     WHAT BAR PERCENT  DONE of TOTAL  RATE/s  LEFT  TENSOR
 * The line is written over itself; the name is left out where the terminal has no room.
 *
 *     room = columns - what - figures;  a bar if it fits, then the name if it fits whole */
static void show(void *user, const struct vc_progress *progress)
{
    struct out *out = &state.out;
    double t = now();
    double part = part_of(progress->done, progress->total);
    uint64_t since = progress->done;
    double seconds = phase(progress->what != NULL ? progress->what : "", t, 0, &since);
    char done[CELL_BYTES], total[CELL_BYTES], rate[CELL_BYTES], left[CELL_BYTES];
    char line[CELL_BYTES * 5];
    const char *what = progress->what != NULL ? progress->what : "";

    print_line(what, progress->done, progress->total, "bytes", progress->tensor);
    if (!state.on || t - state.last < INTERVAL || t - state.begin < QUIET) {
        return;
    }
    state.last = t;
    fmt_size(done, out, progress->done);
    fmt_size(total, out, progress->total);
    fmt_size(rate, out, seconds > 0 ? (uint64_t)((double)since / seconds) : 0);
    fmt_left(left, seconds, part_of(since, progress->total - state.phase_done));
    snprintf(line, sizeof(line), " %3.0f %%  %s of %s  %s/s%s%s", 100 * part, done, total, rate,
             left[0] != '\0' ? "  " : "", left);
    int room = out->width - 1 - (int)strlen(what) - 1 - (int)strlen(line);
    bool bar = room >= BAR_CELLS;
    room -= bar ? BAR_CELLS + 2 : 2;
    fprintf(stderr, "\r\033[K%s ", what);
    if (bar) {
        print_bar(stderr, out, part < 1 ? part : 1);
    }
    fputs(line, stderr);
    char *name = progress->tensor != NULL && room > 8 ? text_clean(progress->tensor) : NULL;
    if (name != NULL && text_width(name) <= (size_t)room) {
        fprintf(stderr, "  %s", name);
    }
    free(name);
    (void)fflush(stderr);
    state.shown = true;
}

/*     distill BAR  45 %  180 of 400 steps  8 s left */
void progress_steps(const char *what, uint64_t done, uint64_t total)
{
    double t = now();
    double part = part_of(done, total);
    uint64_t since = done;
    char left[CELL_BYTES];

    print_line(what, done, total, "steps", NULL);
    if (!state.on) {
        return;
    }
    double seconds = phase(what, t, done != 0 ? done - 1 : 0, &since); /* a resumed run begins behind its steps */
    if (t - state.last < INTERVAL || t - state.begin < QUIET) {
        return;
    }
    state.last = t;
    fmt_left(left, seconds, part_of(since, total - state.phase_done));
    fprintf(stderr, "\r\033[K%s ", what);
    if (state.out.width > 72) {
        print_bar(stderr, &state.out, part);
    }
    fprintf(stderr, " %3.0f %%  %llu of %llu steps%s%s", 100 * part, (unsigned long long)done,
            (unsigned long long)total, left[0] != '\0' ? "  " : "", left);
    (void)fflush(stderr);
    state.shown = true;
}

/* A descriptor is duplicated, so that progress_end can close the stream and the caller's descriptor stays open. */
void progress_begin(struct app *app)
{
    const char *term = getenv("TERM");

    if (app->call != NULL) {
        return; /* it has a function of its own */
    }
    if (options_seen(&app->parsed, "progress-fd")) {
        int fd = dup((int)app->common.progress_fd);

        state.lines = fd >= 0 ? fdopen(fd, "a") : NULL;
        if (state.lines == NULL && fd >= 0) {
            (void)close(fd);
        }
    }
    state.on =
        !app->common.quiet && !app->common.no_progress && isatty(2) == 1 && term != NULL && strcmp(term, "dumb") != 0;
    if (!state.on && state.lines == NULL) {
        return;
    }
    out_init(&state.out, stderr, (enum color_mode)app->common.color, false);
    state.begin = now();
    state.what = NULL;
    state.last_line = 0;
    vc_ctx_set_progress(app->ctx, show, NULL);
}

/* Descriptor 0 is refused, and those that are open for reading alone. */
bool progress_fd_is_open(const struct app *app)
{
    uint64_t fd = app->common.progress_fd;
    int flags = fd > 0 && fd < 1 << 20 ? fcntl((int)fd, F_GETFL) : -1;

    return app->call == NULL && flags != -1 && (flags & O_ACCMODE) != O_RDONLY;
}

/* May be called without progress_begin. */
void progress_end(void)
{
    if (state.shown) {
        fputs("\r\033[K", stderr);
        (void)fflush(stderr);
        state.shown = false;
    }
    if (state.lines != NULL) {
        (void)fclose(state.lines);
        state.lines = NULL;
    }
    state.on = false;
}
