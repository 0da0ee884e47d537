/* SPDX-License-Identifier: MIT */
#include "tools/ranks/rankjob.h"

#include <stdlib.h>
#include <string.h>

/* ---- choosing the captures ------------------------------------------------------------------- */

/* The capture's rank as a number; false: it is none. */
static bool rank_number(const struct ranksum *sum, uint64_t *ret_number)
{
    size_t digits = strspn(sum->rank, "0123456789");

    *ret_number = strtoull(sum->rank, NULL, 10);
    return digits > 0 && digits < 19 && sum->rank[digits] == '\0';
}

char *rankjob_name(const struct ranksum *sum)
{
    return *sum->rank ? vec_format("rank %s", sum->rank) : vec_text(sum->path + sum->folder_length);
}

/*
 * One capture for each rank, in the order of the first; captures without a rank stand for
 * themselves.
 */
static void rankjob_choose(struct rankjob *job)
{
    struct keytable index = {0};

    job->ranks = vec_new(job->count, sizeof(*job->ranks));
    for (size_t i = 0; i < job->count; i++) {
        const struct ranksum *sum = &job->sums[i];
        struct key key = keytable_text(*sum->rank ? sum->rank : sum->path);

        job->damaged += !sum->is_complete;
        job->partial += sum->is_complete && sum->lacks_anchors;
        job->untraced += sum->is_complete && sum->lacks_anchors && !sum->is_imported;
        if (!sum->is_complete)
            continue;
        key.c ^= (uint64_t)(*sum->rank == '\0') << 63;
        struct rankjob_rank *rank = &job->ranks[keytable_number(&index, key)];
        if (!rank->sum || sum->peak_live > rank->sum->peak_live)
            rank->sum = sum;
    }
    job->rank_count = keytable_count(&index);
    keytable_done(&index);
}

/* Gaps in the numbers from 0 to the highest. */
static void find_gaps(struct rankjob *job)
{
    uint64_t *numbers = vec_new(job->count, sizeof(*numbers));
    uint64_t next = 0;
    size_t count = 0;
    size_t room = 0;

    for (size_t i = 0; i < job->count; i++)
        if (rank_number(&job->sums[i], &numbers[count]))
            count++;
    VEC_SORT(numbers, count, vec_by_number);
    for (size_t i = 0; i < count; i++) {
        if (numbers[i] > next)
            VEC_PUSH(job->gaps, job->gap_count, room) = (struct rankjob_gap){next, numbers[i] - 1};
        next = numbers[i] + 1;
    }
    free(numbers);
}

/* ---- several captures of one rank ----------------------------------------------------------- */

static int by_start(const void *left, const void *right)
{
    const struct ranksum *a = ((const struct rankjob_rank *)left)->sum;
    const struct ranksum *b = ((const struct rankjob_rank *)right)->sum;

    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

static struct rankjob_twins twins_of(struct rankjob_rank *members, size_t count)
{
    struct rankjob_twins twins = {.first = members[0].sum, .count = count, .is_restart = true};

    VEC_SORT(members, count, by_start);
    for (size_t i = 1; i < count; i++) {
        twins.is_restart &= members[i].sum->start_ns >= members[i - 1].sum->last_ns;
        twins.has_hosts |= strcmp(members[i].sum->host, members[0].sum->host) != 0;
    }
    return twins;
}

static int by_rank_text(const void *left, const void *right)
{
    const struct ranksum *a = ((const struct rankjob_rank *)left)->sum;
    const struct ranksum *b = ((const struct rankjob_rank *)right)->sum;
    int r = strcmp(a->rank, b->rank);

    return r ? r : (a > b) - (a < b);
}

static int rankjob_by_first(const void *left, const void *right)
{
    const struct rankjob_twins *a = left;
    const struct rankjob_twins *b = right;

    return (a->first > b->first) - (a->first < b->first);
}

static void find_twins(struct rankjob *job)
{
    struct rankjob_rank *all = vec_new(job->count, sizeof(*all));
    size_t count = 0;
    size_t room = 0;

    for (size_t i = 0; i < job->count; i++)
        if (*job->sums[i].rank)
            all[count++].sum = &job->sums[i];
    VEC_SORT(all, count, by_rank_text);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && strcmp(all[end].sum->rank, all[i].sum->rank) == 0; end++)
            ;
        if (end - i > 1)
            VEC_PUSH(job->twins, job->twins_count, room) = twins_of(&all[i], end - i);
    }
    VEC_SORT(job->twins, job->twins_count, rankjob_by_first);
    free(all);
}

/* ---- spreads -------------------------------------------------------------------------------- */

struct value {
    uint64_t bytes;
    const struct ranksum *of;
};

static int by_value(const void *left, const void *right)
{
    const struct value *a = left;
    const struct value *b = right;

    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return (a->of > b->of) - (a->of < b->of);
}

/* Sorts the values. */
static struct rankjob_spread spread_of(struct value *values, size_t count)
{
    size_t middle = count ? (count - 1) / 2 : 0;
    size_t last = count;

    if (count == 0)
        return (struct rankjob_spread){0};
    VEC_SORT(values, count, by_value);
    while (last > 1 && values[last - 2].bytes == values[count - 1].bytes)
        last--;
    while (middle > 0 && values[middle - 1].bytes == values[middle].bytes)
        middle--;
    return (struct rankjob_spread){.ranks = count,
            .min = values[0].bytes,
            .median = values[middle].bytes,
            .max = values[count - 1].bytes,
            .least = values[0].of,
            .middle = values[middle].of,
            .most = values[last - 1].of};
}

/* ---- the worst rank ------------------------------------------------------------------------- */

static void find_worst(struct rankjob *job)
{
    struct value *values = vec_new(job->rank_count, sizeof(*values));
    const struct ranksum *failed = NULL;
    size_t failures = 0;

    for (size_t i = 0; i < job->rank_count; i++) {
        const struct ranksum *sum = job->ranks[i].sum;

        values[i] = (struct value){sum->peak_live, sum};
        failures += sum->has_failed;
        if (sum->has_failed && (!failed || sum->peak_live > failed->peak_live))
            failed = sum;
    }
    job->peak = spread_of(values, job->rank_count);
    if (job->rank_count > 1 && failures > 0 && failures < job->rank_count)
        job->worst = failed;
    else if (job->rank_count > 1 && job->peak.max > job->peak.median)
        job->worst = job->peak.most;
    free(values);
}

static int most_more_first(const void *left, const void *right)
{
    const struct rankjob_site *a = left;
    const struct rankjob_site *b = right;
    uint64_t x = a->bytes - a->median_bytes;
    uint64_t y = b->bytes - b->median_bytes;

    if (x != y)
        return x < y ? 1 : -1;
    return (a->stack > b->stack) - (a->stack < b->stack);
}

static void add_site(struct rankjob *job, struct rankjob_site site)
{
    if (site.bytes > site.median_bytes)
        job->sites[job->site_count++] = site;
    else
        job->less += site.median_bytes - site.bytes;
}

/* Both lists are sorted by stack. */
static void rankjob_compare_sites(struct rankjob *job)
{
    const struct ranksum *worst = job->worst;
    const struct ranksum *middle = job->peak.middle;
    size_t k = 0;

    job->sites = vec_new(worst->site_count, sizeof(*job->sites));
    for (size_t i = 0; i < worst->site_count; i++) {
        struct rankjob_site site = {worst->sites[i].stack, worst->sites[i].bytes, 0};

        for (; k < middle->site_count && middle->sites[k].stack < site.stack; k++)
            job->less += middle->sites[k].bytes;
        if (k < middle->site_count && middle->sites[k].stack == site.stack)
            site.median_bytes = middle->sites[k++].bytes;
        add_site(job, site);
    }
    for (; k < middle->site_count; k++)
        job->less += middle->sites[k].bytes;
    VEC_SORT(job->sites, job->site_count, most_more_first);
}

/* ---- anchors -------------------------------------------------------------------------------- */

/* The end of a spread that is farther from its median, NULL if all are alike. */
static const struct ranksum *farther(
        const struct rankjob_spread *spread, uint64_t *ret_away, bool *ret_is_below)
{
    uint64_t above = spread->max - spread->median;
    uint64_t below = spread->median - spread->min;

    *ret_is_below = below > above;
    *ret_away = *ret_is_below ? below : above;
    if (*ret_away == 0)
        return NULL;
    return *ret_is_below ? spread->least : spread->most;
}

static void find_outlier(struct rankjob_anchor *anchor)
{
    anchor->outlier = farther(&anchor->peak, &anchor->away, &anchor->is_below);
    if (anchor->outlier)
        return;
    anchor->outlier = farther(&anchor->left, &anchor->away, &anchor->is_below);
    anchor->by_left = anchor->outlier != NULL;
}

/* Merges the anchors of all ranks, path by path: each list is sorted by path, and has a cursor. */
struct merge {
    struct rankjob *job;
    size_t *cursors;
    struct value *peaks, *lefts;
};

static void merge_path(struct merge *merge, uint32_t path)
{
    struct rankjob *job = merge->job;
    struct rankjob_anchor anchor = {.path = path};
    size_t count = 0;

    for (size_t i = 0; i < job->rank_count; i++) {
        const struct ranksum *sum = job->ranks[i].sum;
        size_t at = merge->cursors[i];

        if (at == sum->anchor_count || sum->anchors[at].path != path)
            continue;
        merge->cursors[i]++;
        merge->peaks[count] = (struct value){sum->anchors[at].peak, sum};
        merge->lefts[count++] = (struct value){sum->anchors[at].left, sum};
    }
    if (count == 0)
        return; /* of another job */
    anchor.peak = spread_of(merge->peaks, count);
    anchor.left = spread_of(merge->lefts, count);
    find_outlier(&anchor);
    job->anchors[job->anchor_count++] = anchor;
}

static int farthest_first(const void *left, const void *right)
{
    const struct rankjob_anchor *a = left;
    const struct rankjob_anchor *b = right;

    if ((a->outlier == NULL) != (b->outlier == NULL))
        return a->outlier ? -1 : 1;
    if (a->by_left != b->by_left)
        return a->by_left ? 1 : -1;
    if (a->away != b->away)
        return a->away < b->away ? 1 : -1;
    return (a->path > b->path) - (a->path < b->path);
}

static void rankjob_compare_anchors(struct rankjob *job, size_t paths)
{
    struct merge merge = {.job = job,
            .cursors = vec_new(job->rank_count, sizeof(*merge.cursors)),
            .peaks = vec_new(job->rank_count, sizeof(*merge.peaks)),
            .lefts = vec_new(job->rank_count, sizeof(*merge.lefts))};

    job->anchors = vec_new(paths, sizeof(*job->anchors));
    for (size_t path = 0; path < paths; path++)
        merge_path(&merge, (uint32_t)path);
    VEC_SORT(job->anchors, job->anchor_count, farthest_first);
    free(merge.cursors);
    free(merge.peaks);
    free(merge.lefts);
}

/* ---- the whole comparison -------------------------------------------------------------------- */

void rankjob_compare(const struct ranksum *sums, size_t count, size_t unread,
        const struct ranksum_book *book, struct rankjob *ret_job)
{
    *ret_job = (struct rankjob){.sums = sums, .count = count, .unread = unread};
    rankjob_choose(ret_job);
    find_gaps(ret_job);
    find_twins(ret_job);
    find_worst(ret_job);
    if (ret_job->worst && ret_job->peak.middle)
        rankjob_compare_sites(ret_job);
    rankjob_compare_anchors(ret_job, book->paths.count);
}

void rankjob_done(struct rankjob *job)
{
    free(job->ranks);
    free(job->sites);
    free(job->anchors);
    free(job->gaps);
    free(job->twins);
}

bool rankjob_is_complete(const struct rankjob *job)
{
    return job->unread == 0 && job->damaged == 0;
}
