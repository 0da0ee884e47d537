/* SPDX-License-Identifier: MIT */
/*
 * render.h - how the tools print: bytes, JSON, colour, progress.
 *
 * Bytes are divided as a double by 1024 as often as needed and printed with %.2f (3,538,944 is 3.38 MiB). Colour is used only
 * where the stream is a terminal and NO_COLOR is unset or empty. In JSON, bytes that are not UTF-8 are written as U+FFFD.
 *
 * Does not decide what is printed; only a page's JSON has less (struct json_page). Threads: none.
 * Prefixes: json_, progress_.
 */
#ifndef KEDGE_TOOLS_RENDER_H
#define KEDGE_TOOLS_RENDER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * "3.38 MiB"; "not known" for UINT64_MAX. For arguments of printf and the like: render_bytes(n).text lives as long as the
 * statement that it stands in.
 */
struct render_bytes {
    char text[32];
};

struct render_bytes render_bytes(uint64_t bytes); /* UINT64_MAX: not known */
struct render_bytes render_count(uint64_t count); /* likewise */

/* What follows a noun behind this number: "" for one, else "s". */
const char *render_s(uint64_t count);

/* Escape sequences, or "" where the stream shows none. */
struct render_ink {
    const char *bold, *red, *green, *yellow, *off;
};

struct render_ink render_ink(FILE *out);

/* Such a sequence on its way to the stream, past what render_guard_messages replaces there. */
void render_put(FILE *out, const char *ink);

/* A text with '?' for control characters and for what is not UTF-8, since names come from the program that was watched. */
void render_text(FILE *out, const char *text);

/* The text as one word for a shell, in single quotes where it needs them. The caller frees it. */
char *render_word(const char *text);

/*
 * From here on messages have '?' for what a terminal would obey, and for what is no UTF-8: words, files and names are other
 * people's. A line that is one fprintf stays one write. Once, at the beginning.
 */
void render_guard_messages(void);

/* How wide the stream's terminal is; 80 where there is none. */
unsigned render_columns(FILE *out);

/* Does the locale say that texts are UTF-8? */
bool render_is_utf8(void);

/*
 * The text as the last cell of a row of which `used` columns are printed, and the end of the line. Where it does not fit it goes
 * on below itself, between words; with next to no room it begins on the next line, `indent` columns in.
 */
void render_label(FILE *out, const char *text, unsigned used, unsigned indent);

/* Keys that rows (the objects in a list) of this name have; each stands between two blanks. */
struct json_columns {
    const char *list, *keys;
};

/*
 * The form of an answer that is a page's data, whose size has a bound: no blanks; no "<" in a text,
 * which is as render_text has it and cut behind `text_most` bytes; lists end early
 * (json_begin_rows), and stacks are numbers of frames (frames.h).
 */
struct json_page {
    size_t text_most;
    /* up to one without a list; rows of other lists have all keys */
    const struct json_columns *columns;
    struct frames *frames;
};

#define JSON_DEEPEST 16 /* no answer is as deep */

struct json {
    FILE *out;
    const struct json_page *page;     /* NULL = everything, as it is */
    const char *within[JSON_DEEPEST]; /* of a page: the keys of the values that are open */
    unsigned skipped;                 /* values that are open, and not shown */
    unsigned depth;
    bool first; /* the next element needs no comma */
    /* what stands this deep or deeper (1: in the outermost value) has no lines of its own; 0 = nothing */
    unsigned dense_from;
};

/* Of every answer in JSON. It grows by one when a key is renamed, goes, or means something else; a new key changes nothing. */
#define JSON_SCHEMA 1

/* An answer: the outermost object, begun, with its schema in it. json_end(&json, '}') ends it. */
struct json json_open(FILE *out);

/* The same in one line, for answers that follow each other. */
struct json json_open_line(FILE *out);

/* `key` is NULL inside arrays. */
void json_begin(struct json *json, const char *key, char bracket); /* '{' or '[' */
/*
 * Begins a list of `count` rows, and returns how many of them are to be written. That is less only
 * of a page: `most`. Then KEY_left_out is before the list: how many others there are.
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
 * A line on stderr about work that takes long: "what ...", only on a terminal, only once two seconds have passed; and how far it
 * is, at most ten times a second, where the work says so by progress_step. progress_end wipes it. There is one line: who begins
 * while another is at work takes it over. Nothing may be printed before progress_end. Takes SIGALRM and the real-time timer
 * meanwhile.
 */
void progress_begin(const char *what);
void progress_step(uint64_t done, uint64_t total); /* nothing where nobody has begun */
void progress_end(void);

/* The same for many pieces of work that have lines of their own: until progress_end_all those say nothing. */
void progress_begin_all(const char *what);
void progress_step_all(uint64_t done, uint64_t total);
void progress_end_all(void);

#endif
