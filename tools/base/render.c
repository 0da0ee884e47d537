/* SPDX-License-Identifier: MIT */
#include "tools/base/render.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "tools/base/vec.h"
#include "tracker/base/utf8.h"

#define COLUMNS_UNKNOWN 80
#define LABEL_MIN       30 /* fewest columns of a label */

struct render_bytes render_bytes(uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    struct render_bytes size;
    size_t unit = 0;

    if (bytes == UINT64_MAX)
        return (struct render_bytes){"not known"};
    while (value >= 1024.0 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1024.0;
        unit++;
    }
    (void)snprintf(size.text, sizeof(size.text), "%.2f %s", value, units[unit]);
    return size;
}

struct render_bytes render_count(uint64_t count)
{
    struct render_bytes text;

    if (count == UINT64_MAX)
        return (struct render_bytes){"not known"};
    (void)snprintf(text.text, sizeof(text.text), "%" PRIu64, count);
    return text;
}

const char *render_s(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* The stream that render_guard_messages makes has no descriptor of its own. */
static int render_descriptor(FILE *out)
{
    int fd = fileno(out);

    return fd >= 0 ? fd : STDERR_FILENO;
}

void render_put(FILE *out, const char *ink)
{
    if (fileno(out) >= 0)
        (void)fputs(ink, out);
    else if (write(STDERR_FILENO, ink, strlen(ink)) < 0)
        return; /* as the message that it is for */
}

struct render_ink render_ink(FILE *out)
{
    const char *no_colour = getenv("NO_COLOR");
    const char *term = getenv("TERM");

    if (!isatty(render_descriptor(out)) || (no_colour && *no_colour)
            || (term && strcmp(term, "dumb") == 0))
        return (struct render_ink){"", "", "", "", ""};
    return (struct render_ink){"\033[1m", "\033[31m", "\033[32m", "\033[33m", "\033[0m"};
}

unsigned render_columns(FILE *out)
{
    struct winsize size;
    bool is_known = isatty(fileno(out)) && ioctl(fileno(out), TIOCGWINSZ, &size) == 0;

    return is_known && size.ws_col ? size.ws_col : COLUMNS_UNKNOWN;
}

bool render_is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        const char *locale = getenv(names[i]);
        if (locale && *locale)
            return strcasestr(locale, "utf-8") || strcasestr(locale, "utf8");
    }
    return false;
}

/* The length of the text for one line: whole words, before a "<" or after a comma if possible. */
static size_t line_length(const char *text, size_t room)
{
    size_t length = strlen(text);
    size_t word = 0;
    size_t part = 0;

    if (length <= room)
        return length;
    for (size_t i = 1; i <= room; i++) {
        if (text[i] != ' ')
            continue;
        word = i;
        if (text[i + 1] == '<' || text[i - 1] == ',')
            part = i;
    }
    return part ? part : word ? word : room;
}

void render_label(FILE *out, const char *text, unsigned used, unsigned indent)
{
    unsigned columns = render_columns(out);
    unsigned at = used;

    if (strlen(text) + used > columns && used + LABEL_MIN > columns) {
        (void)fprintf(out, "\n%*s", (int)indent, "");
        at = indent;
    }
    size_t room = columns > at + LABEL_MIN ? columns - at : LABEL_MIN;
    for (;;) {
        size_t length = line_length(text, room);
        char *line = strndup(text, length);
        render_text(out, line ? line : "");
        free(line);
        text += length;
        text += strspn(text, " ");
        if (*text == '\0')
            break;
        (void)fprintf(out, "\n%*s", (int)at, "");
    }
    (void)fputc('\n', out);
}

void render_label_of(FILE *out, unsigned used, unsigned indent, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    char *text = vec_vformat(format, args);
    va_end(args);
    render_label(out, text, used, indent);
    free(text);
}

/* A new line for a value at this depth, unless that is dense. */
static void json_line(const struct json *json, unsigned depth)
{
    if (json->page || (json->dense_from && depth >= json->dense_from))
        return;
    (void)fputc('\n', json->out);
    for (unsigned i = 0; i < json->depth; i++)
        (void)fputs("  ", json->out);
}

void render_text(FILE *out, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;

    while (*s) {
        uint32_t code;
        size_t length = utf8_length(s, &code);
        if (length == 0 || utf8_is_obeyed(code))
            (void)fputc('?', out);
        else
            (void)fwrite(s, 1, length, out);
        s += length ? length : 1;
    }
}

void render_print(FILE *out, const char *format, ...)
{
    size_t length = strlen(format);
    va_list args;

    va_start(args, format);
    char *text = vec_vformat(format, args);
    va_end(args);
    bool is_line = length > 0 && format[length - 1] == '\n';
    if (is_line)
        text[strlen(text) - 1] = '\0';
    render_text(out, text);
    if (is_line)
        (void)fputc('\n', out);
    free(text);
}

char *render_word(const char *text)
{
    static const char plain[] =
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./,:@%+=-";

    if (*text && text[strspn(text, plain)] == '\0')
        return vec_text(text);
    char *word = vec_new(4 * strlen(text) + 3, 1); /* a quote becomes four characters */
    char *to = stpcpy(word, "'");
    for (; *text; text++) {
        if (*text == '\'')
            to = stpcpy(to, "'\\''");
        else
            *to++ = *text;
    }
    (void)stpcpy(to, "'");
    return word;
}

/* One character of a string; returns its length in bytes. */
static size_t json_character(const struct json *json, const char *text)
{
    uint32_t code;
    size_t length = utf8_length((const unsigned char *)text, &code);
    bool is_odd = length == 0 || utf8_is_obeyed(code);

    if (is_odd && json->page)
        (void)fputc('?', json->out);
    else if (length == 0)
        (void)fputs("\\ufffd", json->out);
    else if (is_odd || (*text == '<' && json->page))
        (void)fprintf(json->out, "\\u%04x", (unsigned)code);
    else if (*text == '"' || *text == '\\')
        (void)fprintf(json->out, "\\%c", *text);
    else
        (void)fwrite(text, 1, length, json->out);
    return length ? length : 1;
}

static void json_string(const struct json *json, const char *text)
{
    size_t most = json->page ? json->page->text_most : SIZE_MAX;

    (void)fputc('"', json->out);
    for (size_t at = 0; text[at] && at < most;)
        at += json_character(json, &text[at]);
    (void)fputc('"', json->out);
}

/* Whether the key is in the list, between blanks. */
static bool json_lists(const char *keys, const char *key)
{
    size_t length = strlen(key);

    while ((keys = strstr(keys, key)) != NULL && (keys[-1] != ' ' || keys[length] != ' '))
        keys += length;
    return keys != NULL;
}

/* Rows are the objects without a key. */
static bool json_is_shown(const struct json *json, const char *key)
{
    const struct json_columns *columns = json->page ? json->page->columns : NULL;

    if (json->skipped)
        return false;
    if (!columns || !key || json->depth < 2 || json->within[json->depth - 1])
        return true;
    while (columns->list && strcmp(columns->list, json->within[json->depth - 2]) != 0)
        columns++;
    return !columns->list || json_lists(columns->keys, key);
}

/* false: the value is not written. */
static bool json_key(struct json *json, const char *key)
{
    if (!json_is_shown(json, key))
        return false;
    if (json->depth) {
        if (!json->first)
            (void)fputc(',', json->out);
        json_line(json, json->depth);
    }
    json->first = false;
    if (key) {
        json_string(json, key);
        (void)fputs(json->page ? ":" : ": ", json->out);
    }
    return true;
}

void json_begin(struct json *json, const char *key, char bracket)
{
    if (!json_key(json, key)) {
        json->skipped++;
        return;
    }
    (void)fputc(bracket, json->out);
    if (json->page)
        json->within[json->depth] = key;
    json->depth++;
    json->first = true;
}

size_t json_begin_rows(struct json *json, const char *key, size_t count, size_t most)
{
    size_t shown = json->page && count > most ? most : count;
    char others[64];

    (void)snprintf(others, sizeof(others), "%s_left_out", key);
    if (shown < count)
        json_uint(json, others, count - shown);
    json_begin(json, key, '[');
    return shown;
}

void json_end(struct json *json, char bracket)
{
    if (json->skipped) {
        json->skipped--;
        return;
    }
    json->depth--;
    if (!json->first)
        json_line(json, json->depth + 1);
    (void)fputc(bracket, json->out);
    json->first = false;
    if (json->depth == 0 && !json->page)
        (void)fputc('\n', json->out);
}

static struct json open_as(struct json json)
{
    json_begin(&json, NULL, '{');
    json_uint(&json, "schema", JSON_SCHEMA);
    return json;
}

struct json json_open(FILE *out)
{
    return open_as((struct json){.out = out});
}

struct json json_open_line(FILE *out)
{
    return open_as((struct json){.out = out, .dense_from = 1});
}

void json_uint(struct json *json, const char *key, uint64_t value)
{
    if (json_key(json, key))
        (void)fprintf(json->out, "%" PRIu64, value);
}

void json_known(struct json *json, const char *key, uint64_t value)
{
    if (value == UINT64_MAX)
        json_text(json, key, NULL);
    else
        json_uint(json, key, value);
}

void json_int(struct json *json, const char *key, int64_t value)
{
    if (json_key(json, key))
        (void)fprintf(json->out, "%" PRId64, value);
}

void json_real(struct json *json, const char *key, double value)
{
    if (!json_key(json, key))
        return;
    if (isfinite(value))
        (void)fprintf(json->out, "%.6g", value);
    else
        (void)fputs("null", json->out);
}

void json_micros(struct json *json, const char *key, uint64_t ns)
{
    if (json_key(json, key))
        (void)fprintf(json->out, "%" PRIu64 ".%03u", ns / 1000, (unsigned)(ns % 1000));
}

void json_bool(struct json *json, const char *key, bool value)
{
    if (json_key(json, key))
        (void)fputs(value ? "true" : "false", json->out);
}

void json_text(struct json *json, const char *key, const char *value)
{
    if (!json_key(json, key))
        return;
    if (value)
        json_string(json, value);
    else
        (void)fputs("null", json->out);
}

static uint64_t render_now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static const char *volatile working_on; /* NULL: no work, or no terminal */
static volatile sig_atomic_t is_shown;
static bool is_part; /* part of the work of progress_begin_all */

int render_write(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t n = write(fd, bytes, length);
        if (n < 0 && errno != EINTR)
            return -errno;
        bytes += n > 0 ? n : 0;
        length -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static void render_write_all(const char *text)
{
    if (render_write(STDERR_FILENO, text, strlen(text)) < 0)
        is_shown = 1; /* the user cannot see it */
}

static void say_working(int number)
{
    int kept = errno;

    (void)number;
    if (working_on) {
        is_shown = 1;
        render_write_all("\r\033[K");
        render_write_all(working_on);
        render_write_all(" ...");
    }
    errno = kept;
}

void progress_begin(const char *what)
{
    struct sigaction action = {.sa_handler = say_working, .sa_flags = SA_RESTART};

    if (is_part || !isatty(STDERR_FILENO) || sigaction(SIGALRM, &action, NULL) != 0)
        return;
    if (!working_on)
        is_shown = 0;
    working_on = what;
    (void)alarm(2);
}

void progress_step(uint64_t done, uint64_t total)
{
    static uint64_t shown_ns;

    if (is_part || !working_on || !is_shown || render_now_ns() - shown_ns < 100000000u)
        return;
    shown_ns = render_now_ns();
    render_write_all("\r\033[K");
    (void)fprintf(
            stderr, "%s: %.0f %%", working_on, total ? 100.0 * (double)done / (double)total : 0.0);
    (void)fflush(stderr);
}

void progress_begin_all(const char *what)
{
    progress_begin(what);
    is_part = true;
}

void progress_step_all(uint64_t done, uint64_t total)
{
    is_part = false;
    progress_step(done, total);
    is_part = true;
}

void progress_end_all(void)
{
    is_part = false;
    progress_end();
}

void progress_end(void)
{
    if (is_part || !working_on)
        return;
    (void)alarm(0);
    working_on = NULL;
    (void)signal(SIGALRM, SIG_DFL);
    if (is_shown)
        render_write_all("\r\033[K");
}

/* ---- messages ---- */

static ssize_t guard_write(void *cookie, const char *bytes, size_t count)
{
    static char text[8192]; /* no allocation: the message may be about a lack of memory */
    ssize_t n;

    (void)cookie;
    count = count < sizeof(text) ? count : sizeof(text); /* the rest is another write */
    memcpy(text, bytes, count);
    utf8_clean(text, count, "\n\t");
    n = write(STDERR_FILENO, text, count);
    return n < 0 ? 0 : n; /* 0: an error, with errno */
}

void render_guard_messages(void)
{
    FILE *guard = fopencookie(NULL, "w", (cookie_io_functions_t){.write = guard_write});

    if (!guard)
        return;
    (void)setvbuf(guard, NULL, _IONBF, 0);
    stderr = guard;
}
