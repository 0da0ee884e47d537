/* SPDX-License-Identifier: MIT */
/*
 * screen.h - the terminal as a screen of text that is drawn again and again.
 *
 * The alternate screen, without a cursor and without line wrap; keys come one by one and are not shown. Whatever ends the program, the
 * terminal is given back as it was: at exit, by signals that ask it to end, by a crash, and while it is stopped (Ctrl-Z). Plain ECMA-48
 * sequences, which all terminals of today obey.
 *
 * One screen in a process. Threads: none; blocks the signals that it reads.
 */
#ifndef KEDGE_TOOLS_SCREEN_H
#define KEDGE_TOOLS_SCREEN_H

#include <stdbool.h>

/* Are standard input and output a terminal that obeys sequences? */
bool screen_is_possible(void);

/* 0, or -errno. */
int screen_open(void);
void screen_close(void); /* harmless without a screen */

/* Rows and columns now. */
void screen_size(unsigned *ret_rows, unsigned *ret_columns);

/*
 * Draws lines, which end with a newline each. What is beyond the screen is left out; sequences of a known length (ESC [ ... m) take no
 * column. Only what was drawn before is overwritten, in one write, so that nothing flickers.
 */
void screen_show(const char *lines);

enum screen_event {
    SCREEN_TIMEOUT,
    SCREEN_KEY,
    SCREEN_RESIZED, /* or was away: draw again */
    SCREEN_FD,      /* `fd` is readable */
    SCREEN_CLOSED,  /* the terminal is gone */
};

/* Waits for what comes first. `fd` -1: none; *ret_key is filled with SCREEN_KEY. A signal that asks to end does not return. */
enum screen_event screen_wait(int fd, int timeout_ms, char *ret_key);

#endif
