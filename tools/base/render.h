/* SPDX-License-Identifier: MIT */
/*
 * render.h - printing for all tools: bytes, JSON, colour, progress.
 *
 * Bytes are divided as a double by 1024 as often as needed and printed with %.2f (3,538,944 is 3.38
 * MiB). Colour is used only where the stream is a terminal and NO_COLOR is unset or empty. In JSON,
 * bytes that are not UTF-8 are written as U+FFFD.
 *
 * Does not choose the content; only a page's JSON is reduced (struct json_page). Threads: none.
 * Prefixes: json_, progress_.
 */
#ifndef KEDGE_TOOLS_RENDER_H
#define KEDGE_TOOLS_RENDER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * "3.38 MiB"; "not known" for UINT64_MAX. For arguments of printf and the like:
 * render_bytes(n).text lives until the end of the full expression.
 */
struct render_bytes {
    char text[32];
};

struct render_bytes render_bytes(uint64_t bytes); /* UINT64_MAX: unknown */
struct render_bytes render_count(uint64_t count); /* likewise */

/* The plural ending of a noun after this number: "" for one, else "s". */
const char *render_s(uint64_t count);

/* Escape sequences, or "" if the stream shows none. */
struct render_ink {
    const char *bold, *red, *green, *yellow, *off;
};

struct render_ink render_ink(FILE *out);

/* Writes such a sequence to the stream, past the replacement of render_guard_messages. */
void render_put(FILE *out, const char *ink);

/* A text with '?' for control characters and invalid UTF-8: names come from the watched program. */
void render_text(FILE *out, const char *text);

/* printf with such replacements, except for the newline at the format's end. */
void render_print(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The text as one word for a shell, in single quotes if it needs them. The caller frees it. */
char *render_word(const char *text);

/*
 * From here on messages have '?' for terminal control characters and for invalid UTF-8, since
 * words, files and names are not kedge's. A line that is one fprintf stays one write. Once, at the
 * beginning.
 */
void render_guard_messages(void);

/* Writes all bytes, also from a signal handler. 0, or -errno. */
int render_write(int fd, const char *bytes, size_t length);

/* The width of the stream's terminal; 80 if it has none. */
unsigned render_columns(FILE *out);

/* Whether the locale says that texts are UTF-8. */
bool render_is_utf8(void);

/*
 * The text as the last cell of a row of which `used` columns are printed, with the end of the line.
 * If it does not fit it continues below itself, broken between words; with almost no room it begins
 * on the next line, after `indent` columns.
 */
void render_label(FILE *out, const char *text, unsigned used, unsigned indent);
void render_label_of(FILE *out, unsigned used, unsigned indent, const char *format, ...)
        __attribute__((format(printf, 4, 5)));

/* Keys in rows (the objects in a list) of this name; each is between two blanks. */
struct json_columns {
    const char *list, *keys;
};

/*
 * The form of JSON for a page, whose size is bounded: no blanks; no "<" in a text, which is as in
 * render_text and cut after `text_most` bytes; lists end early (json_begin_rows), and stacks are
 * numbers of frames (frames.h).
 */
struct json_page {
    size_t text_most;
    /* ends with an entry without a list; rows of other lists have all keys */
    const struct json_columns *columns;
    struct frames *frames;
};

#define JSON_DEEPEST 16 /* no answer is as deep */

struct json {
    FILE *out;
    const struct json_page *page;     /* NULL = the complete, normal form */
    const char *within[JSON_DEEPEST]; /* for a page: the keys of the open values */
    unsigned skipped;                 /* open values that are not shown */
    unsigned depth;
    bool first; /* the next element needs no comma */
    /* values so deep (1: in the outermost value) or deeper have no lines of their own; 0 = none */
    unsigned dense_from;
};

/* In every JSON answer. Incremented when a key goes or changes its meaning; not for a new key. */
#define JSON_SCHEMA 1

/* Begins an answer: the outermost object, with its schema. json_end(&json, '}') ends it. */
struct json json_open(FILE *out);

/* The same in one line, for answers that follow each other. */
struct json json_open_line(FILE *out);

/* `key` is NULL inside arrays. */
void json_begin(struct json *json, const char *key, char bracket); /* '{' or '[' */
/*
 * Begins a list of `count` rows, and returns how many of them must be written. Only a page has
 * fewer: `most`. Then KEY_left_out before the list is the number of the others.
 */
size_t json_begin_rows(struct json *json, const char *key, size_t count, size_t most);
void json_end(struct json *json, char bracket); /* '}' or ']' */
void json_uint(struct json *json, const char *key, uint64_t value);
void json_known(struct json *json, const char *key, uint64_t value); /* UINT64_MAX prints null */
void json_int(struct json *json, const char *key, int64_t value);
void json_real(struct json *json, const char *key, double value);
void json_micros(struct json *json, const char *key, uint64_t ns); /* 12.345 of 12345 ns */
void json_bool(struct json *json, const char *key, bool value);
void json_text(struct json *json, const char *key, const char *value); /* NULL prints null */

/*
 * A line on stderr about work that takes long: "what ...", only on a terminal and after two
 * seconds; with the progress, at most ten times a second, if the work calls progress_step.
 * progress_end erases it. There is one line: later work replaces it. Nothing may be printed before
 * progress_end. Uses SIGALRM and the real-time timer meanwhile.
 */
void progress_begin(const char *what);
void progress_step(uint64_t done, uint64_t total); /* no effect without progress_begin */
void progress_end(void);

/* The same for many pieces of work, whose own lines are not printed until progress_end_all. */
void progress_begin_all(const char *what);
void progress_step_all(uint64_t done, uint64_t total);
void progress_end_all(void);

#endif
