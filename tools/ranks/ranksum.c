/* SPDX-License-Identifier: MIT */
#include "tools/ranks/ranksum.h"

#include <stdlib.h>
#include <string.h>

#include "tools/base/cmdexit.h"
#include "tools/load/figures.h"
#include "tools/report/report.h"

struct ranksum_book ranksum_book_new(void)
{
    return (struct ranksum_book){.sites = sitebook_new()};
}

void ranksum_book_done(struct ranksum_book *book)
{
    sitebook_done(&book->sites);
    keytable_done(&book->path_keys);
    vec_free_texts(&book->paths);
}

/* TRACE_NONE: the book is full. */
static uint32_t ranksum_path_number(struct ranksum_book *book, const char *path)
{
    struct key key = keytable_text(path);
    const uint32_t *known = keytable_find(&book->path_keys, key);

    if (known)
        return *known;
    if (book->paths.count >= RANKSUM_PATHS)
        return TRACE_NONE;
    (void)vec_add_text(&book->paths, vec_text(path));
    return keytable_number(&book->path_keys, key);
}

/* ---- hints ---------------------------------------------------------------------------------- */

static void ranksum_count_event(
        struct ranksum_matched *matched, const struct trace_event *event, bool is_released)
{
    switch (event->kind) {
    case TRACE_ALLOC:
        if (++matched->live > matched->live_most)
            matched->live_most = matched->live;
        if (++matched->kept > matched->kept_most)
            matched->kept_most = matched->kept;
        break;
    case TRACE_RELEASE:
        matched->kept--;
        break;
    case TRACE_FREE:
        matched->live--;
        matched->kept -= !is_released;
        break;
    default:
        break;
    }
}

static void count_matched(const struct trace *trace, struct ranksum *sum)
{
    for (size_t i = 0; i < trace->event_count && sum->hint_count; i++) {
        const struct trace_event *event = &trace->events[i];
        const struct trace_block *block =
                event->block == TRACE_NONE ? NULL : &trace->blocks[event->block];

        if (!block || block->rule < 0 || (size_t)block->rule >= sum->hint_count)
            continue;
        ranksum_count_event(&sum->hints[block->rule], event, block->released != TRACE_NEVER);
        ranksum_count_event(&sum->all, event, block->released != TRACE_NEVER);
    }
}

static void ranksum_add_hints(const struct load *load, struct ranksum *sum)
{
    sum->hints = vec_new(load->hint_count, sizeof(*sum->hints));
    sum->hint_count = load->hint_count;
    for (size_t i = 0; i < sum->hint_count; i++) {
        sum->hints[i].id = vec_text(load->hints[i].id);
        sum->hints[i].mode = load->hints[i].mode;
        sum->holds |= load->hints[i].action == ACTION_HOLD;
    }
    count_matched(load->trace, sum);
}

/* ---- figures -------------------------------------------------------------------------------- */

/* Makes figures unknown that missing events affect. */
static void ranksum_forget(struct ranksum *sum)
{
    sum->peak_with_hints = sum->hint_count ? UINT64_MAX : sum->peak_live;
    if (!sum->is_complete)
        sum->peak_live = sum->peak_with_hints = sum->peak_reserved = sum->ooms = UINT64_MAX;
    sum->all.live_most = sum->all.kept_most = UINT64_MAX;
    for (size_t i = 0; i < sum->hint_count; i++)
        sum->hints[i].live_most = sum->hints[i].kept_most = UINT64_MAX;
}

static void add_figures(const struct load *load, struct ranksum *sum)
{
    struct model_figures figures;
    bool is_partial;

    figures_of(load, model_whole(load->trace), &figures, &is_partial);
    sum->is_complete = !is_partial;
    sum->peak_live = figures.peak_live;
    sum->peak_with_hints = figures.would.max;
    sum->peak_held = load->held_most;
    sum->peak_reserved = figures.peak_reserved;
    ranksum_add_hints(load, sum);
    if (load->complete_from != 0)
        ranksum_forget(sum);
    if (!sum->is_complete || (sum->holds && load->complete_from != 0))
        sum->peak_held = UINT64_MAX;
}

/* The last recorded moment of the capture, ns since its start. */
static uint64_t last_moment(const struct load *load)
{
    const struct read_capture *capture = load->capture;
    const struct trace *trace = load->trace;
    uint64_t last = 0;

    for (size_t i = 0; i < trace->event_count; i++)
        last = max_of(last, trace->events[i].time_ns);
    for (unsigned i = 0; i < FORMAT_DEVICES_MAX; i++)
        last = max_of(last, capture->high[i].time_ns);
    return last;
}

/* ---- call sites ----------------------------------------------------------------------------- */

/* A site with its key in the book. */
struct keyed {
    struct key key;
    struct ranksum_site site;
};

static const struct vec_key ranksum_most_first[] = {
        VEC_DOWN(struct keyed, site.bytes), VEC_UP(struct keyed, site.stack)};

static const struct vec_key ranksum_by_stack[] = {VEC_UP(struct ranksum_site, stack)};

/*
 * The sites of the capture, each with a stack of the load's and its bytes at the high-water mark.
 * The caller frees the array.
 */
static struct keyed *ranksum_list_sites(const struct load *load, size_t *ret_count)
{
    struct keyed *sites = vec_new(load->place_count, sizeof(*sites));
    struct keytable index = {0};

    for (size_t i = 0; i < load->place_count; i++) {
        const struct load_place *place = &load->places[i];

        if (place->what->is_other || !place->what->high_bytes)
            continue;
        /* native site and Python stack: equal in each rank that runs the same program */
        struct key key = {read_site(load->capture, place->what->stack),
                trace_python(load->trace, place->stack), 0};
        struct keyed *site = &sites[keytable_number(&index, key)];
        site->key = key;
        site->site.stack = place->stack;
        site->site.bytes += place->what->high_bytes;
    }
    *ret_count = keytable_count(&index);
    keytable_done(&index);
    return sites;
}

static void ranksum_add_sites(
        const struct load *load, struct ranksum_book *book, struct ranksum *sum)
{
    size_t count;
    struct keyed *sites = ranksum_list_sites(load, &count);
    size_t kept = count < RANKSUM_SITES ? count : RANKSUM_SITES;

    VEC_SORT_BY(sites, count, ranksum_most_first);
    sum->sites = vec_new(kept, sizeof(*sum->sites));
    for (size_t i = 0; i < kept; i++) {
        uint32_t stack = sitebook_add(&book->sites, sites[i].key, load->trace, sites[i].site.stack);
        if (stack != SITEBOOK_NONE)
            sum->sites[sum->site_count++] = (struct ranksum_site){stack, sites[i].site.bytes};
    }
    VEC_SORT_BY(sum->sites, sum->site_count, ranksum_by_stack);
    free(sites);
}

static void ranksum_add_modules(
        const struct load *load, struct ranksum_book *book, struct ranksum *sum)
{
    sum->modules = vec_new(load->trace->module_count, sizeof(*sum->modules));
    for (size_t i = 0; i < load->trace->module_count; i++)
        if (load->trace->modules[i].is_program)
            sum->modules[sum->module_count++] =
                    sitebook_module(&book->sites, &load->trace->modules[i]);
}

/* ---- anchors -------------------------------------------------------------------------------- */

static const struct vec_key ranksum_highest_first[] = {
        VEC_DOWN(struct ranksum_anchor, peak), VEC_UP(struct ranksum_anchor, path)};

static const struct vec_key ranksum_by_path[] = {VEC_UP(struct ranksum_anchor, path)};

static void add_instance(struct ranksum_anchor *anchor, const struct model_figures *figures)
{
    anchor->instances++;
    anchor->peak = max_of(anchor->peak, figures->peak_live);
    anchor->left = max_of(anchor->left, figures->remaining);
}

/* All anchors, and whether some instances are unknown; `path` is a number of the capture's own. */
static struct ranksum_anchor *list_anchors(
        const struct load *load, struct vec_texts *paths, bool *ret_lacks)
{
    const struct trace *trace = load->trace;
    struct model_figures *figures = model_figure_anchors(trace, model_whole(trace));
    struct ranksum_anchor *anchors = vec_new(trace->anchor_count, sizeof(*anchors));
    struct keytable index = {0};

    for (size_t i = 1; i < trace->anchor_count; i++) {
        const struct trace_anchor *anchor = &trace->anchors[i];

        if (anchor->enter == TRACE_NEVER || anchor->enter < load->complete_from) {
            *ret_lacks |= load->complete_from != 0;
            continue;
        }
        uint32_t at = keytable_number(&index, keytable_text(anchor->path));
        if (at == paths->count)
            (void)vec_add_text(paths, vec_text(anchor->path));
        anchors[at].path = at;
        add_instance(&anchors[at], &figures[i]);
    }
    keytable_done(&index);
    free(figures);
    return anchors;
}

static void ranksum_add_anchors(
        const struct load *load, struct ranksum_book *book, struct ranksum *sum)
{
    struct vec_texts paths = {0};
    struct ranksum_anchor *anchors = list_anchors(load, &paths, &sum->lacks_anchors);
    size_t kept = paths.count < RANKSUM_ANCHORS ? paths.count : RANKSUM_ANCHORS;

    sum->is_imported = load_is_imported(load->capture);
    sum->lacks_anchors |= kept < paths.count || !load->capture->has_all_events;
    VEC_SORT_BY(anchors, paths.count, ranksum_highest_first);
    sum->anchors = vec_new(kept, sizeof(*sum->anchors));
    for (size_t i = 0; i < kept; i++) {
        uint32_t path = ranksum_path_number(book, paths.at[anchors[i].path]);
        if (path == TRACE_NONE) {
            sum->lacks_anchors = true;
            continue;
        }
        sum->anchors[sum->anchor_count] = anchors[i];
        sum->anchors[sum->anchor_count++].path = path;
    }
    VEC_SORT_BY(sum->anchors, sum->anchor_count, ranksum_by_path);
    free(anchors);
    vec_free_texts(&paths);
}

/* ---- one capture ---------------------------------------------------------------------------- */

static bool has_failed(const struct read_capture *capture)
{
    return capture->oom_count > 0
            && (capture->state != FORMAT_STATE_CLEAN || capture->state_detail != FORMAT_EXIT_KNOWN);
}

static struct ranksum ranksum_sum_of(const struct load *load, struct ranksum_book *book)
{
    const struct read_capture *capture = load->capture;
    const char *slash = strrchr(load->path, '/');
    struct ranksum sum = {.path = vec_text(load->path),
            .rank = vec_text(capture->rank),
            .host = vec_text(capture->host),
            .end = report_end_text(capture),
            .folder_length = slash ? (size_t)(slash + 1 - load->path) : 0,
            .pid = capture->pid,
            .start_ns = capture->start_real_ns,
            .last_ns = capture->start_real_ns + last_moment(load),
            .is_clean = load_has_ended(load),
            .mode = capture->hints_mode,
            .ooms = capture->oom_count,
            .has_failed = has_failed(capture)};

    add_figures(load, &sum);
    if (!sum.is_complete)
        return sum; /* nothing of a damaged capture is compared */
    ranksum_add_sites(load, book, &sum);
    ranksum_add_modules(load, book, &sum);
    ranksum_add_anchors(load, book, &sum);
    return sum;
}

int ranksum_open(const char *path, struct ranksum_book *book, struct ranksum *ret_sum)
{
    struct load load = {0};
    int r = load_open(path, &load);

    if (r == CMD_DONE)
        *ret_sum = ranksum_sum_of(&load, book);
    load_close(&load);
    return r;
}

void ranksum_done(struct ranksum *sum)
{
    for (size_t i = 0; i < sum->hint_count; i++)
        free(sum->hints[i].id);
    free(sum->hints);
    free(sum->path);
    free(sum->rank);
    free(sum->host);
    free(sum->end);
    free(sum->sites);
    free(sum->anchors);
    free(sum->modules);
}

int ranksum_by_rank(const void *a, const void *b)
{
    const struct ranksum *x = a, *y = b;
    size_t length = x->folder_length < y->folder_length ? x->folder_length : y->folder_length;
    int r = memcmp(x->path, y->path, length);

    if (r == 0)
        r = (x->folder_length > y->folder_length) - (x->folder_length < y->folder_length);
    if (r == 0) {
        unsigned long long i = strtoull(x->rank, NULL, 10), j = strtoull(y->rank, NULL, 10);
        r = (i > j) - (i < j);
    }
    return r ? r : strcmp(x->path, y->path);
}
