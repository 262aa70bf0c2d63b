/* signals.h - what a command says to signals.c beyond app.h. */
#pragma once

/* The command keeps what it has done when it is asked to stop (a checkpoint, a journal): a signal waits for that, however long it
 * takes. All other commands end within a second. */
void signals_let_finish(void);
