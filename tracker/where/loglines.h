/* SPDX-License-Identifier: MIT */
/*
 * loglines.h - anchors from lines of a program's output.
 *
 * A program without NVTX may still print "START SOT_CALL_0". A pattern selects such lines and the
 * bytes of them that are the anchor's name:
 *
 *     START {}|END {}         the default: "START SOT_CALL_0" enters SOT_CALL_0,
 *                             "END SOT_CALL_0" leaves it
 *     Epoch {} begins         each line ends the range before and begins the next
 *     EPOCH START             without braces the name is the matched text: "EPOCH START"
 *
 * A pattern is the form of a line that enters, and after | that of a line that leaves. A form is
 * plain text, in which
 *
 *     {}    is the name: one word, at least one byte and no blank
 *     {*}   is the name: any bytes, at least one
 *     *     is any bytes, also none: at the very front, or after the text or the name
 *     ?     is any one byte (a comma or a | has to be written so)
 *
 * It begins with at least two bytes of plain text, after a * in front; they reject other lines
 * quickly. It matches from the beginning of a line, or after a logger's prefix, which ends in one
 * of ] ) : | - > and blanks (with a * in front: anywhere), and to the end of the line except
 * blanks.
 *
 * A pattern has one range at a time in each thread: a line that enters ends the pattern's open
 * range. A line that leaves ends it if it has the same name, or none. Ranges of different patterns
 * nest.
 *
 * Pure: no lock, no memory of its own, no clock. Time at most the square of LOGLINES_LINE_MAX, for
 * lines that contain the text.
 */
#ifndef KEDGE_TRACKER_LOGLINES_H
#define KEDGE_TRACKER_LOGLINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOGLINES_MAX      16u  /* patterns */
#define LOGLINES_TEXT_MAX 128u /* bytes of a pattern, the NUL included */
#define LOGLINES_LINE_MAX 512u /* longer lines are no anchors */
#define LOGLINES_DEFAULT  "START {}|END {}"

enum loglines_name {
    LOGLINES_ALL,  /* no braces: the name is the matched text */
    LOGLINES_WORD, /* {} */
    LOGLINES_REST, /* {*} */
};

/* One form: text, name, tail. */
struct loglines_form {
    char text[LOGLINES_TEXT_MAX];     /* before the name; ? is one byte */
    char tail[2 * LOGLINES_TEXT_MAX]; /* after it, as a glob: wildcard.h */
    uint32_t text_length;             /* 0: no such form */
    uint32_t plain_length;            /* bytes before the first ? */
    enum loglines_name name;
    bool anywhere; /* began with * */
};

struct loglines_pattern {
    struct loglines_form enter, leave;
};

struct loglines {
    struct loglines_pattern patterns[LOGLINES_MAX];
    uint32_t count;
};

enum loglines_kind {
    LOGLINES_NOTHING,
    LOGLINES_ENTER,
    LOGLINES_LEAVE,
};

/* The match of a line. `name` points into the line; NULL: it leaves any open range. */
struct loglines_word {
    enum loglines_kind kind;
    const char *name;
    size_t name_length;
};

/* Adds a pattern. 0, or -EINVAL with the reason in *ret_why, or -ENOSPC. */
int loglines_add(struct loglines *set, const char *pattern, const char **ret_why);

/* Matches pattern `number` of the set against a line without its newline. False: no match. */
bool loglines_match(const struct loglines *set, uint32_t number, const char *line, size_t length,
        struct loglines_word *ret_word);

#endif
