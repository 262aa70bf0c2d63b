/* signals.c - SIGINT, SIGTERM and SIGHUP: the call of the library is cancelled, and no temporary file stays behind. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/app.h"
#include "tools/signals.h"

/* State of the process, which handlers read and write: the first signal; whether only printing is left; a file to
 * remove; the context that is cancelled; the watchdog. */
static volatile sig_atomic_t caught;
static volatile sig_atomic_t only_prints;
static const char *volatile unfinished;
static struct vc_ctx *volatile watched;
static timer_t watchdog;
static volatile sig_atomic_t has_watchdog, lets_finish;

#define PATIENCE 800000000 /* nanoseconds from the first signal to the end of a call that has not noticed it */

/* For commands that save a state when they are asked to stop (distill, shrink): no watchdog ends their call. */
void signals_let_finish(void)
{
    lets_finish = 1;
}

int caught_signal(void)
{
    return caught;
}

/* At once: temporary files that have a name are removed, others vanish with the process. */
static void end_by(int number)
{
    vc_job_remove_temporaries();
    if (unfinished != NULL) {
        (void)unlink(unfinished);
    }
    signals_die_by(number);
}

/* The first signal asks the library to stop; it ends its call with VC_E_CANCELLED and leaves nothing behind. A second
 * one ends the process at once, and so does the watchdog where the call goes on, and the first one where there is nothing left but to
 * print (signals_end_printing). While outputs get their names signals wait. */
static void on_signal(int number)
{
    static const struct itimerspec once = {.it_value = {.tv_nsec = PATIENCE}};
    int saved = errno;

    if (caught != 0 || only_prints != 0) {
        end_by(number);
    }
    caught = number;
    if (watched != NULL) {
        vc_ctx_cancel(watched);
    }
    if (has_watchdog != 0 && lets_finish == 0) {
        (void)timer_settime(watchdog, 0, &once, NULL);
    }
    errno = saved;
}

/* A call that looks for the wish rarely (a product or a factor of large matrices, a long text) is not waited for. */
static void on_watchdog(int number)
{
    if (caught != 0) {
        end_by(caught);
    }
}

/* A timer that raises SIGALRM; without one, signals wait for the call. */
static void start_watchdog(void)
{
    struct sigevent event;
    struct sigaction action;

    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGALRM;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_watchdog;
    has_watchdog = sigaction(SIGALRM, &action, NULL) == 0 && timer_create(CLOCK_MONOTONIC, &event, &watchdog) == 0;
}

/* Without SA_RESTART, so that a read that waits for a pipe returns. A signal that our parent ignores (nohup) stays
 * ignored. ctx NULL: the context is about to go, signals have nothing to stop any more. */
void watch_signals(struct vc_ctx *ctx)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};

    watched = ctx;
    if (ctx != NULL && has_watchdog == 0) {
        start_watchdog();
    }
    for (size_t i = 0; ctx != NULL && i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        struct sigaction action;

        if (sigaction(numbers[i], NULL, &action) == 0 && action.sa_handler == SIG_DFL) {
            memset(&action, 0, sizeof(action));
            action.sa_handler = on_signal;
            (void)sigaction(numbers[i], &action, NULL);
        }
    }
}

/* Ends by the signal itself, not by a status, so that a shell that runs us in a loop ends the loop. */
void signals_die_by(int number)
{
    sigset_t set;

    (void)signal(number, SIG_DFL);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, number);
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
    (void)raise(number);
    _exit(128 + number);
}

/* A signal that came after the library's last look ends the process here. */
void signals_end_printing(void)
{
    only_prints = 1;
    if (caught != 0) { /* behind the library's last look */
        vc_job_remove_temporaries();
        signals_die_by(caught);
    }
}

void signals_end_work(void)
{
    only_prints = 0;
}

void signals_remove(const char *path)
{
    unfinished = path;
}
