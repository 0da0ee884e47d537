/* SPDX-License-Identifier: MIT */
#include "tools/answer/answer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/keytable.h"
#include "tools/base/vec.h"
#include "tools/load/figures.h"
#include "tools/symbols/framekind.h"
#include "tools/symbols/stackfold.h"

enum {
    LEAST_GAIN = 20, /* what grows is told from this part of the peak on */
};

/* What all sentences are made of. */
struct answer_facts {
    const struct load *load;
    struct symbols *symbols;
    struct model_window window;
    const struct model_figures *figures;
    bool has_saved; /* hints were live, and lowered the peak */
    struct growth growth;
    char **titles; /* of all stacks of the trace */
    const struct answer_lines *lines;
};

/* What a sentence is about: a line of the program, or what all calls made at a line hold. */
struct subject {
    char *title;
    bool *has; /* per stack of the trace */
    uint64_t bytes, blocks;
    bool grows;
    struct growth_site growth; /* the sum of its sites that rise with the one that gains most */
};

static void answer_subject_done(struct subject *subject)
{
    free(subject->title);
    free(subject->has);
    *subject = (struct subject){0};
}

/* ---- growth --------------------------------------------------------------------------------- */

static uint64_t answer_gain(const struct growth_site *site)
{
    return site->is.last - site->is.first;
}

/* Whether two sites are one leak as far as the rounds tell: they rise in as many of the same. */
static bool answer_rises_with(const struct growth_site *site, const struct growth_site *other)
{
    return site->kind == other->kind && site->is.rises == other->is.rises;
}

/* The growing site that gains most among the stacks of `has` (NULL: all); NULL: none grows. */
static const struct growth_site *answer_most_growing(
        const struct answer_facts *facts, const bool *has)
{
    const struct growth_site *sites = growth_first(&facts->growth, TREND_GROWS);
    const struct growth_site *most = NULL;

    for (size_t i = 0; i < facts->growth.counts[TREND_GROWS]; i++)
        if (sites[i].stack && (!has || has[sites[i].stack])
                && (!most || answer_gain(&sites[i]) > answer_gain(most)))
            most = &sites[i];
    return most;
}

static void answer_add_growth(const struct answer_facts *facts, struct subject *subject)
{
    const struct growth_site *most = answer_most_growing(facts, subject->has);
    const struct growth_site *sites = growth_first(&facts->growth, TREND_GROWS);

    if (!most)
        return;
    subject->grows = true;
    subject->growth = *most;
    for (size_t i = 0; i < facts->growth.counts[TREND_GROWS]; i++) {
        if (&sites[i] == most || !subject->has[sites[i].stack]
                || !answer_rises_with(&sites[i], most))
            continue;
        subject->growth.is.first += sites[i].is.first;
        subject->growth.is.last += sites[i].is.last;
    }
}

static struct subject subject_of_line(
        const struct answer_facts *facts, const struct answer_line *line)
{
    size_t count = facts->load->trace->stack_count;
    struct subject subject = {.title = vec_text(line->title),
            .has = vec_new(count, sizeof(*subject.has)),
            .bytes = line->bytes,
            .blocks = line->blocks};

    for (size_t i = 0; i < count; i++)
        subject.has[i] = strcmp(facts->titles[i], line->title) == 0;
    answer_add_growth(facts, &subject);
    return subject;
}

/* ---- one leak in several lines -------------------------------------------------------------- */

/* The line at a distance from the outermost one. */
static struct key answer_outer(const struct stackfold *fold, size_t at)
{
    return symbols_line_key(fold->kept[fold->count - 1 - at]);
}

static bool is_same_key(struct key key, struct key other)
{
    return key.a == other.a && key.b == other.b && key.c == other.c;
}

/* How many of the outer program lines of two stacks are the same. */
static size_t answer_shared(const struct stackfold *fold, const struct stackfold *other)
{
    size_t most = min_of(fold->count, other->count);
    size_t count = 0;

    while (count < most && is_same_key(answer_outer(fold, count), answer_outer(other, count)))
        count++;
    return count;
}

/* Outer program lines of one stack, and how the trace's other stacks have them. */
struct answer_trunk {
    struct stackfold fold;
    size_t shared;   /* the number of outer lines that all sites that grow with it have */
    size_t *of;      /* per stack: how many of its outer lines it has */
    bool *elsewhere; /* per outer line: other stacks have it, and come there another way */
    size_t own;      /* the number of stacks with lines of the program */
};

static void answer_trunk_done(struct answer_trunk *trunk)
{
    stackfold_done(&trunk->fold);
    free(trunk->of);
    free(trunk->elsewhere);
}

static struct answer_trunk answer_trunk_of(
        const struct answer_facts *facts, const struct growth_site *most)
{
    const struct growth_site *sites = growth_first(&facts->growth, TREND_GROWS);
    size_t stacks = facts->load->trace->stack_count;
    struct answer_trunk trunk = {
            .fold = stackfold_of(facts->symbols, most->stack, false),
            .of = vec_new(stacks, sizeof(*trunk.of)),
    };

    trunk.elsewhere = vec_new(trunk.fold.count + 1, sizeof(*trunk.elsewhere));
    for (size_t i = 1; i < stacks; i++) {
        struct stackfold other = stackfold_of(facts->symbols, (uint32_t)i, false);

        trunk.own += other.count > 0;
        trunk.of[i] = answer_shared(&trunk.fold, &other);
        for (size_t line = trunk.of[i]; line < trunk.fold.count; line++)
            for (size_t k = trunk.of[i]; k < other.count && !trunk.elsewhere[line]; k++)
                trunk.elsewhere[line] =
                        is_same_key(answer_outer(&trunk.fold, line), answer_outer(&other, k));
        stackfold_done(&other);
    }
    trunk.shared = trunk.fold.count;
    for (size_t i = 0; i < facts->growth.counts[TREND_GROWS]; i++)
        if (sites[i].stack && answer_rises_with(&sites[i], most))
            trunk.shared = min_of(trunk.shared, trunk.of[sites[i].stack]);
    return trunk;
}

/* All stacks that begin with as many lines of the trunk. */
static struct subject answer_limb(
        const struct answer_facts *facts, const struct answer_trunk *trunk, size_t lines)
{
    const struct symbols_line *line = trunk->fold.kept[trunk->fold.count - lines];
    size_t stacks = facts->load->trace->stack_count;
    struct subject subject = {.title = framekind_text(line, framekind_of(line)),
            .has = vec_new(stacks, sizeof(*subject.has))};

    for (size_t i = 1; i < stacks; i++) {
        subject.has[i] = trunk->of[i] >= lines;
        subject.bytes += subject.has[i] ? facts->lines->of_stack[i].bytes : 0;
        subject.blocks += subject.has[i] ? facts->lines->of_stack[i].count : 0;
    }
    answer_add_growth(facts, &subject);
    return subject;
}

/* Whether it is a main loop: most places of the program are below it, or most does not grow. */
static bool is_main_loop(const struct answer_facts *facts, const struct answer_trunk *trunk,
        const struct subject *subject)
{
    const struct growth_site *sites = growth_first(&facts->growth, TREND_GROWS);
    uint64_t growing = 0;
    size_t below = 0;

    for (size_t i = 0; i < facts->growth.counts[TREND_GROWS]; i++)
        if (subject->has[sites[i].stack])
            growing += facts->lines->of_stack[sites[i].stack].bytes;
    for (size_t i = 1; i < facts->load->trace->stack_count; i++)
        below += subject->has[i];
    return growing < subject->bytes / 2 || below > trunk->own / 2;
}

/*
 * The line below which all sites that grow with `most` are, and nothing comes another way:
 * "evaluate run.py:90" of what each layer keeps there, though training goes through the layers,
 * too. No title: there is none, or one line of the program keeps it all.
 */
static struct subject find_common_line(
        const struct answer_facts *facts, const struct growth_site *most)
{
    struct answer_trunk trunk = answer_trunk_of(facts, most);
    struct subject subject = {0};
    size_t lines = trunk.shared;

    while (lines && trunk.elsewhere[lines - 1])
        lines--;
    if (trunk.shared < trunk.fold.count && lines)
        subject = answer_limb(facts, &trunk, lines);
    if (subject.title && is_main_loop(facts, &trunk, &subject))
        answer_subject_done(&subject);
    answer_trunk_done(&trunk);
    return subject;
}

/* What gains most, if that is enough to be told; no title: nothing does. */
static struct subject find_growing(const struct answer_facts *facts)
{
    const struct growth_site *most = answer_most_growing(facts, NULL);
    uint64_t least = facts->lines->peak / LEAST_GAIN;
    struct subject subject = {0};

    if (!most || facts->lines->peak == UINT64_MAX)
        return subject;
    subject = find_common_line(facts, most);
    for (size_t i = 0; i < facts->lines->count && !subject.title; i++)
        if (strcmp(facts->lines->list[i].title, facts->titles[most->stack]) == 0)
            subject = subject_of_line(facts, &facts->lines->list[i]);
    if (subject.title && (answer_gain(&subject.growth) < least || subject.bytes < least))
        answer_subject_done(&subject);
    return subject;
}

/* ---- holders -------------------------------------------------------------------------------- */

/* Blocks of a subject that the same objects refer to. */
struct answer_holder {
    const char *text; /* of struct read_held */
    uint64_t bytes, count;
};

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

/* The holder of most of its bytes, by the last walk; no text: there was none, or nobody. */
static struct answer_holder largest_holder(
        const struct answer_facts *facts, const struct subject *subject)
{
    const struct read_capture *capture = facts->load->capture;
    uint32_t walk = last_walk(facts->load);
    struct answer_holder *holders = vec_new(capture->held_count + 1, sizeof(*holders));
    struct answer_holder most = {0};
    struct keytable index = {0};

    for (size_t i = 0; walk && i < capture->held_count; i++) {
        const struct read_held *row = &capture->held[i];

        if (row->walk != walk || !subject->has[facts->load->held_stacks[i]])
            continue;
        struct answer_holder *holder = &holders[keytable_number(&index, keytable_text(row->text))];
        holder->text = row->text;
        holder->bytes += row->bytes;
        holder->count += row->count;
        if (holder->bytes > most.bytes)
            most = *holder;
    }
    keytable_done(&index);
    free(holders);
    return most;
}

/* "; kept by graph of curve[*] (36 of 42 blocks), .item() or .detach() there frees it" */
static char *holder_text(const struct answer_facts *facts, const struct subject *subject)
{
    struct answer_holder holder = {0};
    char *text = NULL;
    bool is_kept_graph;

    if (!facts->window.is_named)
        holder = largest_holder(facts, subject);
    const char *first = holder.text ? strchr(holder.text, '\n') : NULL; /* behind the kind */
    if (!first)
        return vec_text("");
    first++;
    /* The graph of a running function's loss is needed: its backward pass is still to come. */
    is_kept_graph = subject->grows && !strchr(first, '\n') && strncmp(first, "graph of ", 9) == 0
            && strncmp(first, "graph of local ", 15) != 0;
    for (const char *at = first; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        char *more = vec_format("%s%s%.*s", text ? text : "; kept by ", text ? " AND " : "",
                (int)(strchrnul(at, '\n') - at), at);
        free(text);
        text = more;
    }
    char *whole = vec_format("%s (%" PRIu64 " of %" PRIu64 " block%s)%s", text,
            min_of(holder.count, subject->blocks), subject->blocks, render_s(subject->blocks),
            is_kept_graph ? ", .item() or .detach() there frees it" : "");
    free(text);
    return whole;
}

/* ---- sentences ------------------------------------------------------------------------------ */

static void answer_tell(
        const struct answer_facts *facts, const struct subject *subject, struct answer *answer)
{
    char *growth = subject->grows ? growth_text(&facts->growth, &subject->growth) : NULL;
    char *holder = holder_text(facts, subject);

    answer->sentence[answer->count++] = vec_format("%s holds %u %% of the %s: %s of %s%s%s%s",
            subject->title, answer_lines_percent(subject->bytes, facts->lines->peak),
            facts->window.is_named     ? "window's peak"
                    : facts->has_saved ? "peak without hints"
                                       : "peak",
            render_bytes(subject->bytes).text, render_bytes(facts->lines->peak).text,
            growth ? "; " : "", growth ? growth : "", holder);
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

static void answer_make(const struct answer_facts *facts, struct answer *answer)
{
    const struct load *load = facts->load;
    struct subject growing = find_growing(facts);
    struct subject largest = {0};
    bool has_failed = load->oom_count > 0;

    answer->has_saved = facts->has_saved;
    if (facts->has_saved)
        answer->sentence[answer->count++] = saved_text(facts->figures);
    if (facts->lines->count)
        largest = subject_of_line(facts, &facts->lines->list[0]);
    if (growing.title && (!has_failed || growing.has[facts->lines->list[0].stack])) {
        answer_tell(facts, &growing, answer);
        if (growing.has[facts->lines->list[0].stack])
            answer_subject_done(&largest); /* it is a part of this */
        answer_subject_done(&growing);
    }
    if (largest.title)
        answer_tell(facts, &largest, answer);
    answer->failure = has_failed ? answer->count : ANSWER_SENTENCES;
    if (has_failed)
        answer->sentence[answer->count++] = failure_text(load);
    if (growing.title)
        answer_tell(facts, &growing, answer);
    answer_subject_done(&growing);
    answer_subject_done(&largest);
}

struct answer answer_find(const struct load *load, struct symbols *symbols,
        struct model_window window, const struct model_figures *figures,
        const struct stepview *view)
{
    struct answer answer = {.lines = answer_lines_find(load, symbols, window, figures)};
    struct answer_facts facts = {.load = load,
            .symbols = symbols,
            .window = window,
            .figures = figures,
            .has_saved = has_saved(window, figures),
            .lines = &answer.lines};
    size_t count = load->trace->stack_count;
    uint32_t *stacks = vec_new(count, sizeof(*stacks));

    for (size_t i = 0; i < count; i++)
        stacks[i] = (uint32_t)i;
    growth_find(load, window, view, &facts.growth);
    facts.titles = title_ways(symbols, stacks, sizeof(*stacks), 0, count);
    answer_make(&facts, &answer);
    title_done(facts.titles, count);
    growth_done(&facts.growth);
    free(stacks);
    return answer;
}

struct answer answer_of_run(const struct load *load, struct symbols *symbols)
{
    struct model_window window = model_whole(load->trace);
    struct model_figures figures;
    bool is_partial;

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
