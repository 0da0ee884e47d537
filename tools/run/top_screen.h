/* SPDX-License-Identifier: MIT */
/*
 * top_screen.h - a text screen on the terminal that is redrawn repeatedly.
 *
 * The alternate screen, without a cursor and without line wrap; keys are read one by one and not
 * echoed. The terminal is restored at exit, on signals that end the program, on a crash, and while
 * it is stopped (Ctrl-Z). Plain ECMA-48 sequences, which all current terminals support.
 *
 * One screen in a process. Threads: none. Handles SIGWINCH, SIGTSTP and the signals that end it.
 */
#ifndef KEDGE_TOOLS_TOP_SCREEN_H
#define KEDGE_TOOLS_TOP_SCREEN_H

#include <stdbool.h>

/* Whether standard input and output are a terminal with control sequences. */
bool top_screen_is_possible(void);

/* 0, or -errno. */
int top_screen_open(void);
void top_screen_close(void); /* harmless without a screen */

/* The current number of rows. */
unsigned top_screen_rows(void);

/*
 * Draws lines, which end with a newline each and contain no sequences. Lines beyond the screen are
 * left out. Only the earlier drawing is overwritten, in one write, so that it does not flicker.
 */
void top_screen_show(const char *lines);

/*
 * Waits until `fd` is readable (-1: none), or for `timeout_ms`; with an open screen also for a key
 * and for a new size. False: the key was q, or the terminal is closed.
 */
bool top_screen_wait(int fd, int timeout_ms);

#endif
