/* SPDX-License-Identifier: MIT */
#include "tools/answer/answer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/answer/subject.h"
#include "tools/base/keytable.h"
#include "tools/base/vec.h"
#include "tools/import/import_capture.h"
#include "tools/load/figures.h"
#include "tools/load/heldnames.h"
#include "tools/load/inside.h"

enum {
    LEAST_HELD = 4,  /* of its bytes at the peak this part must be in a walk before it */
    LEAST_REST = 20, /* a leak is told beside its largest line if others gain this part of it */
};

/* What all sentences are made of. */
struct answer_facts {
    struct subject_facts of;
    struct model_window window;
    const struct model_figures *figures;
    bool has_saved;  /* hints were live, and lowered the peak */
    bool is_failure; /* the lines are of the moment when memory ran out, not of the peak */
};

/* ---- holders -------------------------------------------------------------------------------- */

/* Blocks of a subject whose holders differ in keys and indices at most. */
struct answer_holder {
    const char *text; /* of struct read_held, of the first row */
    bool is_one;      /* all rows have this text */
    bool is_short; /* they differ in what is between the first index and the last attribute, too */
    uint64_t bytes, count;
};

/* "sessions[*][*]" of "sessions['user-1'][0]": all in brackets is a star. The caller frees it. */
static char *without_keys(const char *text)
{
    char *plain = vec_new(2 * strlen(text) + 1, 1);
    size_t length = 0;
    unsigned depth = 0;

    for (; *text; text++) {
        depth -= *text == ']' && depth > 0;
        if (depth == 0)
            plain[length++] = *text;
        if (*text == '[' && depth++ == 0)
            plain[length++] = '*';
    }
    return plain;
}

/*
 * "h[*]...lora_B[*] of f" of "h[*].mlp.c_fc.lora_B[*] of f": between the first index and the last
 * attribute of the first holder nothing stays. The caller frees it.
 */
static char *without_middle(const char *text)
{
    const char *first = strchr(text, '\n'); /* behind the kind */
    const char *index = first ? strstr(first, "[*]") : NULL;
    const char *end = index ? index + strcspn(index, " \n") : NULL;
    const char *last = end;

    while (last > index && *last != '.')
        last--;
    return last <= index + 3 ? vec_text(text)
                             : vec_format("%.*s..%s", (int)(index + 3 - text), text, last);
}

static char *holder_plain(const char *text, bool is_short)
{
    char *plain = without_keys(text);
    char *shorter = is_short ? without_middle(plain) : NULL;

    if (shorter)
        free(plain);
    return shorter ? shorter : plain;
}

/* The number of the last walk; if memory ran out, of the last one at a failure. 0: there is none. */
static uint32_t last_walk(const struct load *load)
{
    const struct read_capture *capture = load->capture;
    uint32_t walk = 0;
    bool is_of_failure = false;

    for (size_t i = 0; i < capture->walk_count; i++) {
        bool is_failure = load->oom_count && capture->walk[i].why == FORMAT_WALK_OOM;

        if (is_of_failure && !is_failure)
            continue;
        walk = capture->walk[i].def.id;
        is_of_failure = is_failure;
    }
    return walk;
}

/*
 * The holder of most of its bytes, by the last walk; no text: there was none, or nobody. *ret_seen:
 * its bytes that were live then.
 */
static struct answer_holder largest_holder(const struct answer_facts *facts,
        const struct subject *subject, bool is_short, uint64_t *ret_seen)
{
    const struct read_capture *capture = facts->of.load->capture;
    uint32_t walk = last_walk(facts->of.load);
    struct answer_holder *holders = vec_new(capture->held_count + 1, sizeof(*holders));
    struct answer_holder most = {.is_short = is_short};
    struct keytable index = {0};

    *ret_seen = 0;
    heldnames_fill(facts->of.load, facts->of.symbols);
    for (size_t i = 0; walk && i < capture->held_count; i++) {
        const struct read_held *row = &capture->held[i];

        if (row->walk != walk || !subject->has[facts->of.load->held_stacks[i]])
            continue;
        char *plain = holder_plain(row->text, is_short);
        struct answer_holder *holder = &holders[keytable_number(&index, keytable_text(plain))];
        holder->is_one = !holder->text || (holder->is_one && strcmp(holder->text, row->text) == 0);
        holder->text = holder->text ? holder->text : row->text;
        holder->is_short = is_short;
        free(plain);
        *ret_seen += row->bytes;
        holder->bytes += row->bytes;
        holder->count += row->count;
        if (holder->bytes > most.bytes)
            most = *holder;
    }
    keytable_done(&index);
    free(holders);
    return most;
}

/* What frees the blocks of a holder, where it is known; `text` is the holder's. */
static const char *holder_cure(const char *text)
{
    bool is_graph = strncmp(text, "graph of ", 9) == 0;

    if (strchr(text, '\n') || strstr(text, "gc.collect()")) /* several holders; told */
        return "";
    if (strstr(text, " in the traceback of "))
        return ", error.with_traceback(None) there frees it";
    /* The graph of a loss that a running function has is needed; one in a list of its own is not. */
    if (is_graph && (strncmp(text, "graph of local ", 15) != 0 || strchr(text, '[')))
        return ", .item() or .detach() there frees it";
    return "";
}

/* "; kept by graph of curve[*] (36 of 42 blocks), .item() or .detach() there frees it" */
static char *holder_text(const struct answer_facts *facts, const struct subject *subject)
{
    struct answer_holder holder = {0};
    uint64_t seen = 0;
    bool is_most = false;
    char *text = NULL;

    for (int is_short = 0; is_short < 2 && !is_most && !facts->window.is_named; is_short++) {
        holder = largest_holder(facts, subject, is_short, &seen);
        /* A walk before the peak saw what had grown until then. */
        is_most = holder.bytes >= (facts->is_failure ? subject->bytes : seen) / 2
                && holder.bytes >= subject->bytes / LEAST_HELD;
    }
    char *told = !holder.text ? vec_text("")
            : holder.is_one   ? vec_text(holder.text)
                              : holder_plain(holder.text, holder.is_short);
    const char *first = strchr(told, '\n'); /* behind the kind */
    /* What has no name is no answer. */
    if (!first || !is_most || strstr(first, " of ?")
            || strncmp(first, "\nnothing that ", 14) == 0) {
        free(told);
        return vec_text("");
    }
    first++;
    for (const char *at = first; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        char *more = vec_format("%s%s%.*s", text ? text : "; kept by ", text ? " AND " : "",
                (int)(strchrnul(at, '\n') - at), at);
        free(text);
        text = more;
    }
    char *whole = vec_format("%s (%" PRIu64 " of %" PRIu64 " block%s)%s", text,
            min_of(holder.count, subject->blocks), subject->blocks, render_s(subject->blocks),
            subject->grows ? holder_cure(first) : "");
    free(told);
    free(text);
    return whole;
}

/* ---- sentences ------------------------------------------------------------------------------ */

/* "; +576.00 KiB a step, of +1.56 MiB in all"; the caller frees it. */
static char *growth_sentence(const struct answer_facts *facts, const struct subject *subject)
{
    uint64_t part = growth_bytes(&subject->growth);
    uint64_t all = subject->all.is.rounds ? growth_bytes(&subject->all) : part;
    char *text = growth_text(&facts->of.growth, &subject->growth);
    bool has_more = all > part && all - part >= all / LEAST_REST;
    char *rest = has_more ? vec_format(", of +%s in all", render_bytes(all).text) : vec_text("");
    char *sentence = vec_format("; %s%s", text, rest);

    free(text);
    free(rest);
    return sentence;
}

static void answer_tell(
        const struct answer_facts *facts, const struct subject *subject, struct answer *answer)
{
    const struct answer_lines *lines = facts->of.lines;
    char *growth = subject->grows ? growth_sentence(facts, subject) : vec_text("");
    char *holder = holder_text(facts, subject);
    const char *what = facts->window.is_named ? "of the window's peak"
            : facts->has_saved                ? "of the peak without hints"
                                              : "of the peak";

    answer->sentence[answer->count++] = vec_format("%s %s %u %% %s: %s of %s%s%s", subject->title,
            facts->is_failure ? "held" : "holds", answer_lines_percent(subject->bytes, lines->peak),
            facts->is_failure ? "when memory ran out" : what, render_bytes(subject->bytes).text,
            render_bytes(lines->peak).text, growth, holder);
    free(growth);
    free(holder);
}

/* An imported record has no count, and a capture may have lost some. */
uint64_t answer_failures(const struct load *load)
{
    return load->capture->oom_count > load->oom_count ? load->capture->oom_count : load->oom_count;
}

static char *failure_text(const struct load *load)
{
    const struct load_oom *oom = &load->ooms[load->oom_count - 1];
    char *where = oom->anchor ? figures_anchor_text(&load->trace->anchors[oom->anchor]) : NULL;
    char *times = answer_failures(load) > 1
            ? vec_format(", %" PRIu64 " times", answer_failures(load))
            : vec_text("");
    char *text = vec_format("out of memory: %s asked for%s%s%s%s%s",
            oom->requested ? render_bytes(oom->requested).text : "memory",
            oom->why && *oom->why->call ? " by " : "", oom->why ? oom->why->call : "",
            where ? " in " : "", where ? where : "", times);

    free(times);
    free(where);
    return text;
}

/* A second peak is counted from the run's beginning, and so of the whole run alone. */
static bool has_saved(struct model_window window, const struct model_figures *figures)
{
    const struct model_second *hinted = &figures->hinted;

    return !window.is_named && hinted->released_count > 0 && hinted->released_count != MODEL_UNKNOWN
            && figures->peak_live != MODEL_UNKNOWN && hinted->max < figures->peak_live;
}

static char *saved_text(const struct model_figures *figures)
{
    return vec_format("hints lowered the peak to %s: %s without them, %s saved",
            render_bytes(figures->hinted.max).text, render_bytes(figures->peak_live).text,
            render_bytes(figures->peak_live - figures->hinted.max).text);
}

/* The line that holds most; workspaces only if there is no other. `count` is not 0. */
static const struct answer_line *largest_line(const struct answer_lines *lines)
{
    for (size_t i = 0; i < lines->count; i++)
        if (!title_is_workspace(lines->list[i].title))
            return &lines->list[i];
    return &lines->list[0];
}

static void answer_make(const struct answer_facts *facts, struct answer *answer)
{
    const struct load *load = facts->of.load;
    const struct answer_lines *lines = facts->of.lines;
    struct subject growing = subject_growing(&facts->of);
    struct subject largest = {0};

    if (lines->count)
        largest = subject_of_line(&facts->of, largest_line(lines));
    for (size_t i = 0; growing.title && largest.title && i < load->trace->stack_count; i++)
        if (growing.has[i] && largest.has[i])
            subject_done(&largest); /* a part of it is told */
    answer->has_saved = facts->has_saved;
    if (facts->has_saved)
        answer->sentence[answer->count++] = saved_text(facts->figures);
    if (growing.title)
        answer_tell(facts, &growing, answer);
    if (largest.title && !(growing.title && load->oom_count))
        answer_tell(facts, &largest, answer);
    answer->failure = load->oom_count ? answer->count : ANSWER_SENTENCES;
    if (load->oom_count)
        answer->sentence[answer->count++] = failure_text(load);
    if (largest.title && growing.title && load->oom_count)
        answer_tell(facts, &largest, answer);
    subject_done(&growing);
    subject_done(&largest);
}

struct answer answer_find(const struct load *load, struct symbols *symbols,
        struct model_window window, const struct model_figures *figures,
        const struct stepview *view)
{
    struct answer answer = {.lines = answer_lines_find(load, symbols, window, figures)};
    struct answer_lines failed = answer_lines_at_failure(load, symbols, window);
    struct answer_facts facts = {
            .of = {.load = load, .symbols = symbols},
            .window = window,
            .figures = figures,
            .has_saved = has_saved(window, figures),
            .is_failure = failed.count > 0,
    };
    size_t count = load->trace->stack_count;
    uint32_t *stacks = vec_new(count, sizeof(*stacks));

    for (size_t i = 0; i < count; i++)
        stacks[i] = (uint32_t)i;
    facts.of.lines = facts.is_failure ? &failed : &answer.lines;
    growth_find(load, window, view, &facts.of.growth);
    facts.of.titles = title_ways(symbols, stacks, sizeof(*stacks), 0, count);
    answer_make(&facts, &answer);
    title_done(facts.of.titles, count);
    growth_done(&facts.of.growth);
    answer_lines_done(&failed);
    free(stacks);
    return answer;
}

/* Of a run under PyTorch's own allocator: of the tensors in its segments. */
static struct answer answer_of_tensors(const struct load *load, struct read_capture *capture)
{
    struct load tensors;
    struct symbols *symbols;
    struct answer answer;

    load_capture(load->path, capture, &tensors);
    inside_join(load, &tensors);
    symbols = symbols_new(tensors.trace);
    answer = answer_of_run(&tensors, symbols);
    symbols_free(symbols);
    load_close(&tensors);
    return answer;
}

struct answer answer_of_run(const struct load *load, struct symbols *symbols)
{
    struct read_capture *tensors = load->capture->record.bytes
            ? import_capture_tensors(load->path, load->capture, load->trace)
            : NULL;
    struct model_window window = model_whole(load->trace);
    struct model_figures figures;
    bool is_partial;

    if (tensors)
        return answer_of_tensors(load, tensors);
    figures_of(load, window, &figures, &is_partial);
    return answer_find(load, symbols, window, &figures, NULL);
}

void answer_json(struct json *json, const char *key, const struct answer *answer)
{
    json_begin(json, key, '[');
    for (size_t i = 0; i < answer->count; i++)
        json_text(json, NULL, answer->sentence[i]);
    json_end(json, ']');
}

void answer_done(struct answer *answer)
{
    for (size_t i = 0; i < answer->count; i++)
        free(answer->sentence[i]);
    answer_lines_done(&answer->lines);
}
