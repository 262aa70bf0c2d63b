/* main.c - what surrounds every command: descriptors, the exit status.
 *
 * Starts nothing on its own: `vcompress --version` takes no thread, no device and no context. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tools/commands/commands.h"
#include "tools/remote_inputs.h"

/* ---- descriptors ---- */

/* A file that we open must not become descriptor 0, 1 or 2. True when standard output was closed: what is written
 * there fails then, as it did before. */
static bool fill_descriptors(void)
{
    bool stdout_closed = fcntl(1, F_GETFD) < 0;

    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 1 ? O_RDONLY : O_RDWR) != fd) {
            _exit(EXIT_SYSTEM);
        }
    }
    return stdout_closed;
}

/* The table that could not be printed is not missed: standard output was closed from the start, and the conversion has
 * written its file. A JSON document on standard output is always missed. */
static bool is_spare(const struct app *app)
{
    return app->stdout_closed && app->written && !(app->json.on && app->json.path == NULL);
}

/* Flushes what was printed. A report that did not arrive (the disk is full, the pipe closed) is a failure, even when
 * the work is done. Returns the exit status. */
static int close_streams(struct app *app, int status)
{
    int error = 0;

    if (fflush(stdout) != 0 || ferror(stdout) != 0 || fclose(stdout) != 0) {
        /* errno may be that of a call after the write that failed */
        error = app->print_error != 0 ? app->print_error : errno;
        error = app_nobody_reads() ? EPIPE : error;
        error = error != 0 ? error : EIO;
        error = is_spare(app) ? 0 : error;
    }
    if (caught_signal() != 0 && (status == EXIT_SYSTEM || error != 0)) {
        signals_die_by(caught_signal());
    }
    if (app->pipe_closed || (error == EPIPE && status == EXIT_YES)) {
        signals_die_by(SIGPIPE); /* as other programs do, without a word: nobody wants more */
    }
    error = error == EPIPE ? 0 : error;
    if (error != 0 && (status == EXIT_YES || status == EXIT_NO) && !app->said) {
        app->json.on = false;
        status = app_refuse(app, VC_E_IO, "%scannot print the report: %s", app->written ? "written, but " : "",
                            app->stdout_closed ? "standard output is closed" : strerror(error));
    }
    if ((fflush(stderr) != 0 || ferror(stderr) != 0) && status == EXIT_YES) {
        status = EXIT_SYSTEM;
    }
    return status;
}

/* ---- the command ---- */

/* No context is made: the features are those of the build. */
static int print_version(void)
{
    printf("vcompress %s\n%s\nplug-ins for CUDA and for ranks: loaded when asked for; see vcompress devices\n",
           vc_version(), vc_features());
    return EXIT_YES;
}

/* A near name is proposed. */
static int unknown_command(struct app *app, const char *name)
{
    const char *near = nearest_command(name);

    if (near != NULL) {
        return app_usage(app, "unknown command '%s'; did you mean '%s'?", name, near);
    }
    return app_usage(app, "unknown command '%s'; see vcompress --help", name);
}

/* In this order: --version, --help, a command's name, a path that exists or looks like one (vcompress MODEL). */
static int run_command(struct app *app, int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;

    if (name == NULL) {
        return app_usage(app, "no command given; see vcompress --help");
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        return print_version();
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        help_overview(stdout);
        return EXIT_YES;
    }
    if (name[0] == '-') {
        return app_usage(app, "unknown option '%s' before a command; see vcompress --help", name);
    }
    app->command = command_find(name);
    if (app->command == NULL && (access(name, F_OK) == 0 || strpbrk(name, "/.") != NULL)) { /* vcompress MODEL */
        app->command = &command_model;
        return app->command->run(app, argc - 1, argv + 1);
    }
    if (app->command == NULL) {
        return unknown_command(app, name);
    }
    return app->command->run(app, argc - 2, argv + 2);
}

/* A checkpoint of many files needs a descriptor for each, in and out; the usual limit of 1024 is raised to what the
 * system allows. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* ---- the stack ---- */

#define LEAST_STACK ((rlim_t)1 << 20)
#define OWN_STACK   ((size_t)4 << 20)

/* A run in a thread: its arguments, its result, and the mask of signals that the thread takes. */
struct call {
    struct app *app;
    int argc;
    char **argv;
    int status;
    sigset_t signals;
};

static void *run_call(void *user)
{
    struct call *call = user;

    (void)pthread_sigmask(SIG_SETMASK, &call->signals, NULL);
    call->status = run_command(call->app, call->argc, call->argv);
    return NULL;
}

/* Under a small limit of the stack (ulimit -s 64) the command runs in a thread whose stack is its own choice; it gets
 * the signals, so that what waits for a pipe is interrupted. */
static int run_with_stack(struct app *app, int argc, char **argv)
{
    struct call call = {.app = app, .argc = argc, .argv = argv};
    struct rlimit limit;
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all;
    bool started = false;

    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= LEAST_STACK || pthread_attr_init(&attr) != 0) {
        return run_command(app, argc, argv);
    }
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &call.signals);
    started = pthread_attr_setstacksize(&attr, OWN_STACK) == 0 && pthread_create(&thread, &attr, run_call, &call) == 0;
    (void)pthread_attr_destroy(&attr);
    if (started) {
        (void)pthread_join(thread, NULL);
    }
    (void)pthread_sigmask(SIG_SETMASK, &call.signals, NULL);
    return started ? call.status : run_command(app, argc, argv);
}

/* SIGPIPE is ignored while the command works; close_streams ends the process by it where nobody reads any more. */
int main(int argc, char **argv)
{
    struct app app = {.ctx = NULL};

    app.stdout_closed = fill_descriptors();
    raise_descriptor_limit();
    (void)signal(SIGPIPE, SIG_IGN); /* EPIPE and EFBIG are reported like any other failure to write */
    (void)signal(SIGXFSZ, SIG_IGN);
    int status = run_with_stack(&app, argc, argv);
    out_end(&app.out);
    app_warn(&app, status);
    remote_inputs_close(&app); /* before the context that they are of */
    watch_signals(NULL);
    vc_ctx_free(app.ctx);
    app.ctx = NULL;
    status = close_streams(&app, status);
    app_end(&app);
    return status;
}
