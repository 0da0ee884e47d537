/* SPDX-License-Identifier: MIT */
/*
 * Logs of Paddle's allocator, GLOG_v=10 (or GLOG_vmodule='auto_growth*=10'), mixed with other
 * output of the program:
 *
 *     I0721 08:12:01.215407  4711 auto_growth_best_fit_allocator.cc:106] Allocate 3538900 bytes, aligned to 3538944, extra size 0
 *     I0721 08:12:01.215421  4711 auto_growth_best_fit_allocator.cc:166] Not found and reallocate 3538944(0x7f2c40000000), and remaining 0
 *     I0721 08:12:01.215430  4711 auto_growth_best_fit_allocator.cc:178] Alloc 3538944 bytes, ptr = 0x7f2c40000000
 *     I0721 08:12:01.218804  4711 auto_growth_best_fit_allocator.cc:187] Free 3538944 bytes, ptr = 0x7f2c40000000
 *     I0721 08:12:01.219011  4711 auto_growth_best_fit_allocator.cc:234] Free chunk with size 3538944
 *
 * These five lines have all the data. Alloc and Free have the size that the allocator rounds to;
 * the requested size is in the thread's line before (Paddle 2.6 and later). "Not found" and "Free
 * chunk" give the memory that the allocator holds. Device and stream are not in the log.
 * auto_growth_best_fit_allocator_v2.cc and zero_fragmentation_allocator.cc write the same lines.
 * The line numbers differ from version to version, so they are ignored.
 *
 * When memory runs out, stream_safe_cuda_allocator.cc writes the requested size, its attempts to
 * free memory, and then the failure. Above it, retry_allocator.cc waits and asks once more: a
 * request may fail twice.
 *
 *     I0721 08:12:02.100005  4711 stream_safe_cuda_allocator.cc:195] Allocation failed when allocating 8589934592 bytes
 *     I0721 08:12:02.100052  4711 stream_safe_cuda_allocator.cc:247] Release 0 bytes memory from all streams
 *     I0721 08:12:02.100055  4711 auto_growth_best_fit_allocator.cc:70] Allocate 8589934592 bytes, aligned to 8589934592
 *     I0721 08:12:02.130121  4711 stream_safe_cuda_allocator.cc:200] Still allocation failed after release memory from all streams
 *
 * A line of the logger is read wherever it begins: after a progress bar or another text without a
 * line end, after the prefix of a launcher, in colour. A launcher's prefix of each line names the
 * process that wrote it:
 *
 *     0: I0721 ...                             srun -l
 *     [1,0]<stderr>:I0721 ...                  mpirun --tag-output
 *     [default0]:I0721 ...                     torchrun
 *     [pod/train-0/main] 2026-07-21T08:12:01.215407123Z I0721 ...    kubectl logs --prefix --timestamps
 *     [pod/train-0/main] [default0]:I0721 ...                        one within the other
 *
 * Without a prefix, threads are of one process if one frees a block that the other has allocated.
 * If an address is live twice, in threads not shown to be of one process, they are of two. That is
 * known at the end: with several processes the log is read once more, and each is a device of the
 * capture.
 *
 * All other lines may be anchors (tracker/where/loglines.h). A line without the logger's prefix
 * belongs to no known thread: a range that it opens applies to every thread without an open range.
 */
#include "tools/import/import.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/base/cmdexit.h"
#include "tools/base/keytable.h"
#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tracker/format/format.h"

#define BUFFER_BYTES (1u << 18) /* a longer line is cut, and its rest is skipped */
#define NOBODY       0u /* the thread of lines without a prefix: no thread has this number */
#define DAY_SECONDS  86400
#define PREFIX_MAX   128u
#define HEAD_MAX     512u /* bytes of a logger's line up to the end of its file's name */

/* A request of a thread, until the line with the address comes. */
struct request {
    uint64_t size, aligned;
    uint64_t failed; /* bytes that were not available at once */
};

/* Finds the year of dates without one, from the first date of the log, counted from 0. */
struct year {
    unsigned number, month;
    unsigned leap; /* the year that has a 29 February, from 1; 0 = none */
};

struct log {
    struct import_job *job;
    uint64_t line, done_bytes, all_bytes;
    struct request *requests; /* by thread */
    size_t request_count, request_room;
    uint64_t *held; /* by process */
    size_t held_count, held_room;
    bool is_held_known; /* the log has the allocator's requests to the driver */
    uint64_t blocks;    /* lines about a block */
    uint64_t silent;    /* lines of the allocator without relevant data */
    uint64_t grown;     /* lines about held memory */
    uint64_t others;    /* lines of other allocators, and the file of the first of them */
    char other[64];
    char day[9]; /* digits of the last date, and its begin */
    uint64_t day_began;
    struct year year;
    struct keytable prefixes; /* launchers' prefixes of lines -> number, from 0 */
    struct vec_texts names;   /* of the prefixes */
    struct keytable spaces;   /* (has a prefix, number of the prefix or the thread) -> number */
    struct log_space {
        uint64_t thread; /* the first one in the log */
        uint32_t prefix;
    } * space;
    size_t space_count, space_room;
    struct log_pair {
        uint32_t one, other;
    } * pairs; /* spaces that had a block each at one address */
    size_t pair_count, pair_room;
    struct keytable pair_numbers;
    uint32_t prefix; /* of this line, from 1; 0 = none */
    uint64_t bad_line;
    size_t bad_column;
    const char *bad_what;
};

/* One line of a logger, with its message. */
struct glog {
    const char *begin, *file, *message, *end;
    size_t file_length;
    uint64_t thread, time_ns;
};

/* ---- a line's parts; each function takes one and returns the rest, NULL: another text */

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

static const char *import_paddle_take_number(
        const char *at, const char *end, unsigned base, uint64_t *ret)
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

static const char *import_paddle_take_text(const char *at, const char *end, const char *text)
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
        at = import_paddle_take_text(at, end, parts[i].behind);
    }
    if (at)
        at = take_digits(at, end, 6, &number);
    *ret_ns += at ? number * 1000 : 0;
    return at;
}

/*
 * Days from the beginning of the first year to a date without a year. From December to January a
 * year passes; a line of another thread may come late. From a 29 February on, that year has a day
 * more.
 */
static uint64_t days_to(struct year *year, unsigned month, unsigned day)
{
    static const unsigned before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};

    if (year->month && month + 6 <= year->month)
        year->number++;
    else if (year->month && year->month + 6 <= month && year->number > 0)
        year->number--;
    year->month = month;
    if (month == 2 && day == 29)
        year->leap = year->number + 1;
    return UINT64_C(365) * year->number + before[month - 1] + day - 1
            + (year->leap
                    && (year->number + 1 > year->leap
                            || (year->number + 1 == year->leap && month > 2)));
}

/* The begin of a date, in seconds since 1970, or since the beginning of an unknown year. */
static uint64_t day_began(struct log *log, uint64_t date, bool has_year)
{
    unsigned month = (unsigned)(date / 100 % 100);
    unsigned day = (unsigned)(date % 100);
    struct tm parts = {
            .tm_year = (int)(date / 10000) - 1900, .tm_mon = (int)month - 1, .tm_mday = (int)day};
    time_t began;

    if (month < 1 || month > 12 || day < 1)
        return 0;
    if (!has_year)
        return days_to(&log->year, month, day) * DAY_SECONDS;
    began = timegm(&parts);
    return began > 0 ? (uint64_t)began : 0;
}

/* Month and day, in later versions after the year. */
static const char *take_day(struct log *log, const char *at, const char *end, uint64_t *ret_ns)
{
    size_t digits = 0;
    uint64_t day;

    while (at + digits < end && digits < 9 && isdigit((unsigned char)at[digits]))
        digits++;
    if ((digits != 4 && digits != 8) || !take_digits(at, end, digits, &day))
        return NULL;
    if (strlen(log->day) != digits || memcmp(log->day, at, digits) != 0) {
        memcpy(log->day, at, digits);
        log->day[digits] = '\0';
        log->day_began = day_began(log, day, digits == 8);
    }
    *ret_ns = log->day_began * UINT64_C(1000000000);
    return at + digits;
}

/* "I0721 08:12:01.215407  4711 file.cc:106] message" */
static bool read_prefix(struct log *log, const char *line, const char *end, struct glog *ret_glog)
{
    const char *at = take_blanks(line, end);
    uint64_t day_ns;
    uint64_t number;

    *ret_glog = (struct glog){.begin = line};
    if (at == end || !memchr("IWEF", *at, 4))
        return false;
    at = take_day(log, at + 1, end, &day_ns);
    at = import_paddle_take_text(at, end, " ");
    if (at)
        at = take_time(at, end, &ret_glog->time_ns);
    at = import_paddle_take_text(at, end, " ");
    if (at)
        at = import_paddle_take_number(take_blanks(at, end), end, 10, &ret_glog->thread);
    at = import_paddle_take_text(at, end, " ");
    ret_glog->file = at;
    at = at ? memchr(at, ':', (size_t)(end - at)) : NULL;
    if (!at)
        return false;
    ret_glog->file_length = (size_t)(at - ret_glog->file);
    at = import_paddle_take_text(import_paddle_take_number(at + 1, end, 10, &number), end, "]");
    if (!at)
        return false;
    ret_glog->message = take_blanks(at, end);
    ret_glog->end = end;
    ret_glog->time_ns += day_ns;
    return true;
}

static struct import_text import_paddle_name_of(const struct glog *glog)
{
    const char *slash = memrchr(glog->file, '/', glog->file_length);
    const char *name = slash ? slash + 1 : glog->file;

    return (struct import_text){name, glog->file_length - (size_t)(name - glog->file)};
}

static bool is_of_allocator(const struct glog *glog)
{
    static const char *const files[] = {"auto_growth_best_fit_allocator.cc",
            "auto_growth_best_fit_allocator_v2.cc", "zero_fragmentation_allocator.cc",
            "stream_safe_cuda_allocator.cc"};
    struct import_text name = import_paddle_name_of(glog);

    for (size_t i = 0; i < CMD_COUNT(files); i++)
        if (strlen(files[i]) == name.length && memcmp(files[i], name.at, name.length) == 0)
            return true;
    return false;
}

/* ---- the begin of a line ---- */

/* "ESC [0;32m", a colour of a terminal */
static const char *take_colour(const char *at, const char *end)
{
    at = import_paddle_take_text(at, end, "\033[");
    while (at && at < end && (isdigit((unsigned char)*at) || *at == ';'))
        at++;
    return import_paddle_take_text(at, end, "m");
}

/* "2026-07-21T08:12:01.215407123Z " */
static const char *take_timestamp(const char *at, const char *end)
{
    static const char form[] = "dddd-dd-ddTdd:dd:dd";

    for (size_t i = 0; form[i]; i++, at++)
        if (at == end || (form[i] == 'd' ? !isdigit((unsigned char)*at) : *at != form[i]))
            return NULL;
    while (at < end && (isdigit((unsigned char)*at) || memchr(".,:+-Z", *at, 6)))
        at++;
    return import_paddle_take_text(at, end, " ");
}

/* "0: ", "[1,0]<stderr>:", "[default0]:", "[pod/name/container] "; *ret_name_end: of the name. */
static const char *take_process(const char *at, const char *end, const char **ret_name_end)
{
    const char *close = at < end && *at == '[' ? memchr(at, ']', (size_t)(end - at)) : NULL;
    const char *behind;
    uint64_t number;

    if (!close) {
        *ret_name_end = import_paddle_take_number(at, end, 10, &number);
        return *ret_name_end ? import_paddle_take_text(*ret_name_end, end, ": ") : NULL;
    }
    *ret_name_end = close + 1;
    if (import_paddle_take_text(at, end, "[pod/"))
        return import_paddle_take_text(close + 1, end, " ");
    if (!isdigit((unsigned char)close[-1]))
        return NULL;
    behind = import_paddle_take_text(close + 1, end, "<std");
    behind = behind ? memchr(behind, '>', (size_t)(end - behind)) : close;
    return import_paddle_take_text(behind ? behind + 1 : NULL, end, ":");
}

static const char *take_marks(const char *at, const char *end)
{
    const char *behind;

    while ((behind = take_colour(at, end)) || (behind = take_timestamp(at, end)))
        at = behind;
    return at;
}

/* One launcher may start another: most names before a line. */
#define NAMES_MAX 3u

/* The text after `count` names of a line, and these, with blanks between; NULL: there are fewer. */
static const char *take_names(
        const char *at, const char *end, unsigned count, char ret_name[static PREFIX_MAX])
{
    size_t used = 0;

    for (unsigned i = 0; i < count; i++) {
        const char *name_end;
        const char *behind = take_process(at, end, &name_end);
        size_t length = behind ? (size_t)(name_end - at) : 0;

        if (!behind || used + length + 2 > PREFIX_MAX)
            return NULL;
        if (used)
            ret_name[used++] = ' ';
        memcpy(ret_name + used, at, length);
        used += length;
        at = take_marks(behind, end);
    }
    ret_name[used] = '\0';
    return at;
}

/*
 * Takes the prefixes of launchers and terminals; finds the process that wrote the line. A possible
 * name of a process counts if a line of the logger follows it, here or earlier.
 */
static const char *take_launcher(struct log *log, const char *line, const char *end)
{
    const char *at = take_marks(line, end);
    struct glog glog;

    log->prefix = 0;
    for (unsigned count = NAMES_MAX; count > 0; count--) {
        char name[PREFIX_MAX];
        const char *behind = take_names(at, end, count, name);

        if (!behind
                || (!keytable_find(&log->prefixes, keytable_text(name))
                        && !read_prefix(log, behind, end, &glog)))
            continue;
        log->prefix = keytable_number(&log->prefixes, keytable_text(name)) + 1;
        if (log->prefix > log->names.count)
            (void)vec_add_text(&log->names, vec_text(name));
        return behind;
    }
    return at;
}

/* The logger's line whose file's name contains `inside`, at `from` or later. */
static bool find_head(struct log *log, const char *from, const char *inside, const char *end,
        struct glog *ret_glog)
{
    if (inside - from > HEAD_MAX)
        from = inside - HEAD_MAX;
    for (const char *at = inside; at >= from; at--)
        if (memchr("IWEF", *at, 4) && at + 1 < end && isdigit((unsigned char)at[1])
                && read_prefix(log, at, end, ret_glog) && ret_glog->file <= inside
                && inside < ret_glog->file + ret_glog->file_length)
            return true;
    return false;
}

/* ---- messages of the allocator ---- */

static struct request *request_of(struct log *log, uint32_t thread)
{
    while (log->request_count <= thread)
        VEC_PUSH(log->requests, log->request_count, log->request_room) = (struct request){0};
    return &log->requests[thread];
}

/* The first place is printed at the end, the others are counted. */
static void tell_bad(struct log *log, size_t column, const char *what)
{
    import_bad(log->job->import);
    if (log->bad_line)
        return;
    log->bad_line = log->line;
    log->bad_column = column;
    log->bad_what = what;
}

static void tell_other(struct log *log, const struct glog *glog)
{
    struct import_text name = import_paddle_name_of(glog);

    if (log->others++ == 0)
        (void)snprintf(log->other, sizeof log->other, "%.*s",
                (int)(name.length < sizeof log->other ? name.length : sizeof log->other), name.at);
}

/* "allocator.cc:178] Free ": its beginning is lost, or is part of another line. */
static bool is_headless(const char *at, const char *end)
{
    const char *message;
    uint64_t number;

    at = memmem(at, (size_t)(end - at), ".cc:", 4);
    message = at ? import_paddle_take_number(at + 4, end, 10, &number) : NULL;
    message = import_paddle_take_text(message, end, "] ");
    return import_paddle_take_text(message, end, "Alloc ")
            || import_paddle_take_text(message, end, "Free ");
}

/* The next line of the allocator, at `from` or later. */
static bool find_message(
        struct log *log, const char *line, const char *from, const char *end, struct glog *ret_glog)
{
    static const char word[] = "allocator";
    const char *at = from;

    while ((at = memmem(at, (size_t)(end - at), word, sizeof word - 1))) {
        bool has_head = find_head(log, from, at, end, ret_glog);

        if (has_head && is_of_allocator(ret_glog))
            return true;
        if (has_head)
            tell_other(log, ret_glog);
        else if (is_headless(at, end))
            tell_bad(log, (size_t)(at - line) + 1, "here a line of the allocator has no head");
        at += sizeof word - 1;
    }
    return false;
}

/* "3538944 bytes, ptr = 0x7f2c40000000" */
static const char *take_block(
        const char *at, const char *end, uint64_t *ret_size, uint64_t *ret_address)
{
    at = import_paddle_take_text(
            import_paddle_take_number(at, end, 10, ret_size), end, " bytes, ptr = ");
    if (!at)
        return NULL;
    if (import_paddle_take_text(at, end, "(nil)")) {
        *ret_address = 0;
        return at;
    }
    at = import_paddle_take_text(at, end, "0x") ? at + 2 : at;
    at = import_paddle_take_number(at, end, 16, ret_address);
    /* another text follows directly: the number may be cut */
    if (at && at < end && isalnum((unsigned char)*at))
        return NULL;
    return at && (*ret_size <= INT64_MAX) ? at : NULL;
}

/* Threads must prove to be of one process; with a launcher's names the processes are known. */
static uint32_t space_of(struct log *log, const struct glog *glog, uint32_t thread)
{
    struct key key = {log->prefix != 0, log->prefix ? log->prefix : thread, 0};
    uint32_t space = keytable_number(&log->spaces, key);

    if (space == log->space_count)
        VEC_PUSH(log->space, log->space_count, log->space_room) =
                (struct log_space){glog->thread, log->prefix};
    return space;
}

/* The process and its device, if there are several. */
static struct import_block import_paddle_block_of(
        struct log *log, const struct glog *glog, uint32_t thread)
{
    const struct import_processes *processes = &log->job->processes;
    struct import_block block = {.thread = thread, .space = space_of(log, glog, thread)};

    if (processes->count && block.space < processes->space_count) {
        block.space = processes->of_space[block.space];
        block.device = processes->list[block.space].device;
    }
    return block;
}

/* Two spaces with a block each at one address are two processes, unless a free shows otherwise. */
static void note_pair(struct log *log, const struct import_block *block)
{
    uint32_t other;

    if (log->job->processes.count || !import_live_elsewhere(log->job->import, block, &other))
        return;
    struct key key = {block->space, other, 0};
    if (keytable_number(&log->pair_numbers, key) == log->pair_count)
        VEC_PUSH(log->pairs, log->pair_count, log->pair_room) =
                (struct log_pair){block->space, other};
}

static bool told_alloc(struct log *log, const struct glog *glog, const char *at, uint32_t thread)
{
    struct import_block block = import_paddle_block_of(log, glog, thread);
    struct request *request = request_of(log, thread);

    if (!take_block(at, glog->end, &block.size, &block.address))
        return false;
    if (request->aligned == block.size && request->size <= block.size)
        block.size = request->size;
    *request = (struct request){0};
    log->blocks++;
    if (!block.address)
        return true;
    note_pair(log, &block);
    import_alloc(log->job->import, &block);
    return true;
}

static bool told_free(struct log *log, const struct glog *glog, const char *at, uint32_t thread)
{
    struct import_block block = import_paddle_block_of(log, glog, thread);

    if (!take_block(at, glog->end, &block.size, &block.address))
        return false;
    log->blocks++;
    if (!block.address)
        return true;
    if (!log->prefix && !log->job->processes.count
            && !import_is_live(log->job->import, block.address, block.space))
        import_join_by_free(log->job->import, &block);
    import_free(log->job->import, &block);
    return true;
}

/*
 * "3538900 bytes, aligned to 3538944"; its other form, "... from chunk size", adds nothing to
 * Alloc. A request that failed is tried again with such a line, so its failure is kept.
 */
static bool told_request(struct log *log, const struct glog *glog, const char *at, uint32_t thread)
{
    struct request *request = request_of(log, thread);
    uint64_t size;
    uint64_t aligned;

    at = import_paddle_take_number(at, glog->end, 10, &size);
    at = import_paddle_take_text(at, glog->end, " bytes, aligned to ");
    if (at && import_paddle_take_number(at, glog->end, 10, &aligned)) {
        request->size = size;
        request->aligned = aligned;
    }
    return true;
}

/* Bytes that the process of this line holds from the driver. */
static uint64_t *import_paddle_held_of(struct log *log, const struct import_block *of)
{
    size_t process = log->job->processes.count ? of->space : 0;

    while (log->held_count <= process)
        VEC_PUSH(log->held, log->held_count, log->held_room) = 0;
    return &log->held[process];
}

static bool told_growth(struct log *log, const struct glog *glog, const char *at, uint32_t thread)
{
    struct import_block of = import_paddle_block_of(log, glog, thread);
    uint64_t *held = import_paddle_held_of(log, &of);
    uint64_t size;

    if (!import_paddle_take_number(at, glog->end, 10, &size) || size > INT64_MAX - *held)
        return false;
    *held += size;
    log->grown++;
    log->is_held_known = true;
    import_reserved(log->job->import, of.device, *held);
    return true;
}

static bool told_chunk_free(
        struct log *log, const struct glog *glog, const char *at, uint32_t thread)
{
    struct import_block of = import_paddle_block_of(log, glog, thread);
    uint64_t *held = import_paddle_held_of(log, &of);
    uint64_t size;

    if (!import_paddle_take_number(at, glog->end, 10, &size))
        return false;
    log->grown++;
    *held -= size < *held ? size : *held; /* of a chunk from before the log */
    import_reserved(log->job->import, of.device, *held);
    return true;
}

static bool told_failure(struct log *log, const struct glog *glog, const char *at, uint32_t thread)
{
    return import_paddle_take_number(at, glog->end, 10, &request_of(log, thread)->failed) != NULL;
}

static bool told_oom(struct log *log, const struct glog *glog, const char *at, uint32_t thread)
{
    struct import_block request = import_paddle_block_of(log, glog, thread);

    (void)at;
    request.size = request_of(log, thread)->failed;
    import_oom(log->job->import, &request, UINT64_MAX);
    return true;
}

/* Threads of two processes may have the same number, on two machines. */
static uint32_t import_paddle_thread_of(const struct log *log, const struct glog *glog)
{
    return import_thread(log->job->import, glog->thread ^ (uint64_t)log->prefix << 32);
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
        const char *at = import_paddle_take_text(glog->message, glog->end, messages[i].begins);

        if (!at)
            continue;
        if (!messages[i].told(log, glog, at, import_paddle_thread_of(log, glog)))
            tell_bad(log, (size_t)(at - line) + 1, messages[i].wanted);
        return;
    }
    log->silent++;
}

/* ---- lines ---- */

static void read_anchor(struct log *log, const char *line, size_t length, const struct glog *glog)
{
    const struct loglines *patterns = &log->job->patterns;
    struct loglines_word word;

    if (length > LOGLINES_LINE_MAX)
        return;
    for (uint32_t i = 0; i < patterns->count; i++) {
        uint32_t group = i + log->prefix * patterns->count;
        uint32_t thread = NOBODY;

        if (!loglines_match(patterns, i, line, length, &word))
            continue;
        if (glog) {
            import_time(log->job->import, glog->time_ns);
            thread = import_paddle_thread_of(log, glog);
        }
        struct import_text name = {word.name, word.name_length};
        if (word.kind == LOGLINES_ENTER)
            import_enter(log->job->import, thread, group, true, name);
        else
            import_leave(log->job->import, thread, group, word.name ? &name : NULL);
    }
}

/* A line that is not the allocator's, as a terminal shows it: text before a CR is overwritten. */
static void read_text(struct log *log, const char *text, const char *end)
{
    const char *last = memrchr(text, '\r', (size_t)(end - text));
    struct glog glog;
    bool is_glog;

    text = last ? last + 1 : text;
    is_glog = read_prefix(log, text, end, &glog);
    read_anchor(log, text, (size_t)(end - text), is_glog ? &glog : NULL);
}

/* Without a terminal's line end: CR, and the sequence that ends a colour. */
static const char *import_paddle_trim(const char *line, const char *end)
{
    static const char *const ends[] = {"\r", "\033[m", "\033[0m"};

    for (size_t i = 0; i < CMD_COUNT(ends); i++) {
        size_t length = strlen(ends[i]);

        if ((size_t)(end - line) >= length && memcmp(end - length, ends[i], length) == 0)
            end -= length;
    }
    return end;
}

static void import_paddle_read_line(void *self, const char *line, size_t length)
{
    struct log *log = self;
    const char *end = import_paddle_trim(line, line + length);
    const char *text = take_launcher(log, line, end);
    struct glog here;
    struct glog next = {0};

    log->line++;
    bool is_there = find_message(log, line, text, end, &here);
    if (!is_there || text < here.begin)
        read_text(log, text, is_there ? here.begin : end);
    while (is_there) {
        is_there = find_message(log, line, here.message, end, &next);
        if (is_there)
            here.end = next.begin;
        read_allocator(log, line, &here);
        here = next;
    }
    if ((log->line & 0xfff) == 0 && log->all_bytes)
        progress_step(log->done_bytes, log->all_bytes);
}

/* Reads the lines of the buffer, `length` bytes; the rest, whose length it returns, comes first. */
static size_t read_buffer(struct log *log, char *buffer, size_t length, bool *io_is_cut)
{
    char *at = buffer;
    char *end = buffer + length;
    char *newline;

    while ((newline = memchr(at, '\n', (size_t)(end - at)))) {
        if (!*io_is_cut)
            import_paddle_read_line(log, at, (size_t)(newline - at));
        *io_is_cut = false;
        at = newline + 1;
    }
    if (at == buffer && length == BUFFER_BYTES) { /* all of it is one line */
        if (!*io_is_cut)
            import_paddle_read_line(log, at, length);
        *io_is_cut = true;
        return 0;
    }
    memmove(buffer, at, (size_t)(end - at));
    return (size_t)(end - at);
}

/* The last line may lack its end, if the log was cut off. Then it is ignored. */
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

/* No line is about a block: prints what the log has instead. */
static int tell_nothing(const struct log *log)
{
    char *has;

    if (log->grown || log->silent)
        has = vec_format("no line of Paddle's allocator says Alloc or Free, %s (%" PRIu64
                         "): GLOG_v=10 is needed",
                log->grown ? "only lines of growth" : "other lines of it are there",
                log->grown ? log->grown : log->silent);
    else if (log->others)
        has = vec_format("lines of other allocators alone (%" PRIu64 ", %s), which are not read: "
                         "FLAGS_allocator_strategy=auto_growth and GLOG_v=10 are needed",
                log->others, log->other);
    else
        has = vec_text(log->job->what ? log->job->what
                                      : "nothing in it is known: no pickle, no csv of allocations, "
                                        "and no line of Paddle's allocator (GLOG_v=10)");
    progress_end();
    (void)fprintf(stderr, "kedge import: %s: %s\n", log->job->path, has);
    free(has);
    return CMD_BAD;
}

/* ---- several processes ---- */

/* The process of a space; a new one if no related space has one yet. */
static uint32_t process_of(struct log *log, struct keytable *numbers, uint32_t space)
{
    struct import_processes *processes = &log->job->processes;
    uint32_t root = import_space(log->job->import, space);
    uint32_t number = keytable_number(numbers, (struct key){root, 0, 0});
    const struct log_space *of = &log->space[root];

    if (number == processes->count) {
        char *name = of->prefix ? vec_text(log->names.at[of->prefix - 1])
                                : vec_format("thread %" PRIu64, of->thread);
        VEC_PUSH(processes->list, processes->count, processes->room) =
                (struct import_process){name, (int)number};
    }
    return number;
}

/* The last number in "0", "[1,0]", "[default0]"; in a pod's name it may be anything. -1: none. */
static int rank_in(const char *name)
{
    const char *inner = strrchr(name, ' ');
    name = inner ? inner + 1 : name;
    size_t length = strlen(name);
    uint64_t rank;

    if (strncmp(name, "[pod/", 5) == 0 || length == 0)
        return -1;
    length -= name[length - 1] == ']';
    size_t first = length;
    while (first > 0 && isdigit((unsigned char)name[first - 1]))
        first--;
    if (!import_paddle_take_number(name + first, name + length, 10, &rank) || rank > 15)
        return -1;
    return (int)rank;
}

/* A rank's device gets the rank's number, if each has one. */
static void number_devices(struct import_processes *processes)
{
    uint32_t is_taken = 0;

    for (size_t i = 0; i < processes->count; i++) {
        int rank = processes->by_launcher ? rank_in(processes->list[i].name) : -1;
        if (rank < 0 || is_taken & 1u << rank)
            return;
        is_taken |= 1u << rank;
    }
    for (size_t i = 0; i < processes->count; i++)
        processes->list[i].device = rank_in(processes->list[i].name);
}

/* Whether these two have a block each at one address, at one time. */
static bool are_apart(const struct log *log, uint32_t one, uint32_t other)
{
    const struct import_processes *processes = &log->job->processes;

    for (size_t i = 0; i < log->pair_count; i++) {
        uint32_t a = processes->of_space[log->pairs[i].one];
        uint32_t b = processes->of_space[log->pairs[i].other];
        if ((a == one && b == other) || (a == other && b == one))
            return true;
    }
    return false;
}

static bool all_apart(const struct log *log)
{
    for (uint32_t i = 0; i < log->job->processes.count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (!are_apart(log, i, k))
                return false;
    return true;
}

/* Finds the processes; false: only one, as far as the log shows. */
static bool find_processes(struct log *log)
{
    struct import_processes *processes = &log->job->processes;
    struct keytable numbers = {0};
    bool is_several = keytable_count(&log->prefixes) > 1;

    processes->by_launcher = is_several;
    for (size_t i = 0; i < log->pair_count; i++)
        is_several = is_several
                || import_space(log->job->import, log->pairs[i].one)
                        != import_space(log->job->import, log->pairs[i].other);
    for (uint32_t i = 0; is_several && i < log->space_count; i++)
        VEC_PUSH(processes->of_space, processes->space_count, processes->space_room) =
                process_of(log, &numbers, i);
    keytable_done(&numbers);
    if (processes->count < 2) {
        import_processes_done(processes);
        return false;
    }
    number_devices(processes);
    processes->is_sure = processes->by_launcher || (processes->count < 64 && all_apart(log));
    return true;
}

static void tell_processes(const struct log *log)
{
    const struct import_processes *processes = &log->job->processes;
    struct import *import = log->job->import;

    if (processes->by_launcher)
        import_note(import, 1,
                "%zu processes wrote this log, by what a launcher put before its lines: each is a "
                "device here, and figures of no device are those of all of them together",
                processes->count);
    else
        import_note(import, 1,
                "two processes or more wrote this log: an address is live twice, of threads that "
                "free nothing of each other; each is a device here%s",
                processes->is_sure
                        ? ", and figures of no device are those of all of them together"
                        : ", and some of them may be of one process: nothing in the log tells");
    for (size_t i = 0; i < processes->count && i < FORMAT_DEVICES_MAX; i++)
        import_note(import, 0, "device %d is what %s wrote", processes->list[i].device,
                processes->list[i].name);
    if (processes->count > FORMAT_DEVICES_MAX)
        import_note(
                import, 1, "devices from %u on have no figures of their own", FORMAT_DEVICES_MAX);
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
    if (log->blocks == 0)
        return tell_nothing(log);
    if (log->job->processes.count)
        tell_processes(log);
    else if (keytable_count(&log->prefixes) > 1 || import_shared(import))
        import_note(import, 1,
                "several processes wrote this log, which is no regular file: the figures are "
                "those of all of them together");
    if (log->others)
        import_note(import, 0, "lines of other allocators are not read: %" PRIu64 ", of %s first",
                log->others, log->other);
    if (!log->is_held_known)
        import_note(import, 0, "the log does not say what the allocator held");
    return CMD_DONE;
}

static void log_done(struct log *log)
{
    keytable_done(&log->prefixes);
    keytable_done(&log->spaces);
    keytable_done(&log->pair_numbers);
    vec_free_texts(&log->names);
    free(log->requests);
    free(log->held);
    free(log->space);
    free(log->pairs);
}

int import_paddle(struct import_job *job)
{
    struct log log = {.job = job, .all_bytes = job->size};
    int r;

    if (job->processes.count)
        import_has_processes(job->import);
    r = read_lines(&log);
    if (r == CMD_DONE && job->size && !job->processes.count && find_processes(&log))
        r = IMPORT_AGAIN;
    if (r == CMD_DONE)
        r = tell_result(&log);
    log_done(&log);
    return r;
}
