/* signals.c - SIGINT, SIGTERM and SIGHUP: the call of the library is cancelled, and no temporary file stays behind. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tools/app.h"

static volatile sig_atomic_t caught;
static volatile sig_atomic_t only_prints;
static const char *volatile unfinished;
static struct vc_ctx *volatile watched;

int caught_signal(void)
{
    return caught;
}

/* The first signal asks the library to stop; it ends its call with VC_E_CANCELLED and leaves nothing behind. A second
 * one ends the process at once; temporary files that have a name are removed, others vanish with the process. So does
 * the first one where there is nothing left but to print (signals_end_printing). */
static void on_signal(int number)
{
    int saved = errno;

    if (caught != 0 || only_prints != 0) {
        vc_job_remove_temporaries();
        if (unfinished != NULL) {
            (void)unlink(unfinished);
        }
        (void)signal(number, SIG_DFL);
        (void)raise(number);
    }
    caught = number;
    if (watched != NULL) {
        vc_ctx_cancel(watched);
    }
    errno = saved;
}

/* Without SA_RESTART, so that a read that waits for a pipe returns. A signal that our parent ignores (nohup) stays
 * ignored. ctx NULL: the context is about to go, signals have nothing to stop any more. */
void watch_signals(struct vc_ctx *ctx)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};

    watched = ctx;
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
