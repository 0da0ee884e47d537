/* SPDX-License-Identifier: MIT */
#include "tools/ranks/ranksprint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/load/figures.h"
#include "tools/symbols/builds.h"
#include "tools/symbols/title.h"

#define ROWS_ALL      32 /* a job with more captures shows only the highest peaks */
#define NAMES_SHOWN   10
#define TITLES_BESIDE 20 /* call sites that are no rows */
/* Limits for a page. */
#define RANKS_ON_PAGE 1000
#define JOBS_ON_PAGE  10

/* ---- one sentence --------------------------------------------------------------------------- */

/* ", 1.20 GiB (31.6 %) more than the median rank (rank 0)" */
static char *beside_median(const struct rankjob *job)
{
    uint64_t peak = job->worst->peak_live;
    uint64_t median = job->peak.median;
    uint64_t away = peak > median ? peak - median : median - peak;
    char *middle = rankjob_name(job->peak.middle);
    char *text;

    if (away == 0)
        text = vec_format("as much as the median rank (%s)", middle);
    else if (median == 0)
        text = vec_format("and the median rank (%s) nothing", middle);
    else
        text = vec_format("%s (%.1f %%) %s than the median rank (%s)", render_bytes(away).text,
                100.0 * (double)away / (double)median, peak > median ? "more" : "less", middle);
    free(middle);
    return text;
}

/* "; most of it at Block.attend gpt.py:28 (1.10 GiB more)", "" if it is not more, or unknown */
static char *main_cause(const struct rankjob *job, char *const *titles)
{
    if (job->site_count == 0 || job->worst->peak_live <= job->peak.median)
        return vec_text("");
    return vec_format("; most of it at %s (%s more)", titles[0],
            render_bytes(job->sites[0].bytes - job->sites[0].median_bytes).text);
}

static size_t count_failures(const struct rankjob *job)
{
    size_t count = 0;

    for (size_t i = 0; i < job->rank_count; i++)
        count += job->ranks[i].sum->has_failed;
    return count;
}

static char *worst_sentence(const struct rankjob *job, char *const *titles)
{
    char *name = rankjob_name(job->worst);
    char *beside = beside_median(job);
    char *cause = main_cause(job, titles);
    size_t others = count_failures(job) - job->worst->has_failed;
    char *failure = !job->worst->has_failed ? vec_text("")
            : others
            ? vec_format(" it ran out of memory, as %zu other%s did;", others, render_s(others))
            : vec_text(" it ran out of memory;");
    char *text = vec_format("%s is the worst:%s %s at its peak, %s%s", name, failure,
            render_bytes(job->worst->peak_live).text, beside, cause);
    free(name);
    free(beside);
    free(cause);
    free(failure);
    return text;
}

static char *level_sentence(const struct rankjob *job)
{
    char *least = rankjob_name(job->peak.least);
    char *text = job->peak.min < job->peak.median
            ? vec_format(
                    "no rank holds more than the median rank: %s at its peak; %s holds least, %s",
                    render_bytes(job->peak.max).text, least, render_bytes(job->peak.min).text)
            : vec_format("no rank stands out: all %zu hold %s at their peak", job->rank_count,
                    render_bytes(job->peak.max).text);

    free(least);
    return text;
}

/*
 * A sentence about the worst rank and the reason; NULL: there is nothing to compare. The caller
 * frees it.
 */
static char *sentence(const struct rankjob *job, char *const *titles)
{
    if (job->rank_count < 2)
        return NULL;
    return job->worst ? worst_sentence(job, titles) : level_sentence(job);
}

/* ---- notes ---------------------------------------------------------------------------------- */

/* Its text follows, in column 6. */
static void ranksprint_begin_note(void)
{
    struct render_ink ink = render_ink(stdout);

    printf("%snote:%s ", ink.yellow, ink.off);
}

static void note_gaps(const struct rankjob *job)
{
    char *text = vec_text("no capture of rank");

    for (size_t i = 0; i < job->gap_count && i < NAMES_SHOWN; i++) {
        const struct rankjob_gap *gap = &job->gaps[i];
        const char *comma = i ? "," : "";
        char *longer = gap->first == gap->last
                ? vec_format("%s%s %" PRIu64, text, comma, gap->first)
                : vec_format("%s%s %" PRIu64 " to %" PRIu64, text, comma, gap->first, gap->last);
        free(text);
        text = longer;
    }
    if (job->gap_count) {
        ranksprint_begin_note();
        render_label_of(stdout, 6, 6, "%s%s", text, job->gap_count > NAMES_SHOWN ? ", ..." : "");
    }
    free(text);
}

static void note_twins(const struct rankjob *job)
{
    for (size_t i = 0; i < job->twins_count && i < NAMES_SHOWN; i++) {
        const struct rankjob_twins *twins = &job->twins[i];
        ranksprint_begin_note();
        render_label_of(stdout, 6, 6,
                "rank %s has %zu captures: %s%s; the one with the highest peak is compared",
                twins->first->rank, twins->count,
                twins->is_restart ? "it was started again" : "processes that ran at the same time",
                twins->has_hosts ? ", on several hosts" : "");
    }
    if (job->twins_count > NAMES_SHOWN) {
        ranksprint_begin_note();
        render_label_of(stdout, 6, 6, "%zu more ranks have several captures",
                job->twins_count - NAMES_SHOWN);
    }
}

static void note_incomplete(const struct rankjob *job)
{
    if (rankjob_is_complete(job))
        return;
    char *unread = job->unread
            ? vec_format("%zu capture%s could not be read", job->unread, render_s(job->unread))
            : vec_text("");
    const char *noun = job->unread ? "" : job->damaged == 1 ? " capture" : " captures";
    char *damaged = job->damaged ? vec_format("%zu%s %s damaged and not compared", job->damaged,
                            noun, job->damaged == 1 ? "is" : "are")
                                 : vec_text("");

    ranksprint_begin_note();
    render_label_of(
            stdout, 6, 6, "incomplete: %s%s%s", unread, *unread && *damaged ? ", " : "", damaged);
    free(unread);
    free(damaged);
}

/*
 * The libraries of a rank, as a trace without other data; the caller frees its modules, not their
 * content.
 */
static struct trace libraries_of(const struct ranksprint *print, const struct ranksum *sum)
{
    struct trace trace = {.modules = vec_new(sum->module_count, sizeof(*trace.modules)),
            .module_count = sum->module_count};

    for (size_t i = 0; i < sum->module_count; i++)
        trace.modules[i] = print->book->sites.trace->modules[sum->modules[i]];
    return trace;
}

static void note_builds(const struct ranksprint *print, const struct rankjob *job)
{
    struct trace middle = libraries_of(print, job->peak.middle);
    struct trace worst = libraries_of(print, job->worst);
    char *good = rankjob_name(job->peak.middle);
    char *bad = rankjob_name(job->worst);

    builds_print_as(stdout, &middle, &worst,
            &(struct builds_words){good, bad,
                    "its call sites are others, and count as more in the one and as less in the "
                    "other"});
    free(middle.modules);
    free(worst.modules);
    free(good);
    free(bad);
}

/* ---- the table of captures ------------------------------------------------------------------ */

static void ranksprint_print_bytes(uint64_t bytes)
{
    printf("  %10s", bytes == UINT64_MAX ? "?" : render_bytes(bytes).text);
}

static void ranksprint_print_count(uint64_t count, int width)
{
    if (count == UINT64_MAX)
        printf("  %*s", width, "?");
    else
        printf("  %*" PRIu64, width, count);
}

static void print_hinted(const struct ranksum *sum)
{
    if (sum->hint_count == 0 && sum->is_complete) {
        printf("  %10s  %7s  %5s", "-", "-", "-");
        return;
    }
    ranksprint_print_bytes(sum->peak_with_hints);
    ranksprint_print_count(sum->all.live_most, 7);
    ranksprint_print_count(sum->all.kept_most, 5);
}

static void print_capture(const struct ranksum *sum, bool holds)
{
    bool is_plain = strcmp(sum->end, "exited with status 0") == 0;
    const char *end = !sum->is_complete ? "damaged" : is_plain ? "" : sum->end;
    char *mode = sum->hint_count ? vec_format(" (%s)", hintwords_mode(sum->mode)) : vec_text("");
    const char *rank = *sum->rank ? sum->rank : "-";
    unsigned length = (unsigned)strlen(rank), pad = length < 4 ? 4 - length : 0;
    unsigned column = 56 + pad + length;

    printf("  %*s", (int)pad, "");
    render_text(stdout, rank);
    ranksprint_print_bytes(sum->peak_live);
    print_hinted(sum);
    if (holds) {
        column += 12;
        if (sum->holds || !sum->is_complete)
            ranksprint_print_bytes(sum->peak_held);
        else
            printf("  %10s", "-");
    }
    ranksprint_print_bytes(sum->peak_reserved);
    printf("  ");
    render_label_of(stdout, column, 8, "%s%s%s%s", sum->path + sum->folder_length, mode,
            *end ? ", " : "", end);
    free(mode);
}

/* Unknown values come last. */
static int ranksprint_highest_first(const void *left, const void *right)
{
    const struct ranksum *a = ((const struct rankjob_rank *)left)->sum;
    const struct ranksum *b = ((const struct rankjob_rank *)right)->sum;
    uint64_t x = a->peak_live + 1;
    uint64_t y = b->peak_live + 1;

    if (x != y)
        return x < y ? 1 : -1;
    return (a > b) - (a < b);
}

static void print_captures(const struct ranksprint *print, const struct rankjob *job, bool holds)
{
    struct rankjob_rank *rows = vec_new(job->count, sizeof(*rows));
    uint64_t shown = job->count;

    for (size_t i = 0; i < job->count; i++)
        rows[i].sum = &job->sums[i];
    if (job->count > ROWS_ALL) {
        VEC_SORT(rows, job->count, ranksprint_highest_first);
        shown = print->top < shown ? print->top : shown;
    }
    if (job->count && job->sums[0].folder_length)
        render_label_of(stdout, 0, 2, "%.*s", (int)job->sums[0].folder_length, job->sums[0].path);
    for (uint64_t i = 0; i < shown; i++)
        print_capture(rows[i].sum, holds);
    figures_print_more(job->count, shown, "capture");
    free(rows);
}

static void ranksprint_print_table(const struct ranksprint *print)
{
    struct render_ink ink = render_ink(stdout);
    bool holds = false;

    for (size_t i = 0; i < print->job_count; i++)
        for (size_t k = 0; k < print->jobs[i].count; k++)
            holds |= print->jobs[i].sums[k].holds;
    printf("  %s%4s  %10s  %10s  %7s  %5s%s  %10s  %s%s\n", ink.bold, "rank", "peak live",
            "with hints", "matched", "left", holds ? "        held" : "", "reserved", "capture",
            ink.off);
    for (size_t i = 0; i < print->job_count; i++)
        print_captures(print, &print->jobs[i], holds);
}

/* ---- sites of the worst rank, and anchors -------------------------------------------- */

static void ranksprint_print_sites(
        const struct ranksprint *print, const struct rankjob *job, char *const *titles)
{
    struct render_ink ink = render_ink(stdout);
    char *worst = rankjob_name(job->worst);
    char *middle = rankjob_name(job->peak.middle);

    printf("\n%s", ink.bold);
    render_label_of(stdout, 0, 2,
            "Live at the maximum of %s, and more than at that of %s, by call site", worst, middle);
    printf("%s  %11s %11s %11s\n", ink.off, "more", "worst", "median");
    for (size_t i = 0; i < job->site_count && i < print->top; i++) {
        const struct rankjob_site *site = &job->sites[i];
        printf("  %11s %11s %11s  ", render_bytes(site->bytes - site->median_bytes).text,
                render_bytes(site->bytes).text, render_bytes(site->median_bytes).text);
        render_label(stdout, titles[i], 39, 8);
    }
    figures_print_more(job->site_count, print->top, "call site");
    if (job->less)
        printf("  %11s less at other call sites\n", render_bytes(job->less).text);
    free(worst);
    free(middle);
}

static void print_spread(const char *name, const struct rankjob_spread *spread)
{
    printf("    %-18s %11s %11s %11s", name, render_bytes(spread->min).text,
            render_bytes(spread->median).text, render_bytes(spread->max).text);
}

static void ranksprint_print_anchor(const struct ranksprint *print, const struct rankjob *job,
        const struct rankjob_anchor *anchor)
{
    printf("  ");
    render_label(stdout, print->book->paths.at[anchor->path], 2, 4);
    print_spread("peak live while open", &anchor->peak);
    if (anchor->peak.ranks < job->rank_count)
        printf("  of %zu rank%s", anchor->peak.ranks, render_s(anchor->peak.ranks));
    putchar('\n');
    print_spread("remaining at exit", &anchor->left);
    putchar('\n');
    if (!anchor->outlier)
        return;
    char *name = rankjob_name(anchor->outlier);
    printf("    ");
    render_label_of(stdout, 4, 6, "%s: %s %s %s than the median", name,
            anchor->by_left ? "leaves" : "holds", render_bytes(anchor->away).text,
            anchor->is_below ? "less" : "more");
    free(name);
}

static void print_anchors(const struct ranksprint *print, const struct rankjob *job)
{
    struct render_ink ink = render_ink(stdout);

    printf("\n%s%-22s %11s %11s %11s%s\n", ink.bold, "Anchors, over ranks", "min", "median", "max",
            ink.off);
    if (job->anchor_count == 0)
        puts("  none on record");
    for (size_t i = 0; i < job->anchor_count && i < print->top; i++)
        ranksprint_print_anchor(print, job, &job->anchors[i]);
    figures_print_more(job->anchor_count, print->top, "anchor");
    if (job->partial)
        printf("  %zu capture%s without all anchors: events are missing%s\n", job->partial,
                job->partial == 1 ? " is" : "s are",
                job->untraced ? " (KEDGE_TRACE=full keeps all)" : "");
}

static bool is_listed(const struct rankjob *job, size_t shown, uint32_t stack)
{
    for (size_t i = 0; i < shown; i++)
        if (job->sites[i].stack == stack)
            return true;
    return false;
}

/*
 * Titles of the listed sites. Other sites of the worst rank are passed along, so that a function
 * through which all memory is allocated is no title even if few sites differ. title_done with
 * *ret_count frees them.
 */
static char **titles_of(
        const struct ranksprint *print, const struct rankjob *job, size_t *ret_count)
{
    size_t shown = job->site_count < print->top ? job->site_count : (size_t)print->top;
    size_t others = job->worst ? job->worst->site_count : 0;
    uint32_t *stacks = vec_new(shown + TITLES_BESIDE, sizeof(*stacks));
    size_t count = shown;

    for (size_t i = 0; i < shown; i++)
        stacks[i] = job->sites[i].stack;
    for (size_t i = 0; i < others && count < shown + TITLES_BESIDE; i++)
        if (!is_listed(job, shown, job->worst->sites[i].stack))
            stacks[count++] = job->worst->sites[i].stack;
    *ret_count = count;
    char **titles = title_rows(print->symbols, stacks, sizeof(*stacks), 0, count);
    free(stacks);
    return titles;
}

static void ranksprint_print_head(
        const struct ranksprint *print, const struct rankjob *job, char *const *titles)
{
    struct render_ink ink = render_ink(stdout);
    char *said = sentence(job, titles);
    bool is_one_of_many = print->job_count > 1 && job->sums[0].folder_length;

    if (said) {
        printf("%s", ink.bold);
        render_label_of(stdout, 0, 2, "%.*s%s%s",
                is_one_of_many ? (int)job->sums[0].folder_length : 0, job->sums[0].path,
                is_one_of_many ? ": " : "", said);
        printf("%s", ink.off);
    }
    note_incomplete(job);
    note_gaps(job);
    note_twins(job);
    if (job->worst)
        note_builds(print, job);
    free(said);
}

void ranksprint_text(const struct ranksprint *print)
{
    char ***titles = vec_new(print->job_count, sizeof(*titles));
    size_t *counts = vec_new(print->job_count, sizeof(*counts));

    for (size_t i = 0; i < print->job_count; i++) {
        titles[i] = titles_of(print, &print->jobs[i], &counts[i]);
        ranksprint_print_head(print, &print->jobs[i], titles[i]);
    }
    if (!print->by_anchor)
        ranksprint_print_table(print);
    for (size_t i = 0; i < print->job_count; i++) {
        if (print->by_anchor)
            print_anchors(print, &print->jobs[i]);
        else if (print->jobs[i].site_count)
            ranksprint_print_sites(print, &print->jobs[i], titles[i]);
        title_done(titles[i], counts[i]);
    }
    if (!print->by_anchor)
        figures_print_trouble(stdout, print->symbols);
    free((void *)titles);
    free(counts);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void json_matched(struct json *json, const struct ranksum_matched *matched)
{
    json_begin(json, NULL, '{');
    json_text(json, "id", matched->id);
    json_text(json, "mode", hintwords_mode(matched->mode));
    json_known(json, "peak_live_count", matched->live_most);
    json_known(json, "peak_with_hints_count", matched->kept_most);
    json_end(json, '}');
}

static void json_capture(struct json *json, const struct ranksum *sum)
{
    json_begin(json, NULL, '{');
    json_text(json, "rank", *sum->rank ? sum->rank : NULL);
    json_text(json, "capture", sum->path);
    json_text(json, "hostname", sum->host);
    json_uint(json, "pid", sum->pid);
    json_text(json, "ended", sum->end);
    json_bool(json, "clean", sum->is_clean);
    json_bool(json, "complete", sum->is_complete);
    json_known(json, "oom_count", sum->ooms);
    json_known(json, "peak_live_bytes", sum->peak_live);
    json_known(json, "peak_reserved_bytes", sum->peak_reserved);
    json_known(json, "peak_with_hints_bytes", sum->peak_with_hints);
    json_known(json, "peak_held_bytes", sum->peak_held);
    json_text(json, "hints_mode", sum->hint_count ? hintwords_mode(sum->mode) : NULL);
    json_begin(json, "hints", '[');
    for (size_t i = 0; i < sum->hint_count; i++)
        json_matched(json, &sum->hints[i]);
    json_end(json, ']');
    json_end(json, '}');
}

/* The capture of a rank by its file, NULL: none. */
static void json_which(struct json *json, const char *key, const struct ranksum *sum)
{
    json_text(json, key, sum ? sum->path : NULL);
}

static void json_spread(struct json *json, const char *key, const struct rankjob_spread *spread)
{
    json_begin(json, key, '{');
    json_uint(json, "ranks", spread->ranks);
    json_known(json, "min_bytes", spread->ranks ? spread->min : UINT64_MAX);
    json_known(json, "median_bytes", spread->ranks ? spread->median : UINT64_MAX);
    json_known(json, "max_bytes", spread->ranks ? spread->max : UINT64_MAX);
    json_which(json, "min_capture", spread->least);
    json_which(json, "median_capture", spread->middle);
    json_which(json, "max_capture", spread->most);
    json_end(json, '}');
}

static void ranksprint_json_sites(struct json *json, const struct ranksprint *print,
        const struct rankjob *job, char *const *titles, size_t count)
{
    json_begin(json, "sites", '[');
    for (size_t i = 0; i < count; i++) {
        const struct rankjob_site *site = &job->sites[i];
        json_begin(json, NULL, '{');
        json_text(json, "title", titles[i]);
        json_uint(json, "more_bytes", site->bytes - site->median_bytes);
        json_uint(json, "bytes", site->bytes);
        json_uint(json, "median_bytes", site->median_bytes);
        figures_json_stack(json, print->symbols, site->stack, "stack");
        json_end(json, '}');
    }
    json_end(json, ']');
    json_uint(json, "site_count", job->site_count);
    json_uint(json, "less_bytes", job->less);
}

static void json_anchors(
        struct json *json, const struct ranksprint *print, const struct rankjob *job)
{
    size_t shown = json_begin_rows(json, "anchors", job->anchor_count, 0);

    for (size_t i = 0; i < shown; i++) {
        const struct rankjob_anchor *anchor = &job->anchors[i];
        json_begin(json, NULL, '{');
        json_text(json, "name", print->book->paths.at[anchor->path]);
        json_spread(json, "peak_live", &anchor->peak);
        json_spread(json, "remaining", &anchor->left);
        json_which(json, "outlier", anchor->outlier);
        json_text(json, "outlier_by",
                !anchor->outlier          ? NULL
                        : anchor->by_left ? "remaining"
                                          : "peak_live");
        json_int(json, "outlier_more_bytes",
                anchor->is_below ? -(int64_t)anchor->away : (int64_t)anchor->away);
        json_end(json, '}');
    }
    json_end(json, ']');
}

static void json_gaps(struct json *json, const struct rankjob *job)
{
    json_begin(json, "missing_ranks", '[');
    for (size_t i = 0; i < job->gap_count; i++) {
        json_begin(json, NULL, '{');
        json_uint(json, "first", job->gaps[i].first);
        json_uint(json, "last", job->gaps[i].last);
        json_end(json, '}');
    }
    json_end(json, ']');
    json_begin(json, "several_captures", '[');
    for (size_t i = 0; i < job->twins_count; i++) {
        json_begin(json, NULL, '{');
        json_text(json, "rank", job->twins[i].first->rank);
        json_uint(json, "captures", job->twins[i].count);
        json_bool(json, "restarted", job->twins[i].is_restart);
        json_bool(json, "several_machines", job->twins[i].has_hosts);
        json_end(json, '}');
    }
    json_end(json, ']');
}

static void json_builds(
        struct json *json, const struct ranksprint *print, const struct rankjob *job)
{
    struct trace none = {0};
    struct trace middle = job->worst ? libraries_of(print, job->peak.middle) : none;
    struct trace worst = job->worst ? libraries_of(print, job->worst) : none;

    builds_json(json, &middle, &worst);
    free(middle.modules);
    free(worst.modules);
}

static void json_job(struct json *json, const struct ranksprint *print, const struct rankjob *job)
{
    size_t count;
    char **titles = titles_of(print, job, &count);
    size_t shown = job->site_count < print->top ? job->site_count : (size_t)print->top;
    char *said = sentence(job, titles);
    char *folder = vec_format("%.*s", (int)job->sums[0].folder_length, job->sums[0].path);

    json_begin(json, NULL, '{');
    json_text(json, "folder", folder);
    json_text(json, "summary", said);
    json_bool(json, "complete", rankjob_is_complete(job));
    json_uint(json, "unread_captures", job->unread);
    json_uint(json, "damaged_captures", job->damaged);
    json_uint(json, "captures_without_all_anchors", job->partial);
    json_gaps(json, job);
    json_spread(json, "peak_live", &job->peak);
    json_which(json, "worst", job->worst);
    ranksprint_json_sites(json, print, job, titles, shown);
    json_anchors(json, print, job);
    json_builds(json, print, job);
    json_end(json, '}');
    title_done(titles, count);
    free(said);
    free(folder);
}

static size_t captures_of(const struct ranksprint *print)
{
    size_t count = 0;

    for (size_t i = 0; i < print->job_count; i++)
        count += print->jobs[i].count;
    return count;
}

void ranksprint_json_keys(struct json *json, const struct ranksprint *print)
{
    size_t left = json_begin_rows(json, "ranks", captures_of(print), RANKS_ON_PAGE);

    for (size_t i = 0; i < print->job_count; i++)
        for (size_t k = 0; k < print->jobs[i].count && left > 0; k++, left--)
            json_capture(json, &print->jobs[i].sums[k]);
    json_end(json, ']');
    size_t shown = json_begin_rows(json, "jobs", print->job_count, JOBS_ON_PAGE);
    for (size_t i = 0; i < shown; i++)
        json_job(json, print, &print->jobs[i]);
    json_end(json, ']');
    figures_json_trouble(json, print->symbols);
}

void ranksprint_json(const struct ranksprint *print)
{
    struct json json = json_open(stdout);

    ranksprint_json_keys(&json, print);
    json_end(&json, '}');
}
