/* SPDX-License-Identifier: MIT */
#include "tools/compare/explain_print.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/vec.h"
#include "tools/load/figures.h"
#include "tools/symbols/title.h"

#define ROWS_SHOWN   3
#define ROWS_ON_PAGE 100

/* A row that has a part in a cause, or a cause. */
struct explain_part {
    uint64_t size; /* without its sign */
    uint32_t number;
};

static const struct vec_key explain_print_order[] = {
        VEC_DOWN(struct explain_part, size), VEC_UP(struct explain_part, number)};

/* The key of a cause, and what its line says where bad has more and where it has less. */
static const struct {
    const char *key, *more, *less;
} explain_print_words[EXPLAIN_CAUSES] = {
        [EXPLAIN_KEPT] = {"kept", "kept until the end, not in good",
                "kept until the end in good, not in bad"},
        [EXPLAIN_LATE] = {"late", "freed later than in good", "freed earlier than in good"},
        [EXPLAIN_LARGER] = {"larger", "as many blocks, larger ones",
                "as many blocks, smaller ones"},
        [EXPLAIN_MORE] = {"more", "more allocations than in good",
                "fewer allocations than in good"},
        [EXPLAIN_LONE] = {"lone", "allocated in one run only", "allocated in one run only"},
        [EXPLAIN_ORDER] = {"order", "another order", "another order"},
};

/* Reserved bytes beyond the live ones. */
static int64_t explain_print_fragmentation(const struct explain_print *print)
{
    return (int64_t)((uint64_t)print->reserved - (uint64_t)print->explain->difference);
}

static uint64_t explain_print_size(int64_t bytes)
{
    return bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes;
}

/* "+80.00 MiB", "-1.00 MiB", "0.00 B" */
static struct render_bytes explain_print_bytes(int64_t bytes)
{
    struct render_bytes text;

    (void)snprintf(text.text, sizeof(text.text), "%s%.*s",
            bytes < 0           ? "-"
                    : bytes > 0 ? "+"
                                : "",
            (int)sizeof(text.text) - 2, render_bytes(explain_print_size(bytes)).text);
    return text;
}

/* ---- titles --------------------------------------------------------------------------------- */

/* Titles of the rows of one run, at the numbers of all rows. */
static void explain_print_titles_of(
        const struct explain *explain, struct symbols *symbols, bool is_good, char **titles)
{
    struct model_live *stacks = vec_new(explain->row_count, sizeof(*stacks));
    size_t count = 0;

    for (size_t i = 0; i < explain->row_count; i++)
        if (explain->rows[i].is_good == is_good)
            stacks[count++].stack = explain->rows[i].stack;
    char **found = title_rows(symbols, TITLE_STACKS(stacks), count);
    for (size_t i = 0, next = 0; i < explain->row_count; i++)
        if (explain->rows[i].is_good == is_good)
            titles[i] = found[next++];
    free((void *)found);
    free(stacks);
}

/* By row. title_done frees them. */
static char **explain_print_titles(const struct explain_print *print)
{
    char **titles = vec_new(print->explain->row_count, sizeof(*titles));

    explain_print_titles_of(print->explain, print->bad_symbols, false, titles);
    explain_print_titles_of(print->explain, print->good_symbols, true, titles);
    return titles;
}

/* ---- parts ---------------------------------------------------------------------------------- */

/* The rows of a cause, most bytes first; the caller frees them. */
static struct explain_part *explain_print_rows(
        const struct explain *explain, unsigned cause, size_t *ret_count)
{
    struct explain_part *parts = vec_new(explain->row_count, sizeof(*parts));
    size_t count = 0;

    for (uint32_t i = 0; i < explain->row_count; i++) {
        int64_t bytes = explain->rows[i].cause[cause].bytes;
        if (bytes)
            parts[count++] = (struct explain_part){explain_print_size(bytes), i};
    }
    VEC_SORT_BY(parts, count, explain_print_order);
    *ret_count = count;
    return parts;
}

static void explain_print_order_causes(const struct explain *explain, struct explain_part *parts)
{
    for (uint32_t k = 0; k < EXPLAIN_CAUSES; k++)
        parts[k] = (struct explain_part){explain_print_size(explain->cause[k].bytes), k};
    VEC_SORT_BY(parts, EXPLAIN_CAUSES, explain_print_order);
}

/* The anchor in which an event allocated; NULL: in none, or it is not known. */
static const struct trace_anchor *explain_print_anchor(const struct trace *trace, uint32_t at)
{
    if (at == TRACE_NEVER || trace->events[at].kind != TRACE_ALLOC)
        return NULL;
    uint32_t anchor = trace->blocks[trace->events[at].block].anchor;
    return anchor ? &trace->anchors[anchor] : NULL;
}

/* "in step (4)", "outside of all anchors"; the caller frees it. */
static char *explain_print_place(const struct trace *trace, uint32_t at)
{
    const struct trace_anchor *anchor = explain_print_anchor(trace, at);

    if (!anchor)
        return vec_text("outside of all anchors");
    char *name = figures_anchor_text(anchor);
    char *text = vec_format("in %s", name);
    free(name);
    return text;
}

/* ---- text ----------------------------------------------------------------------------------- */

/* Where the peaks are, if the lower one is at another place. */
static void explain_print_elsewhere(FILE *out, const struct explain_print *print)
{
    const struct explain *explain = print->explain;
    bool is_lower = explain->is_lower;

    if (explain->there == (is_lower ? explain->bad_at : explain->good_at))
        return;
    char *bad = explain_print_place(print->bad, explain->bad_at);
    char *good = explain_print_place(print->good, explain->good_at);
    bool is_same = strcmp(bad, good) == 0;
    char *text = vec_format("%s peak is %s: %s holds %s there, and has its own peak %s",
            is_lower ? "good's" : "bad's", is_lower ? good : bad, is_lower ? "bad" : "good",
            render_bytes(explain->there_bytes).text,
            is_same            ? "at another moment"
                    : is_lower ? bad
                               : good);
    (void)fprintf(out, "%15s", "");
    render_label(out, text, 15, 15);
    free(bad);
    free(good);
    free(text);
}

static void explain_print_cause(
        FILE *out, const struct explain_print *print, unsigned cause, char *const *titles)
{
    const struct explain *explain = print->explain;
    struct render_ink ink = render_ink(out);
    struct explain_sum sum = explain->cause[cause];
    size_t count;
    struct explain_part *parts = explain_print_rows(explain, cause, &count);
    bool is_little = explain_print_size(sum.bytes) < explain_print_size(explain->difference) / 100;
    uint64_t top = print->top ? print->top : is_little ? 0 : ROWS_SHOWN;

    if (count || sum.bytes)
        (void)fprintf(out, "%s%13s%s  %s\n", ink.bold, explain_print_bytes(sum.bytes).text, ink.off,
                sum.bytes < 0 ? explain_print_words[cause].less : explain_print_words[cause].more);
    for (size_t i = 0; i < count && i < top; i++) {
        const struct explain_row *row = &explain->rows[parts[i].number];
        (void)fprintf(out, "    %13s  %6" PRId64 "  %s",
                explain_print_bytes(row->cause[cause].bytes).text, row->cause[cause].count,
                row->is_good ? "good: " : "");
        render_label(out, titles[parts[i].number], row->is_good ? 33 : 27, 27);
    }
    if (cause == EXPLAIN_ORDER && sum.bytes)
        explain_print_elsewhere(out, print);
    if (top)
        figures_print_more(count, top, "row");
    free(parts);
}

static void explain_print_causes(FILE *out, const struct explain_print *print)
{
    const struct explain *explain = print->explain;
    struct explain_part causes[EXPLAIN_CAUSES];
    char **titles = explain_print_titles(print);

    explain_print_order_causes(explain, causes);
    for (unsigned i = 0; i < EXPLAIN_CAUSES; i++)
        explain_print_cause(out, print, causes[i].number, titles);
    (void)fprintf(out, "%13s  not explained\n", explain_print_bytes(explain->rest).text);
    title_done(titles, explain->row_count);
}

/* Whether a cause has any part in equal peaks, too. */
static bool explain_print_has_parts(const struct explain *explain)
{
    for (size_t i = 0; i < explain->row_count; i++)
        for (unsigned k = 0; k < EXPLAIN_CAUSES; k++)
            if (explain->rows[i].cause[k].bytes)
                return true;
    return explain->rest != 0;
}

static void explain_print_reserved(FILE *out, const struct explain_print *print)
{
    if (print->has_reserved && print->reserved)
        render_label_of(out, 0, 4, "Reserved: %s, of which %s is live and %s fragmentation",
                explain_print_bytes(print->reserved).text,
                explain_print_bytes(print->explain->difference).text,
                explain_print_bytes(explain_print_fragmentation(print)).text);
}

static void explain_print_head(FILE *out, const struct explain_print *print)
{
    int64_t difference = print->explain->difference;
    uint64_t size = explain_print_size(difference);

    if (size == 0) {
        (void)fputs("The peaks of what is live are equal\n", out);
        return;
    }
    (void)fprintf(
            out, "The %speak is %s", print->is_exact ? "" : "recorded ", render_bytes(size).text);
    if (print->good_peak)
        (void)fprintf(out, " (%.0f %%)", 100.0 * (double)size / (double)print->good_peak);
    (void)fprintf(out, " %s in bad:\n", difference < 0 ? "lower" : "higher");
}

void explain_print_text(FILE *out, const struct explain_print *print)
{
    if (!print->explain) {
        (void)fputs("Why the peaks differ is not known\n", out);
        return;
    }
    explain_print_head(out, print);
    if (explain_print_has_parts(print->explain))
        explain_print_causes(out, print);
    explain_print_reserved(out, print);
    if (print->lacks)
        render_label_of(out, 0, 4,
                "note: %s: what is freed later, and another order, is told by the sums of call "
                "sites at the peaks",
                print->lacks);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void explain_print_json_row(struct json *json, const struct explain_print *print,
        const struct explain_row *row, const struct explain_sum *sum, const char *title)
{
    struct symbols *symbols = row->is_good ? print->good_symbols : print->bad_symbols;

    json_begin(json, NULL, '{');
    json_text(json, "title", title);
    json_text(json, "site", symbols_site(symbols, row->stack));
    json_text(json, "python_site", symbols_pysite(symbols, row->stack));
    json_text(json, "run", row->is_good ? "good" : "bad");
    json_int(json, "bytes", sum->bytes);
    json_int(json, "count", sum->count);
    figures_json_stack(json, symbols, row->stack, "stack");
    json_end(json, '}');
}

static void explain_print_json_cause(
        struct json *json, const struct explain_print *print, unsigned cause, char *const *titles)
{
    const struct explain *explain = print->explain;
    size_t count;
    struct explain_part *parts = explain_print_rows(explain, cause, &count);

    json_begin(json, NULL, '{');
    json_text(json, "cause", explain_print_words[cause].key);
    json_int(json, "bytes", explain->cause[cause].bytes);
    json_int(json, "count", explain->cause[cause].count);
    size_t shown = json_begin_rows(json, "rows", count, ROWS_ON_PAGE);
    for (size_t i = 0; i < shown; i++) {
        const struct explain_row *row = &explain->rows[parts[i].number];
        explain_print_json_row(json, print, row, &row->cause[cause], titles[parts[i].number]);
    }
    json_end(json, ']');
    json_end(json, '}');
    free(parts);
}

static void explain_print_json_causes(struct json *json, const struct explain_print *print)
{
    struct explain_part causes[EXPLAIN_CAUSES];
    char **titles = explain_print_titles(print);

    explain_print_order_causes(print->explain, causes);
    json_begin(json, "causes", '[');
    for (unsigned i = 0; i < EXPLAIN_CAUSES; i++)
        explain_print_json_cause(json, print, causes[i].number, titles);
    json_end(json, ']');
    title_done(titles, print->explain->row_count);
}

/* null where it is not known. */
static void explain_print_json_int(struct json *json, const char *key, bool is_known, int64_t value)
{
    if (is_known)
        json_int(json, key, value);
    else
        json_text(json, key, NULL);
}

static void explain_print_json_anchor(
        struct json *json, const char *key, const struct trace *trace, uint32_t at)
{
    const struct trace_anchor *anchor = explain_print_anchor(trace, at);
    char *text = anchor ? figures_anchor_text(anchor) : NULL;

    json_text(json, key, text);
    free(text);
}

void explain_print_json(struct json *json, const struct explain_print *print)
{
    const struct explain *explain = print->explain;
    int64_t live = explain ? explain->difference : 0;
    bool has_there = explain && explain->there != TRACE_NEVER;

    json_begin(json, "difference", '{');
    explain_print_json_int(json, "peak_live_bytes", explain != NULL, live);
    explain_print_json_int(json, "peak_reserved_bytes", print->has_reserved, print->reserved);
    explain_print_json_int(json, "fragmentation_bytes", explain && print->has_reserved,
            explain ? explain_print_fragmentation(print) : 0);
    explain_print_json_int(
            json, "not_explained_bytes", explain != NULL, explain ? explain->rest : 0);
    json_text(json, "missing", print->lacks);
    if (explain) {
        explain_print_json_anchor(json, "bad_anchor", print->bad, explain->bad_at);
        explain_print_json_anchor(json, "good_anchor", print->good, explain->good_at);
        json_text(json, "there_run", explain->is_lower ? "bad" : "good");
        explain_print_json_int(json, "there_bytes", has_there, (int64_t)explain->there_bytes);
        explain_print_json_causes(json, print);
    }
    json_end(json, '}');
}
