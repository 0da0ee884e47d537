/* SPDX-License-Identifier: MIT */
#include "tracker/reader/readpart.h"

#include <string.h>

/* The sums of the header, the live table, the places and the log are four accounts of one run. The
 * library writes an event, then the live table, then totals and places, so if a process is killed
 * in between they differ by its threads' operations in progress. A larger difference is damage,
 * although each record has its sum: some are missing, or belong to another run. */
struct tally {
    struct reader *reader;
    const struct read_capture *capture;
    bool is_ours;        /* written by the library; a file of kedge import has fewer accounts */
    uint64_t operations; /* possible operations in progress, */
    uint64_t bytes;      /* and their possible bytes */
};

/* Sums of live memory or of places. */
struct account {
    uint64_t bytes, count;                     /* live */
    uint64_t allocated_bytes, allocated_count; /* places */
    uint64_t on[FORMAT_DEVICES_MAX];           /* live bytes */
    bool is_elsewhere;                         /* some are on a device without totals */
};

#define AGENTS_UNKNOWN 16u /* threads assumed for a run whose mode does not name them */

static void say_differs(const struct tally *tally, uint64_t by, uint64_t slack)
{
    if (by > slack)
        (void)reader_leave_out(tally->reader, READ_AREA_TOTALS);
    else if (by > 0)
        tally->reader->capture->torn++;
}

static void readtally_is_same(
        const struct tally *tally, uint64_t one, uint64_t other, uint64_t slack)
{
    say_differs(tally, one > other ? one - other : other - one, slack);
}

static void is_at_most(const struct tally *tally, uint64_t least, uint64_t most, uint64_t slack)
{
    say_differs(tally, least > most ? least - most : 0, slack);
}

/* ---- the accounts --------------------------------------------------------------------------- */

static void add_live(struct account *account, int device, uint64_t bytes, uint64_t count)
{
    account->bytes += bytes;
    account->count += count;
    if (device >= 0 && device < (int)FORMAT_DEVICES_MAX)
        account->on[device] += bytes;
    else
        account->is_elsewhere |= bytes > 0;
}

static struct account live_account(const struct read_capture *capture)
{
    struct account account = {0};

    for (size_t i = 0; i < capture->live_count; i++)
        add_live(&account, capture->live[i].device, capture->live[i].size, 1);
    return account;
}

static struct account places_account(const struct read_capture *capture)
{
    struct account account = {0};

    for (size_t i = 0; i < capture->place_count; i++) {
        const struct read_place *place = &capture->place[i];

        add_live(&account, place->device, place->live_bytes, place->live_count);
        account.allocated_bytes += place->allocated_bytes;
        account.allocated_count += place->allocated_count;
    }
    return account;
}

/* The largest possible amount in progress: none if the only thread has ended. */
static void measure_slack(struct tally *tally)
{
    const struct read_capture *capture = tally->capture;
    bool has_log = capture->trace == FORMAT_TRACE_RING || capture->trace == FORMAT_TRACE_FULL;
    uint64_t largest = tally->reader->logged.largest;

    for (size_t i = 0; i < capture->live_count; i++)
        largest = capture->live[i].size > largest ? capture->live[i].size : largest;
    tally->operations = has_log ? capture->thread_count : AGENTS_UNKNOWN;
    if (has_log && capture->thread_count <= 1)
        tally->operations = capture->state == FORMAT_STATE_CLEAN ? 0 : 1;
    tally->bytes = largest < UINT64_MAX / (AGENTS_UNKNOWN + tally->operations)
            ? tally->operations * largest
            : 0;
}

/* ---- the comparisons ------------------------------------------------------------------------ */

static void check_one(const struct tally *tally, const struct format_totals *totals)
{
    uint64_t bytes = tally->bytes;

    readtally_is_same(
            tally, totals->live_bytes, totals->allocated_bytes - totals->freed_bytes, bytes);
    is_at_most(tally, totals->freed_count, totals->allocated_count, tally->operations);
    is_at_most(tally, totals->live_bytes, totals->peak_bytes, bytes);
    is_at_most(tally, totals->live_hinted_bytes, totals->live_bytes, bytes);
    is_at_most(tally, totals->peak_hinted_bytes, totals->peak_bytes, bytes);
    is_at_most(tally, totals->peak_bytes, totals->allocated_bytes, bytes);
    is_at_most(tally, totals->hinted_freed_bytes, totals->allocated_bytes, bytes);
    is_at_most(tally, totals->hinted_freed_count, totals->allocated_count, tally->operations);
    is_at_most(tally, totals->reserved_bytes, totals->peak_reserved_bytes, 0);
}

/* The devices together equal the total, unless some memory is on other devices. */
static void check_devices(const struct tally *tally)
{
    const struct read_capture *capture = tally->capture;
    const struct format_totals *all = &capture->total;
    struct format_totals sum = {0};

    for (unsigned i = 0; i < FORMAT_DEVICES_MAX; i++) {
        const struct format_totals *one = &capture->device_total[i];

        check_one(tally, one);
        readtally_is_same(tally, capture->high[i].bytes, one->peak_bytes, tally->bytes);
        is_at_most(tally, one->peak_bytes, all->peak_bytes, tally->bytes);
        is_at_most(tally, one->peak_reserved_bytes, all->peak_reserved_bytes, 0);
        sum.allocated_bytes += one->allocated_bytes;
        sum.allocated_count += one->allocated_count;
        sum.freed_bytes += one->freed_bytes;
        sum.freed_count += one->freed_count;
        sum.hinted_freed_bytes += one->hinted_freed_bytes;
        sum.hinted_freed_count += one->hinted_freed_count;
        sum.peak_bytes += one->peak_bytes;
    }
    readtally_is_same(tally, sum.allocated_bytes, all->allocated_bytes, tally->bytes);
    readtally_is_same(tally, sum.allocated_count, all->allocated_count, tally->operations);
    readtally_is_same(tally, sum.freed_bytes, all->freed_bytes, tally->bytes);
    readtally_is_same(tally, sum.freed_count, all->freed_count, tally->operations);
    readtally_is_same(tally, sum.hinted_freed_bytes, all->hinted_freed_bytes, tally->bytes);
    readtally_is_same(tally, sum.hinted_freed_count, all->hinted_freed_count, tally->operations);
    is_at_most(tally, all->peak_bytes, sum.peak_bytes, tally->bytes);
}

static void check_classes(const struct tally *tally)
{
    const struct read_capture *capture = tally->capture;
    struct format_class sum = {0};

    for (unsigned i = 0; i < FORMAT_CLASSES_MAX; i++) {
        const struct format_class *one = &capture->class_total[i];

        is_at_most(tally, one->live_bytes, one->peak_bytes, tally->bytes);
        is_at_most(tally, one->peak_bytes, one->allocated_bytes, tally->bytes);
        if (i >= MEMCLASS_DEVICE_END)
            continue;
        sum.allocated_bytes += one->allocated_bytes;
        sum.allocated_count += one->allocated_count;
        sum.live_bytes += one->live_bytes;
        sum.live_count += one->live_count;
    }
    readtally_is_same(tally, sum.allocated_bytes, capture->total.allocated_bytes, tally->bytes);
    readtally_is_same(
            tally, sum.allocated_count, capture->total.allocated_count, tally->operations);
    readtally_is_same(tally, sum.live_bytes, capture->total.live_bytes, tally->bytes);
    readtally_is_same(tally, sum.live_count,
            capture->total.allocated_count - capture->total.freed_count, tally->operations);
}

static void check_live(const struct tally *tally, const struct account *live)
{
    const struct format_totals *total = &tally->capture->total;

    readtally_is_same(tally, live->bytes, total->live_bytes, tally->bytes);
    readtally_is_same(
            tally, live->count, total->allocated_count - total->freed_count, tally->operations);
    for (unsigned i = 0; i < FORMAT_DEVICES_MAX; i++)
        readtally_is_same(
                tally, live->on[i], tally->capture->device_total[i].live_bytes, tally->bytes);
}

static void check_places(const struct tally *tally, const struct account *places)
{
    const struct format_totals *total = &tally->capture->total;

    readtally_is_same(tally, places->bytes, total->live_bytes, tally->bytes);
    readtally_is_same(
            tally, places->count, total->allocated_count - total->freed_count, tally->operations);
    readtally_is_same(tally, places->allocated_bytes, total->allocated_bytes, tally->bytes);
    readtally_is_same(tally, places->allocated_count, total->allocated_count, tally->operations);
}

static void check_log(const struct tally *tally)
{
    const struct read_capture *capture = tally->capture;
    const struct format_lost *lost = &capture->lost;
    const struct read_logged *log = &tally->reader->logged;
    uint64_t frees = log->frees - lost->unknown_frees + lost->implied_frees;

    is_at_most(tally, log->newest_seq, capture->last_seq, 0);
    if (capture->trace == FORMAT_TRACE_FULL)
        readtally_is_same(tally, lost->events_recycled + lost->recycled_seq, 0, 0);
    if (!capture->has_all_events || capture->bad_records > 0) {
        is_at_most(tally, log->allocs, capture->total.allocated_count, tally->operations);
        return;
    }
    readtally_is_same(tally, log->chunks, log->newest_chunk, 0);
    readtally_is_same(tally, log->allocs, capture->total.allocated_count, tally->operations);
    readtally_is_same(tally, log->alloc_bytes, capture->total.allocated_bytes, tally->bytes);
    readtally_is_same(tally, frees, capture->total.freed_count, tally->operations);
    readtally_is_same(tally, log->failures, capture->oom_count, tally->operations);
}

static void check_failures(const struct tally *tally)
{
    const struct read_capture *capture = tally->capture;
    uint64_t most = FORMAT_OOM_FIRST + FORMAT_OOM_LAST;
    uint64_t kept = capture->oom_count < most ? capture->oom_count : most;

    readtally_is_same(tally, capture->oom_record_count, kept, tally->operations);
    if (capture->oom_record_count > 0)
        is_at_most(
                tally, capture->oom[capture->oom_record_count - 1].number, capture->oom_count, 0);
    if (capture->state == FORMAT_STATE_OOM)
        is_at_most(tally, 1, capture->oom_count, 0);
}

/* A definition is written before records that name it: a number beyond the last one names a missing
 * definition. */
static void check_numbers(const struct tally *tally)
{
    const struct read_private *private = tally->capture->private;
    const struct read_logged *log = &tally->reader->logged;
    bool is_missing = log->string > private->strings || log->node > private->nodes
            || log->pynode > private->pynodes;

    if (is_missing)
        (void)reader_leave_out(tally->reader, READ_AREA_DEFS);
}

/* Does the process still write? Then the accounts are from different times. */
static bool is_running(const struct reader *reader)
{
    struct format_header now;

    return reader_is_moving(reader)
            && (!reader_fetch(&reader->source, 0, &now, sizeof now)
                    || memcmp(&now.total, &reader->header.total, sizeof now.total) != 0
                    || now.last_seq != reader->header.last_seq);
}

void read_tally(struct reader *reader)
{
    struct tally tally = {
            .reader = reader, .capture = reader->capture, .is_ours = reader->capture->pid != 0};
    const struct format_lost *lost = &tally.capture->lost;
    struct account live = live_account(tally.capture);
    struct account places = places_account(tally.capture);
    bool is_whole = lost->live_dropped == 0 && tally.capture->places_lost == 0
            && lost->events_dropped == 0 && lost->defs_dropped == 0;

    if (is_running(reader))
        return;
    if (lost->defs_dropped == 0)
        check_numbers(&tally);
    if (!tally.is_ours)
        return;
    measure_slack(&tally);
    check_one(&tally, &tally.capture->total);
    check_classes(&tally);
    check_log(&tally);
    if (lost->live_dropped == 0)
        check_live(&tally, &live);
    if (tally.capture->places_lost == 0)
        check_places(&tally, &places);
    if (is_whole)
        check_failures(&tally);
    if (!live.is_elsewhere && !places.is_elsewhere)
        check_devices(&tally);
}
