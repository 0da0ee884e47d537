/* SPDX-License-Identifier: MIT */
/*
 * report.h - one report, gathered once and printed as text or as JSON.
 *
 * cmd_report.c opens the capture, finds the window and computes the figures; report_text.c and report_json.c print what is
 * here and compute nothing but sums over lists.
 *
 * Threads: none.
 */
#ifndef KEDGE_TOOLS_REPORT_H
#define KEDGE_TOOLS_REPORT_H

#include "tools/load/figures.h"
#include "tools/patterns/patterns.h"
#include "tools/report/rowpick.h"
#include "tools/report/sources.h"
#include "tools/steps/stepview.h"
#include "tools/symbols/title.h"

enum view {
    VIEW_ALL,
    VIEW_LIVE,
    VIEW_HWM,
    VIEW_LIBRARIES,
    VIEW_HINTS,
    VIEW_OOM,
    VIEW_ANCHORS,
    VIEW_CLASSES,
    VIEW_SOURCES,
    VIEW_STEPS,
    VIEW_LEAKS,
    VIEW_TEMPORARY,
    VIEW_PATTERNS,
    VIEW_STREAMS,
    VIEW_EVICTION,
    VIEW_COUNT,
};

/* What a run on plain memory would have held with KEDGE_POOL=sync=mapped. */
struct report_mapped {
    bool is_known;
    bool is_untold; /* finding out takes too long for a report */
    uint64_t held;  /* bytes at the peak, where it is known */
};

/* What the rows of a table of live memory are: --by. */
enum report_by {
    REPORT_BY_ITSELF, /* what the view has without it */
    REPORT_BY_STACK,
    REPORT_BY_SITE,
    REPORT_BY_LIBRARY,
    REPORT_BY_CLASS,
    REPORT_BY_ANCHOR,
    REPORT_BY_DEVICE,
    REPORT_BY_COUNT,
};

struct report {
    const char *from, *to;
    enum report_by by;
    const char *sort, *filter_text; /* of the view's table; NULL = none */
    struct rowpick_filter *filter;  /* filter_text; NULL = everything is shown */
    enum view view;
    enum stepview_choice steps;
    uint64_t top;
    struct load load;
    struct symbols *symbols;
    struct model_window window;
    struct model_figures figures;
    struct sources sources;      /* of a capture */
    struct stepview stated;      /* of the whole report as text; of a page also detected ones */
    struct report_mapped mapped; /* likewise, and of JSON */
    struct render_ink ink;
    const char *path; /* of the capture, as it was given */
    bool partial;     /* the figures of the window miss lost events */
};

/*
 * A line of the head, or a note: "lost      3 events without room", the name in `ink` ("" as all). What is wider than the
 * terminal goes on below itself.
 */
void report_field(const struct report *report, const char *ink, const char *name,
        const char *format, ...) __attribute__((format(printf, 4, 5)));

/*
 * What the capture does not hold, and what the run warned of: `tell` is called once for each, with "damaged", "lost", "warning"
 * or "note", and a sentence.
 */
void report_notes_tell(const struct report *report,
        void (*tell)(void *context, const char *word, const char *text), void *context);

/* What kedge saw: hooks and their routes, what went past them, frameworks with a pool of their own (report_coverage.c). */
void report_coverage_print(const struct report *report);
void report_coverage_json(struct json *json, const struct report *report);

/*
 * --by, --sort and --filter, as they were given (NULL = not), for the report's view
 * (report_select.c). `fields`: what its table can be sorted by (report_view_fields). 0, or an exit
 * code after one line on stderr. `filter` is for the caller to make, once there are names.
 */
int report_select_find(struct report *report, const struct rowpick_fields *fields, const char *by,
        const char *sort, const char *filter);

/* What the table of each view can be sorted by. */
extern const struct rowpick_fields report_live_fields, report_places_fields, report_anchors_fields,
        report_libraries_fields, report_patterns_fields;

/* Sorts the rows of the table of a view by a field of `fields`, if it is the report's view and --sort was given. */
void report_sort(const struct report *report, enum view of, const struct rowpick_fields *fields,
        void *rows, size_t count, size_t size);

/* Does --filter keep a row of the table of a view? By its stack or a name that it has (NULL = none); by a text alone. */
bool report_keeps(const struct report *report, enum view of, uint32_t stack, const char *name);
bool report_keeps_text(const struct report *report, enum view of, const char *text);

/*
 * As title_rows, of the rows of the table of a view. Few rows have little to tell apart: what a filter leaves has longer titles
 * (title_ways), which do not depend on what else is left.
 */
char **report_titles(const struct report *report, enum view of, const void *rows, size_t stride,
        size_t offset, size_t count);

/* What a block is grouped by. */
struct report_group {
    uint32_t stack;
    const char *anchor; /* path */
    enum memclass memclass;
    int device;
};

/* What --by calls the group, as long as the report lives; NULL: a group is a stack, or what the view has. */
const char *report_group_name(const struct report *report, const struct report_group *group);

/* "library", and what one row more is. */
const char *report_by_word(enum report_by by);
const char *report_by_noun(enum report_by by);

/* A library of `sources`, and its number there. */
struct report_library {
    struct sources_figures figures;
    uint32_t at;
};

/*
 * Those that the table of a view shows, in its order; the caller frees the array. VIEW_LIBRARIES has only those that asked for
 * device memory.
 */
struct report_library *report_libraries(
        const struct report *report, enum view of, size_t *ret_count);

/* The figures of each anchor of the window (report_anchors.c). */
void report_anchors_print(const struct report *report);
void report_anchors_json(struct json *json, const struct report *report);

/* What was live at the maximum (VIEW_HWM) or the end (VIEW_LIVE), by the events (report_live.c). */
void report_live_print(const struct report *report, enum view of);
void report_live_json(
        struct json *json, const struct report *report, enum view of, const char *key);

/* Why allocations failed (report_oom.c). */
void report_oom_print(const struct report *report);
void report_oom_json(struct json *json, const struct report *report);

/* Do the events tell what lived when it failed? */
bool report_oom_is_told(const struct report *report, const struct load_oom *oom);

/* Who asked, by library and kind (report_sources.c). */
void report_sources_print(const struct report *report);
void report_sources_json(struct json *json, const struct report *report);
void report_json_figures(struct json *json, const struct sources_figures *figures);

/* report_has_sums; a page has those of what is on record in any case, and says so. */
bool report_json_has_sums(const struct json *json, const struct report *report);

/* Where all of each device's memory was when kedge looked last, and when an allocation failed (report_waterfall.c). */
void report_waterfall_print(const struct report *report);
void report_waterfall_json(struct json *json, const struct report *report);
void report_waterfall_print_oom(const struct report *report, const struct load_oom *oom);
void report_waterfall_json_oom(
        struct json *json, const struct report *report, const struct load_oom *oom);

/* Live and reserved memory over the window, in a line each, and where the peak was (report_timeline.c). */
void report_timeline_print(const struct report *report);

/* Which memory is held for nothing, by pattern, and what to do about it (report_patterns.c). */
void report_patterns_print(const struct report *report);
void report_patterns_json(struct json *json, const struct report *report);

/* On which streams memory is asked for, and by whom (report_streams.c). */
void report_streams_print(const struct report *report);
void report_streams_json(struct json *json, const struct report *report);

/*
 * What a whole run on plain memory would have held on mapped memory (report_mapped.c): its requests are played to the pool, with
 * the defaults and a device that keeps up. Nothing is said of a run whose log is not complete, whose hints acted, which exported
 * memory, or which used cudaMalloc little. report_mapped_find after the figures.
 */
void report_mapped_find(struct report *report);
void report_mapped_print(const struct report *report);

/* What was moved between device and host, and what stays (report_evict.c). Of the whole run, whatever the window. */
void report_evict_print(const struct report *report);
void report_evict_json(struct json *json, const struct report *report);

/* Step by step (report_steps.c). The last one is all that there is to say of a csv. */
void report_steps_print(const struct report *report);

/* Steps that the program states, into `stated`; stepview_done gives them back. */
void report_stated_find(struct report *report);

/* Who grows from step to step, of steps that the program states; nothing where none grows. */
void report_growth_print(const struct report *report);
void report_steps_json(struct json *json, const struct report *report);
/* "steps", of steps that are found already. */
void report_steps_json_view(
        struct json *json, const struct report *report, const struct stepview *view);
void report_steps_json_only(const struct report *report);
/*
 * Area C (report_places.c): who held the memory when most of it was live, who holds it still, and who allocates what is freed at
 * once. Of the whole run, whatever the window.
 */
void report_high_print(const struct report *report);
void report_leaks_print(const struct report *report);
void report_temporary_print(const struct report *report);
void report_places_json(struct json *json, const struct report *report);

/* Whether the high-water mark comes from area C: the events cannot say it, and the window is the whole run. */
bool report_has_high(const struct report *report);

/* Are events missing in the window, so that sums over blocks are of what is on record only? */
bool report_lacks_events(const struct report *report);

/* Is it known what was allocated by whom, and what lives at the end? Of the whole run, and of a window that is on record. */
bool report_has_sums(const struct report *report);

/* Event index: what lives there is what lives at the window's maximum, by the events that there are. */
uint32_t report_peak(const struct report *report);

/* What the run said of a setting, "" nothing. */
const char *report_setting(const struct read_capture *capture, const char *name);

/* The view of this name; VIEW_COUNT = there is none. */
enum view report_view_named(const char *name);

/* What the table of a view can be sorted by; NULL: its rows are not for choosing. */
const struct rowpick_fields *report_view_fields(enum view view);

/* For "did you mean"; NULL = none is near. */
const char *report_view_nearest(const char *name);

/* What each view answers, a line each. */
void report_views_explain(void);

/* The views that are not in the whole report and have something to tell, with their commands. */
void report_views_print(const struct report *report);

/* "SOT_CALL_0 (2)" as the last cell of a row, as render_label has it. */
void report_anchor_print(const struct trace_anchor *anchor, unsigned used);

void report_text_print(const struct report *report);
void report_json_print(const struct report *report);

/* All keys of --json, into the object that is open; of a page what it shows, without "steps". */
void report_json(struct json *json, const struct report *report);

/* How the process ended, as far as the file can know; the caller frees it. */
char *report_end_text(const struct read_capture *capture);

/* Was the anchor entered in the window? */
bool report_has_anchor(const struct report *report, size_t anchor);

#endif
