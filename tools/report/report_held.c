/* SPDX-License-Identifier: MIT */
#include "tools/report/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/keytable.h"
#include "tools/base/vec.h"
#include "tools/load/heldnames.h"

#define HELD_WORD           " AND "
#define REPORT_HELD_ON_PAGE 200u

/* Blocks with the same holders, of all call sites. */
struct held_group {
    const char *text; /* of struct read_held */
    uint64_t bytes, count;
    uint32_t stack; /* that allocated most of them, */
    uint64_t most;  /* as many bytes */
    unsigned sites;
};

struct held_groups {
    struct held_group *list; /* most bytes first */
    size_t count;
};

static const struct vec_key report_held_by_bytes[] = {VEC_DOWN(struct held_group, bytes)};

static void report_held_add(struct held_group *group, const struct read_held *row, uint32_t stack)
{
    group->bytes += row->bytes;
    group->count += row->count;
    group->sites++;
    if (row->bytes > group->most) {
        group->most = row->bytes;
        group->stack = stack;
    }
}

static struct held_groups report_held_groups(const struct report *report, uint32_t walk)
{
    const struct read_capture *capture = report->load.capture;
    struct held_groups groups = {.list = vec_new(capture->held_count, sizeof(*groups.list))};
    struct keytable index = {0};

    heldnames_fill(&report->load, report->symbols);
    for (size_t i = 0; i < capture->held_count; i++) {
        const struct read_held *row = &capture->held[i];
        uint32_t at;

        if (row->walk != walk)
            continue;
        at = keytable_number(&index, keytable_text(row->text));
        if (at == groups.count)
            groups.list[groups.count++] = (struct held_group){.text = row->text};
        report_held_add(&groups.list[at], row, report->load.held_stacks[i]);
    }
    keytable_done(&index);
    VEC_SORT_BY(groups.list, groups.count, report_held_by_bytes);
    return groups;
}

/* The first line of a row's text, its kind; what follows are its holders. */
static char *report_held_kind(const char *text, const char **ret_holders)
{
    const char *end = strchrnul(text, '\n');

    *ret_holders = *end ? end + 1 : end;
    return vec_format("%.*s", (int)(end - text), text);
}

static const struct format_def_walk *report_held_walk(
        const struct report *report, enum format_walk_why why, uint64_t failures)
{
    const struct read_capture *capture = report->load.capture;
    const struct format_def_walk *found = NULL;

    for (size_t i = 0; i < capture->walk_count; i++)
        if (capture->walk[i].why == (uint32_t)why && capture->walk[i].failures <= failures)
            found = &capture->walk[i];
    return found;
}

static const char *report_held_when(const struct format_def_walk *walk)
{
    static const char *const words[FORMAT_WALK_COUNT] = {[FORMAT_WALK_NONE] = "",
            [FORMAT_WALK_OOM] = "that moment",
            [FORMAT_WALK_END] = "the end",
            [FORMAT_WALK_ASKED] = "the moment when kedge held asked",
            [FORMAT_WALK_STEP] = "the end of a step",
            [FORMAT_WALK_GROWN] = "a moment when memory had grown"};

    return words[walk->why];
}

/* ---- text ---- */

static void report_held_print_row(const struct held_group *group, const char *title)
{
    const char *at;
    char *kind = report_held_kind(group->text, &at);
    char *line = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&line, &size);

    if (!out)
        vec_out_of_memory();
    (void)fprintf(out, "%s: ", kind);
    for (const char *end; *at; at = *end ? end + 1 : end) {
        end = strchrnul(at, '\n');
        (void)fprintf(out, "%.*s%s", (int)(end - at), at, *end ? HELD_WORD : "");
    }
    (void)fclose(out);
    printf("    %12s %8" PRIu64 "  ", render_bytes(group->bytes).text, group->count);
    render_label(stdout, line, 27, 8);
    printf("    %12s %8s  allocated by ", "", "");
    if (group->sites > 1)
        render_label_of(stdout, 40, 8, "%s, and %u other place%s", title, group->sites - 1,
                render_s(group->sites - 1));
    else
        render_label(stdout, title, 40, 8);
    free(line);
    free(kind);
}

static void report_held_print_limits(const struct format_def_walk *walk)
{
    if (walk->flags & FORMAT_WALK_CUT)
        puts("    The walk came to its bound (KEDGE_HELD=seconds=): other objects may hold these.");
    if (walk->flags & FORMAT_WALK_BUSY)
        puts("    Another thread was at work or in a backward pass: graphs and gradients were not "
             "read.");
    if (walk->flags & FORMAT_WALK_LACKS)
        puts("    This PyTorch lacks names that are needed: graphs of autograd were not read.");
    if (walk->flags & FORMAT_WALK_BLOCKS)
        puts("    There were more blocks than a walk takes.");
    if (walk->flags & FORMAT_WALK_SCAN)
        puts("    A word that is the address of a block holds it here; one that a call has left "
             "over "
             "does, too.");
    if (walk->flags & FORMAT_WALK_THREADS)
        puts("    Some threads ran, or have stacks of an unknown kind: these and their "
             "thread-local "
             "memory were not read.");
    if (walk->flags & FORMAT_WALK_HEAP)
        puts("    The program's malloc is not glibc's: its memory was not read.");
    if (walk->flags & FORMAT_WALK_TLS)
        puts("    Thread-local memory was not read: this glibc's form is not known.");
    if (walk->flags & FORMAT_WALK_PARTS)
        puts("    Of blocks of malloc above 16 MiB, or of very many files, only a part was read.");
}

/* Of the walk of another failure a line says so. */
static void report_held_print_walk(
        const struct report *report, const struct format_def_walk *walk, uint64_t failures)
{
    struct held_groups groups;
    char **titles;
    uint64_t others;

    groups = report_held_groups(report, walk->def.id);
    titles = title_rows(report->symbols, TITLE_STACKS(groups.list), groups.count);
    others = walk->bytes;
    printf("  held by, at %s (%" PRIu64 " %s, %.1f s):\n", report_held_when(walk), walk->objects,
            walk->flags & FORMAT_WALK_SCAN ? "blocks of malloc" : "Python objects",
            (double)walk->spent_ns / 1e9);
    if (walk->why == FORMAT_WALK_OOM && walk->failures != failures)
        printf("    (these are of failure %" PRIu64 ")\n", walk->failures);
    report_held_print_limits(walk);
    for (size_t i = 0; i < groups.count && i < report->top; i++) {
        report_held_print_row(&groups.list[i], titles[i]);
        others -= groups.list[i].bytes < others ? groups.list[i].bytes : others;
    }
    if (others)
        printf("    %12s           others\n", render_bytes(others).text);
    title_done(titles, groups.count);
    free(groups.list);
}

void report_held_print(const struct report *report, enum format_walk_why why, uint64_t failures)
{
    const struct format_def_walk *walk = report_held_walk(report, why, failures);

    if (walk)
        report_held_print_walk(report, walk, failures);
}

/* ---- JSON ---- */

static void report_held_json_row(struct json *json, const struct report *report,
        const struct held_group *group, const char *title)
{
    const char *at;
    char *kind = report_held_kind(group->text, &at);

    json_begin(json, NULL, '{');
    json_uint(json, "bytes", group->bytes);
    json_uint(json, "count", group->count);
    json_text(json, "kind", kind);
    json_begin(json, "held_by", '[');
    for (const char *end; *at; at = *end ? end + 1 : end) {
        char *holder;

        end = strchrnul(at, '\n');
        holder = vec_format("%.*s", (int)(end - at), at);
        json_text(json, NULL, holder);
        free(holder);
    }
    json_end(json, ']');
    json_text(json, "title", title);
    json_uint(json, "place_count", group->sites);
    figures_json_stack(json, report->symbols, group->stack, "stack");
    json_end(json, '}');
    free(kind);
}

static void report_held_json_walk(
        struct json *json, const struct report *report, const struct format_def_walk *walk)
{
    const uint32_t graphs = FORMAT_WALK_BUSY | FORMAT_WALK_LACKS;
    struct held_groups groups;
    char **titles;

    groups = report_held_groups(report, walk->def.id);
    titles = title_rows(report->symbols, TITLE_STACKS(groups.list), groups.count);
    json_uint(json, "failed_count", walk->failures);
    json_uint(json, "live_bytes", walk->bytes);
    json_uint(json, "live_count", walk->count);
    json_uint(json, "object_count", walk->objects);
    json_real(json, "walk_ms", (double)walk->spent_ns / 1e6);
    json_bool(json, "complete", (walk->flags & ~(graphs | FORMAT_WALK_SCAN)) == 0);
    json_bool(json, "graphs_read", (walk->flags & (graphs | FORMAT_WALK_SCAN)) == 0);
    size_t shown = json_begin_rows(json, "rows", groups.count, REPORT_HELD_ON_PAGE);
    for (size_t i = 0; i < shown; i++)
        report_held_json_row(json, report, &groups.list[i], titles[i]);
    json_end(json, ']');
    title_done(titles, groups.count);
    free(groups.list);
}

void report_held_json(struct json *json, const struct report *report, enum format_walk_why why,
        uint64_t failures, const char *key)
{
    const struct format_def_walk *walk = report_held_walk(report, why, failures);

    if (!walk)
        return;
    json_begin(json, key, '{');
    report_held_json_walk(json, report, walk);
    json_end(json, '}');
}

/* ---- one walk ---- */

bool report_held_only(const struct report *report, uint32_t number, bool is_json)
{
    const struct read_capture *capture = report->load.capture;
    const struct format_def_walk *walk = NULL;
    struct json json;

    for (size_t i = 0; i < capture->walk_count; i++)
        if (capture->walk[i].def.id == number)
            walk = &capture->walk[i];
    if (walk && is_json) {
        json = json_open(stdout);
        json_text(&json, "capture", report->path);
        json_uint(&json, "pid", capture->pid);
        report_held_json_walk(&json, report, walk);
        json_end(&json, '}');
    } else if (walk) {
        printf("%s live on all devices in %" PRIu64 " blocks\n", render_bytes(walk->bytes).text,
                walk->count);
        report_held_print_walk(report, walk, walk->failures);
    }
    return walk;
}
