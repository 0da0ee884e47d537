/* SPDX-License-Identifier: MIT */
/*
 * Logs of Paddle's allocator, GLOG_v=10 (or GLOG_vmodule='auto_growth*=10'), mixed with whatever else the program
 * says:
 *
 *     I0721 08:12:01.215407  4711 auto_growth_best_fit_allocator.cc:106] Allocate 3538900 bytes, aligned to 3538944, extra size 0
 *     I0721 08:12:01.215421  4711 auto_growth_best_fit_allocator.cc:166] Not found and reallocate 3538944(0x7f2c40000000), and remaining 0
 *     I0721 08:12:01.215430  4711 auto_growth_best_fit_allocator.cc:178] Alloc 3538944 bytes, ptr = 0x7f2c40000000
 *     I0721 08:12:01.218804  4711 auto_growth_best_fit_allocator.cc:187] Free 3538944 bytes, ptr = 0x7f2c40000000
 *     I0721 08:12:01.219011  4711 auto_growth_best_fit_allocator.cc:234] Free chunk with size 3538944
 *
 * These five say all that is needed. Alloc and Free have the size that the allocator rounds to; what the program asked for stands
 * in the thread's line before (Paddle 2.6 and later). "Not found" and "Free chunk" are what the allocator holds. Neither device nor
 * stream is said. auto_growth_best_fit_allocator_v2.cc and zero_fragmentation_allocator.cc write the same lines. The line numbers
 * differ from version to version, so they are not looked at.
 *
 * Where memory runs out, stream_safe_cuda_allocator.cc says how much was asked for, what it does about it, and then that no more
 * could be done. Above it, retry_allocator.cc waits and asks once more: a request may fail twice.
 *
 *     I0721 08:12:02.100005  4711 stream_safe_cuda_allocator.cc:195] Allocation failed when allocating 8589934592 bytes
 *     I0721 08:12:02.100052  4711 stream_safe_cuda_allocator.cc:247] Release 0 bytes memory from all streams
 *     I0721 08:12:02.100055  4711 auto_growth_best_fit_allocator.cc:70] Allocate 8589934592 bytes, aligned to 8589934592
 *     I0721 08:12:02.130121  4711 stream_safe_cuda_allocator.cc:200] Still allocation failed after release memory from all streams
 *
 * All other lines may be anchors (tracker/loglines.h). A line without the logger's prefix belongs to no known thread: what it opens
 * holds for every thread that has nothing open.
 */
#include "tools/import.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/cmd.h"
#include "tools/keytable.h"
#include "tools/render.h"
#include "tools/vec.h"

#define BUFFER_BYTES (1u << 18) /* a longer line is cut, and what is cut off is passed over */
#define NOBODY       0u /* the thread of lines without a prefix: no thread has this number */
#define DAY_SECONDS  86400

/* What a thread asked for, until the line with the address comes. */
struct request {
    uint64_t size, aligned;
    uint64_t failed; /* what could not be had at once */
};

struct log {
    struct import_job *job;
    uint64_t line, done_bytes, all_bytes;
    struct request *requests; /* by thread */
    size_t request_count, request_room;
    uint64_t held;
    bool is_held_known; /* the log says what the allocator takes from the driver */
    uint64_t blocks;    /* lines that tell of one */
    char day[9];        /* digits of the last date, and when it began */
    time_t day_began;
    uint64_t bad_line;
    size_t bad_column;
    const char *bad_what;
};

/* One line of a logger; `message` is what it says. */
struct glog {
    const char *file, *message, *end;
    size_t file_length;
    uint64_t thread, time_ns;
};

/* ---- a line's parts; each takes one and returns what is behind it, NULL: it is something else ---- */

static const char *take_digits(const char *at, const char *end, size_t count, uint64_t *ret)
{
    *ret = 0;
    if ((size_t)(end - at) < count)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        if (!isdigit((unsigned char)at[i]))
            return NULL;
        *ret = *ret * 10 + (uint64_t)(at[i] - '0');
    }
    return at + count;
}

static const char *take_number(const char *at, const char *end, unsigned base, uint64_t *ret)
{
    static const char digits[] = "0123456789abcdef";
    const char *start = at;

    *ret = 0;
    for (; at < end && *at; at++) {
        const char *digit = memchr(digits, tolower((unsigned char)*at), base);

        if (!digit)
            break;
        if (*ret > (UINT64_MAX - (uint64_t)(digit - digits)) / base)
            return NULL;
        *ret = *ret * base + (uint64_t)(digit - digits);
    }
    return at > start ? at : NULL;
}

static const char *take_text(const char *at, const char *end, const char *text)
{
    size_t length = strlen(text);

    if (!at || (size_t)(end - at) < length || memcmp(at, text, length) != 0)
        return NULL;
    return at + length;
}

static const char *take_blanks(const char *at, const char *end)
{
    while (at < end && *at == ' ')
        at++;
    return at;
}

/* "12:34:56.123456" */
static const char *take_time(const char *at, const char *end, uint64_t *ret_ns)
{
    static const struct {
        size_t digits;
        const char *behind;
        uint64_t unit;
    } parts[] = {{2, ":", 3600}, {2, ":", 60}, {2, ".", 1}};
    uint64_t number;

    *ret_ns = 0;
    for (size_t i = 0; i < CMD_COUNT(parts) && at; i++) {
        at = take_digits(at, end, parts[i].digits, &number);
        *ret_ns += number * parts[i].unit * UINT64_C(1000000000);
        at = take_text(at, end, parts[i].behind);
    }
    if (at)
        at = take_digits(at, end, 6, &number);
    *ret_ns += at ? number * 1000 : 0;
    return at;
}

/* Month and day, in later versions behind the year; without one it is 1970. */
static const char *take_day(struct log *log, const char *at, const char *end, uint64_t *ret_ns)
{
    size_t digits = 0;
    uint64_t day;

    while (at + digits < end && digits < 9 && isdigit((unsigned char)at[digits]))
        digits++;
    if ((digits != 4 && digits != 8) || !take_digits(at, end, digits, &day))
        return NULL;
    if (strlen(log->day) != digits || memcmp(log->day, at, digits) != 0) {
        struct tm date = {.tm_year = digits == 8 ? (int)(day / 10000) - 1900 : 70,
                .tm_mon = (int)(day / 100 % 100) - 1,
                .tm_mday = (int)(day % 100)};

        memcpy(log->day, at, digits);
        log->day[digits] = '\0';
        log->day_began = timegm(&date);
    }
    *ret_ns = log->day_began > 0 ? (uint64_t)log->day_began * UINT64_C(1000000000) : 0;
    return at + digits;
}

/* "I0721 08:12:01.215407  4711 file.cc:106] message" */
static bool read_prefix(struct log *log, const char *line, const char *end, struct glog *ret_glog)
{
    const char *at = take_blanks(line, end);
    uint64_t day_ns;
    uint64_t number;

    *ret_glog = (struct glog){0};
    if (at == end || !memchr("IWEF", *at, 4))
        return false;
    at = take_day(log, at + 1, end, &day_ns);
    at = take_text(at, end, " ");
    if (at)
        at = take_time(at, end, &ret_glog->time_ns);
    at = take_text(at, end, " ");
    if (at)
        at = take_number(take_blanks(at, end), end, 10, &ret_glog->thread);
    at = take_text(at, end, " ");
    ret_glog->file = at;
    at = at ? memchr(at, ':', (size_t)(end - at)) : NULL;
    if (!at)
        return false;
    ret_glog->file_length = (size_t)(at - ret_glog->file);
    at = take_text(take_number(at + 1, end, 10, &number), end, "]");
    if (!at)
        return false;
    ret_glog->message = take_blanks(at, end);
    ret_glog->end = end;
    ret_glog->time_ns += day_ns;
    return true;
}

static bool is_of_allocator(const struct glog *glog)
{
    static const char *const files[] = {"auto_growth_best_fit_allocator.cc",
            "auto_growth_best_fit_allocator_v2.cc", "zero_fragmentation_allocator.cc",
            "stream_safe_cuda_allocator.cc"};
    const char *slash = memrchr(glog->file, '/', glog->file_length);
    const char *name = slash ? slash + 1 : glog->file;
    size_t length = glog->file_length - (size_t)(name - glog->file);

    for (size_t i = 0; i < CMD_COUNT(files); i++)
        if (strlen(files[i]) == length && memcmp(files[i], name, length) == 0)
            return true;
    return false;
}

/* ---- what the allocator says ---- */

static struct request *request_of(struct log *log, uint32_t thread)
{
    while (log->request_count <= thread)
        VEC_PUSH(log->requests, log->request_count, log->request_room) = (struct request){0};
    return &log->requests[thread];
}

/* The first place is told at the end, the others are counted. */
static void tell_bad(struct log *log, size_t column, const char *what)
{
    import_bad(log->job->import);
    if (log->bad_line)
        return;
    log->bad_line = log->line;
    log->bad_column = column;
    log->bad_what = what;
}

/* "3538944 bytes, ptr = 0x7f2c40000000" */
static const char *take_block(
        const char *at, const char *end, uint64_t *ret_size, uint64_t *ret_address)
{
    at = take_text(take_number(at, end, 10, ret_size), end, " bytes, ptr = ");
    if (!at)
        return NULL;
    if (take_text(at, end, "(nil)")) {
        *ret_address = 0;
        return at;
    }
    at = take_text(at, end, "0x") ? at + 2 : at;
    at = take_number(at, end, 16, ret_address);
    return at && (*ret_size <= INT64_MAX) ? at : NULL;
}

static bool told_alloc(struct log *log, const struct glog *glog, const char *at, uint32_t thread)
{
    struct import_block block = {.thread = thread};
    struct request *request = request_of(log, thread);

    if (!take_block(at, glog->end, &block.size, &block.address))
        return false;
    if (request->aligned == block.size && request->size <= block.size)
        block.size = request->size;
    *request = (struct request){0};
    log->blocks++;
    if (block.address)
        import_alloc(log->job->import, &block);
    return true;
}

static bool told_free(struct log *log, const struct glog *glog, const char *at, uint32_t thread)
{
    uint64_t size;
    uint64_t address;

    if (!take_block(at, glog->end, &size, &address))
        return false;
    log->blocks++;
    if (address)
        import_free(log->job->import, address, size, 0, thread);
    return true;
}

/* "3538900 bytes, aligned to 3538944"; its other form, "... from chunk size", says nothing that Alloc does not say. A request that
 * failed is tried again with such a line, so what failed stays. */
static bool told_request(struct log *log, const struct glog *glog, const char *at, uint32_t thread)
{
    struct request *request = request_of(log, thread);
    uint64_t size;
    uint64_t aligned;

    at = take_number(at, glog->end, 10, &size);
    at = take_text(at, glog->end, " bytes, aligned to ");
    if (at && take_number(at, glog->end, 10, &aligned)) {
        request->size = size;
        request->aligned = aligned;
    }
    return true;
}

static bool told_growth(struct log *log, const struct glog *glog, const char *at, uint32_t thread)
{
    uint64_t size;

    (void)thread;
    if (!take_number(at, glog->end, 10, &size) || size > INT64_MAX - log->held)
        return false;
    log->held += size;
    log->is_held_known = true;
    import_reserved(log->job->import, 0, log->held);
    return true;
}

static bool told_chunk_free(
        struct log *log, const struct glog *glog, const char *at, uint32_t thread)
{
    uint64_t size;

    (void)thread;
    if (!take_number(at, glog->end, 10, &size))
        return false;
    log->held -= size < log->held ? size : log->held; /* of a chunk from before the log */
    import_reserved(log->job->import, 0, log->held);
    return true;
}

static bool told_failure(struct log *log, const struct glog *glog, const char *at, uint32_t thread)
{
    return take_number(at, glog->end, 10, &request_of(log, thread)->failed) != NULL;
}

static bool told_oom(struct log *log, const struct glog *glog, const char *at, uint32_t thread)
{
    struct import_block request = {.thread = thread, .size = request_of(log, thread)->failed};

    (void)glog;
    (void)at;
    import_oom(log->job->import, &request, UINT64_MAX);
    return true;
}

static void read_allocator(struct log *log, const char *line, const struct glog *glog)
{
    static const struct {
        const char *begins;
        bool (*told)(struct log *log, const struct glog *glog, const char *at, uint32_t thread);
        const char *wanted;
    } messages[] = {
            {"Alloc ", told_alloc, "here should stand: SIZE bytes, ptr = ADDRESS"},
            {"Free chunk with size ", told_chunk_free, "here should stand a size"},
            {"Free ", told_free, "here should stand: SIZE bytes, ptr = ADDRESS"},
            {"Allocate ", told_request, ""},
            {"Not found and reallocate ", told_growth, "here should stand a size"},
            {"Allocation failed when allocating ", told_failure, "here should stand a size"},
            {"Still allocation failed", told_oom, ""},
    };

    import_time(log->job->import, glog->time_ns);
    for (size_t i = 0; i < CMD_COUNT(messages); i++) {
        const char *at = take_text(glog->message, glog->end, messages[i].begins);

        if (!at)
            continue;
        if (!messages[i].told(log, glog, at, import_thread(log->job->import, glog->thread)))
            tell_bad(log, (size_t)(at - line) + 1, messages[i].wanted);
        return;
    }
}

/* ---- lines ---- */

static void read_anchor(struct log *log, const char *line, size_t length, const struct glog *glog)
{
    const struct loglines *patterns = &log->job->patterns;
    struct loglines_word word;

    if (length > LOGLINES_LINE_MAX)
        return;
    for (uint32_t i = 0; i < patterns->count; i++) {
        uint32_t thread = NOBODY;

        if (!loglines_match(patterns, i, line, length, &word))
            continue;
        if (glog) {
            import_time(log->job->import, glog->time_ns);
            thread = import_thread(log->job->import, glog->thread);
        }
        struct import_text name = {word.name, word.name_length};
        if (word.kind == LOGLINES_ENTER)
            import_enter(log->job->import, thread, i, true, name);
        else
            import_leave(log->job->import, thread, i, word.name ? &name : NULL);
    }
}

static void read_line(void *self, const char *line, size_t length)
{
    struct log *log = self;
    struct glog glog;
    bool has_prefix = read_prefix(log, line, line + length, &glog);

    log->line++;
    if (has_prefix && is_of_allocator(&glog))
        read_allocator(log, line, &glog);
    else
        read_anchor(log, line, length, has_prefix ? &glog : NULL);
    if ((log->line & 0xfff) == 0 && log->all_bytes)
        progress_step(log->done_bytes, log->all_bytes);
}

/* Lines of the buffer, which has `length` bytes; returns how many are left over, at its beginning. */
static size_t read_buffer(struct log *log, char *buffer, size_t length, bool *io_is_cut)
{
    char *at = buffer;
    char *end = buffer + length;
    char *newline;

    while ((newline = memchr(at, '\n', (size_t)(end - at)))) {
        if (!*io_is_cut)
            read_line(log, at, (size_t)(newline - at));
        *io_is_cut = false;
        at = newline + 1;
    }
    if (at == buffer && length == BUFFER_BYTES) { /* all of it is one line */
        if (!*io_is_cut)
            read_line(log, at, length);
        *io_is_cut = true;
        return 0;
    }
    memmove(buffer, at, (size_t)(end - at));
    return (size_t)(end - at);
}

/* The last line may lack its end: a log that was cut off. Then it is none. */
static int read_lines(struct log *log)
{
    char *buffer = vec_new(BUFFER_BYTES, 1);
    bool is_cut = false;
    size_t used = 0;
    size_t got;

    while ((got = fread(buffer + used, 1, BUFFER_BYTES - used, log->job->in)) > 0) {
        log->done_bytes += got;
        used = read_buffer(log, buffer, used + got, &is_cut);
    }
    if (used || is_cut)
        import_cut_off(log->job->import);
    free(buffer);
    if (!ferror(log->job->in))
        return CMD_DONE;
    (void)fprintf(stderr, "kedge import: %s: %s\n", log->job->path, strerror(errno));
    return CMD_BAD;
}

static int tell_result(const struct log *log)
{
    struct import *import = log->job->import;

    if (log->bad_line) {
        progress_end();
        (void)fprintf(stderr, "kedge import: %s:%" PRIu64 ":%zu: %s\n", log->job->path,
                log->bad_line, log->bad_column, log->bad_what);
        import_note(import, 2,
                "line %" PRIu64 ", column %zu of the log, the first of those that make no "
                "sense: %s",
                log->bad_line, log->bad_column, log->bad_what);
    }
    if (log->blocks == 0) {
        progress_end();
        (void)fprintf(stderr,
                "kedge import: %s: nothing in it is known: no pickle, no csv of allocations, and "
                "no "
                "line of Paddle's allocator (GLOG_v=10)\n",
                log->job->path);
        return CMD_BAD;
    }
    if (!log->is_held_known)
        import_note(import, 0, "the log does not say what the allocator held");
    return CMD_DONE;
}

int import_paddle(struct import_job *job)
{
    struct log log = {.job = job, .all_bytes = job->size};
    int r = read_lines(&log);

    if (r == CMD_DONE)
        r = tell_result(&log);
    free(log.requests);
    return r;
}
