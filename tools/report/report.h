/* SPDX-License-Identifier: MIT */
/*
 * report.h - one report, gathered once and printed as text or as JSON.
 *
 * cmd_report.c opens the capture, finds the window and computes the figures; report_text.c and
 * report_json.c print this data and compute only sums over lists.
 *
 * Threads: none.
 */
#ifndef KEDGE_TOOLS_REPORT_H
#define KEDGE_TOOLS_REPORT_H

#include "tools/answer/answer.h"
#include "tools/load/datakind.h"
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
    VIEW_FRAGMENTS,
    VIEW_COUNT,
};

/* What the pool would have held at the peak with other settings, in bytes; 0 = not known. */
struct report_pool {
    uint64_t mapped_held; /* with sync=mapped, a run on plain memory */
    uint64_t still_held;  /* with remap=never, a run that moved storage */
    bool is_untold;       /* to find out mapped_held would take too long for a report */
};

/* The rows of a table of live memory: --by. */
enum report_by {
    REPORT_BY_ITSELF, /* the view's own rows */
    REPORT_BY_STACK,
    REPORT_BY_SITE,
    REPORT_BY_LIBRARY,
    REPORT_BY_CLASS,
    REPORT_BY_ANCHOR,
    REPORT_BY_DEVICE,
    REPORT_BY_KIND,
    REPORT_BY_COUNT,
};

struct report {
    const char *from, *to;
    const char *made_to;  /* --between FROM MADE_TO: blocks of this stretch alone; NULL = all */
    uint32_t made_behind; /* the first event after it */
    char *step_name;      /* from and to of --step; the caller frees it */
    enum report_by by;
    const char *sort, *filter_text; /* a column of the view's table; NULL = none */
    struct rowpick_filter *filter;  /* made from filter_text; NULL = all rows are shown */
    enum view view;
    enum stepview_choice steps;
    uint64_t top;
    struct load load;
    struct symbols *symbols;
    struct model_window window;
    struct model_figures figures;
    struct sources sources; /* sources of a capture */
    struct datakinds kinds; /* what each block is */
    struct stepview stated; /* steps for the whole report as text; for a page also detected steps */
    struct report *tensors; /* the tensors in a run's segments; NULL = none, or not found */
    struct report_pool pool; /* likewise, and for JSON */
    struct render_ink ink;
    const char *path; /* path of the capture, as given */
    bool partial;     /* the figures of the window miss lost events */
    bool is_native;   /* printed stacks have all frames */
    bool is_whole;    /* text without a view is the whole report, not one screen */
    size_t rows;      /* lines of the peak on that screen */
};

/*
 * A line of the head, or a note: "lost 3 events without room", with the name in `ink` ("" = plain).
 * A text wider than the terminal continues below itself.
 */
void report_field(const struct report *report, const char *ink, const char *name,
        const char *format, ...) __attribute__((format(printf, 4, 5)));

/*
 * Calls `tell` for each kind of data that the capture lacks and for each warning of the run, with
 * "damaged", "lost", "warning" or "note", and a sentence.
 */
void report_notes_tell(const struct report *report,
        void (*tell)(void *context, const char *word, const char *text), void *context);

/*
 * The calls that kedge saw: hooks and their routes, calls that bypassed it, frameworks with a pool
 * of their own (report_coverage.c).
 */
void report_coverage_print(const struct report *report);
void report_coverage_json(struct json *json, const struct report *report);

/*
 * Checks --by, --sort and --filter as given (NULL = not given) for the report's view
 * (report_select.c). `fields`: the columns that its table can be sorted by (report_view_fields). 0,
 * or an exit code after one line on stderr. The caller makes `filter` once there are names.
 */
int report_select_find(struct report *report, const struct rowpick_fields *fields, const char *by,
        const char *sort, const char *filter);

/* The columns that each view's table can be sorted by. */
extern const struct rowpick_fields report_live_fields, report_places_fields, report_anchors_fields,
        report_libraries_fields, report_patterns_fields;

/*
 * Sorts the rows of a view's table by a field of `fields`, if it is the report's view and --sort
 * was given.
 */
void report_sort(const struct report *report, enum view of, const struct rowpick_fields *fields,
        void *rows, size_t count, size_t size);

/*
 * Whether --filter keeps a row of a view's table, by its stack or a name (NULL = none). Below: by a
 * text alone.
 */
bool report_keeps(const struct report *report, enum view of, uint32_t stack, const char *name);
bool report_keeps_text(const struct report *report, enum view of, const char *text);

/* figures_print_stack to stdout; with --native all frames. */
void report_stack_print(
        const struct report *report, uint32_t stack, const char *indent, unsigned limit);

/* The key that --by groups a block by. */
struct report_group {
    uint32_t stack;
    const char *anchor; /* path */
    enum memclass memclass;
    int device;
    uint32_t block; /* any of them; for views of events */
};

/*
 * The name that --by gives the group, valid as long as the report; NULL: the group is a stack, or
 * the view's own.
 */
const char *report_group_name(const struct report *report, const struct report_group *group);

/* "library", and the word for one more row. */
const char *report_by_word(enum report_by by);
const char *report_by_noun(enum report_by by);

/* A library of `sources`, with its number there. */
struct report_library {
    struct sources_figures figures;
    uint32_t at;
};

/*
 * The libraries in a view's table, in its order; the caller frees the array. VIEW_LIBRARIES has
 * only libraries that asked for device memory.
 */
struct report_library *report_libraries(
        const struct report *report, enum view of, size_t *ret_count);

/* The figures of each anchor of the window (report_anchors.c). */
void report_anchors_print(const struct report *report);
void report_anchors_json(struct json *json, const struct report *report);

/*
 * The blocks live at the maximum (VIEW_HWM) or the end (VIEW_LIVE), from the events
 * (report_live.c).
 */
void report_live_print(const struct report *report, enum view of);
void report_live_json(
        struct json *json, const struct report *report, enum view of, const char *key);

/*
 * What the live memory is, by kind and name, at the maximum (VIEW_HWM) or the end (VIEW_LIVE);
 * below: in one line, at a failed allocation, and what was not looked at (report_kinds.c). Without
 * a look at a framework's objects all but the first print nothing.
 */
void report_kinds_print(const struct report *report, enum view of);
void report_kinds_print_short(const struct report *report);
void report_kinds_print_oom(const struct report *report, const struct load_oom *oom);
void report_kinds_print_limits(const struct report *report);
void report_kinds_json(struct json *json, const struct report *report);
void report_kinds_json_oom(
        struct json *json, const struct report *report, const struct load_oom *oom);

/* The reasons of failed allocations (report_oom.c). */
void report_oom_print(const struct report *report);
void report_oom_json(struct json *json, const struct report *report);

/*
 * What refers to the live blocks of a Python program: the last walk through its objects for this
 * reason, after at most so many failed allocations. Prints nothing if there was none
 * (report_held.c).
 */
void report_held_print(const struct report *report, enum format_walk_why why, uint64_t failures);
void report_held_json(struct json *json, const struct report *report, enum format_walk_why why,
        uint64_t failures, const char *key);

/* Prints this walk and nothing else. False: the capture has none of this number. */
bool report_held_only(const struct report *report, uint32_t number, bool is_json);

/* Whether the events contain the blocks that lived when the allocation failed. */
bool report_oom_is_told(const struct report *report, const struct load_oom *oom);

/* Memory by library and kind (report_sources.c). */
void report_sources_print(const struct report *report);
void report_sources_json(struct json *json, const struct report *report);
void report_json_figures(struct json *json, const struct sources_figures *figures);

/* report_has_sums; a page shows the sums of the recorded events in any case, and says so. */
bool report_json_has_sums(const struct json *json, const struct report *report);

/*
 * The parts of each device's memory when kedge looked last, and when an allocation failed
 * (report_waterfall.c).
 */
void report_waterfall_print(const struct report *report);
void report_waterfall_json(struct json *json, const struct report *report);
void report_waterfall_print_oom(const struct report *report, const struct load_oom *oom);
void report_waterfall_json_oom(
        struct json *json, const struct report *report, const struct load_oom *oom);

/*
 * Live and reserved memory over the window, in a line each, and the position of the peak
 * (report_screen.c).
 */
void report_timeline_print(const struct report *report);

/* Memory that is held without use, by pattern, with advice (report_patterns.c). */
void report_patterns_print(const struct report *report);
void report_patterns_json(struct json *json, const struct report *report);

/* Free memory that live blocks keep from going back, by line (report_fragments.c). */
void report_fragments_print(const struct report *report);
void report_fragments_json(struct json *json, const struct report *report);

/* The streams that memory is asked for on, with the call sites (report_streams.c). */
void report_streams_print(const struct report *report);
void report_streams_json(struct json *json, const struct report *report);

/*
 * What moving storage took, and what a whole run would have held without that, or if cudaMalloc had
 * been served from mapped memory (report_pool.c): its requests are replayed to the pool, with the
 * defaults and a device that keeps up. Nothing is replayed of a run whose log is incomplete or
 * whose hints acted; not to mapped memory if it exported memory or used cudaMalloc little; and not
 * without moves if it used cudaMalloc on plain memory. report_pool_find comes after the figures.
 */
void report_pool_find(struct report *report);
void report_pool_print(const struct report *report);
void report_pool_json(struct json *json, const struct report *report);

/*
 * Memory moved between device and host, and blocks that stay (report_evict.c). Of the whole run,
 * whatever the window.
 */
void report_evict_print(const struct report *report);
void report_evict_json(struct json *json, const struct report *report);

/* Step by step (report_steps.c). Below: the only view of a csv. */
void report_steps_print(const struct report *report);

/* Finds the steps that the program states, into `stated`; stepview_done frees them. */
void report_stated_find(struct report *report);

/*
 * The call sites that grow from round to round, for rounds that the program states (growth.h); for
 * --view leaks also those that may grow or were filled, and why nothing is known. Prints nothing if
 * there are none.
 */
void report_growth_print(const struct report *report);
void report_steps_json(struct json *json, const struct report *report);
/* "steps", for steps that were found already. */
void report_steps_json_view(
        struct json *json, const struct report *report, const struct stepview *view);
void report_steps_json_only(const struct report *report);
/*
 * Sums by place, area C (report_places.c): the holders of memory when most of it was live, those
 * that hold it still, and allocations that are freed at once. Of the whole run, whatever the
 * window.
 */
void report_high_print(const struct report *report);
void report_leaks_print(const struct report *report);
void report_temporary_print(const struct report *report);
void report_places_json(struct json *json, const struct report *report);

/*
 * Whether the high-water mark comes from area C: the events lack it, and the window is the whole
 * run.
 */
bool report_has_high(const struct report *report);

/*
 * Whether events are missing in the window, so that sums over blocks cover only the recorded ones.
 */
bool report_lacks_events(const struct report *report);

/*
 * Whether the allocations and the blocks live at the end are known: for the whole run, and for a
 * window that is recorded.
 */
bool report_has_sums(const struct report *report);

/* Event index: the blocks live there are those at the window's maximum, by the recorded events. */
uint32_t report_peak(const struct report *report);

/*
 * Finds the window from `from` and `to`, or of a step by the number that --view steps gives it (0:
 * none), or from between[0] on (--between; between[0] NULL: none). Names may be steps, too:
 * "step:4" where no anchor is called step (report_window.c). 0, or an exit code after one line on
 * stderr.
 */
int report_window_find(struct report *report, uint64_t step, const char *const between[2]);

/* Whether a block was made in the stretch of --between; without the option: in the window. */
bool report_is_made(const struct report *report, const struct trace_block *block);

/* How much was made in that stretch, and is still there at its end, and at the window's. */
void report_between_print(const struct report *report);
void report_between_json(struct json *json, const struct report *report);

/* The value of a setting in the run, "" = none. */
const char *report_setting(const struct read_capture *capture, const char *name);

/* The view of this name; VIEW_COUNT = there is none. */
enum view report_view_named(const char *name);

/* The columns that a view's table can be sorted by; NULL: its rows cannot be selected. */
const struct rowpick_fields *report_view_fields(enum view view);

/* For "did you mean"; NULL = none is near. */
const char *report_view_nearest(const char *name);

/* Prints a line for each view about the question that it answers. */
void report_views_explain(void);

/* Prints the views that are not printed and have data, with their commands. */
void report_views_print(const struct report *report);

/* "SOT_CALL_0 (2)" as the last cell of a row, in the form of render_label. */
void report_anchor_print(const struct trace_anchor *anchor, unsigned used);

/*
 * The first screen of a report (report_screen.c): the sentences of the answer, the lines that held
 * most, and the shape of the run (report_timeline_print).
 */
void report_answer_print(const struct report *report, const struct answer *answer);
void report_lines_print(const struct report *report, const struct answer_lines *lines);

/*
 * Tensors in the segments of PyTorch's own allocator, as PyTorch recorded them (report_tensors.c):
 * a report of their own, into report->tensors, for the whole run; report_tensors_done frees it.
 * report_tensors_only puts the tensors in the place of the run: 0, or CMD_BAD after one line on
 * stderr.
 */
bool report_tensors_are_there(const struct report *report);
int report_tensors_only(const char *who, struct load *io_load);
void report_tensors_find(struct report *report);
void report_tensors_done(struct report *report);
void report_tensors_print(const struct report *report);
void report_tensors_note(const struct report *report); /* of a view: its rows are segments */
void report_tensors_json(struct json *json, const struct report *report);

void report_text_print(const struct report *report);
void report_json_print(const struct report *report);

/* All keys of --json, into the open object; for a page the keys that it shows, without "steps". */
void report_json(struct json *json, const struct report *report);

/* How the process ended, as far as the file records it; the caller frees it. */
char *report_end_text(const struct read_capture *capture);

/* Whether the anchor was entered in the window. */
bool report_has_anchor(const struct report *report, size_t anchor);

#endif
