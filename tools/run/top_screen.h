/* SPDX-License-Identifier: MIT */
/*
 * top_screen.h - the terminal as a screen of text that is drawn again and again.
 *
 * The alternate screen, without a cursor and without line wrap; keys come one by one and are not
 * shown. Whatever ends the program, the terminal is given back as it was: at exit, by signals that
 * ask it to end, by a crash, and while it is stopped (Ctrl-Z). Plain ECMA-48 sequences, which all
 * terminals of today obey.
 *
 * One screen in a process. Threads: none. Handles SIGWINCH, SIGTSTP and the signals that end it.
 */
#ifndef KEDGE_TOOLS_TOP_SCREEN_H
#define KEDGE_TOOLS_TOP_SCREEN_H

#include <stdbool.h>

/* Are standard input and output a terminal that obeys sequences? */
bool top_screen_is_possible(void);

/* 0, or -errno. */
int top_screen_open(void);
void top_screen_close(void); /* harmless without a screen */

/* How many rows it has now. */
unsigned top_screen_rows(void);

/*
 * Draws lines, which end with a newline each and have no sequences. What is beyond the screen is
 * left out. Only what was drawn before is overwritten, in one write, so that nothing flickers.
 */
void top_screen_show(const char *lines);

/*
 * Waits until `fd` is readable (-1: none), or for `timeout_ms`; of an open screen also for a key,
 * and for another size. False: the key was q, or the terminal is gone.
 */
bool top_screen_wait(int fd, int timeout_ms);

#endif
