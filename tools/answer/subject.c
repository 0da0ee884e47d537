/* SPDX-License-Identifier: MIT */
#include "tools/answer/subject.h"

#include <stdlib.h>
#include <string.h>

#include "tools/base/keytable.h"
#include "tools/base/vec.h"
#include "tools/symbols/framekind.h"
#include "tools/symbols/stackfold.h"

enum {
    LEAST_GAIN = 20, /* what grows is told from this part of all bytes on */
};

void subject_done(struct subject *subject)
{
    free(subject->title);
    free(subject->has);
    *subject = (struct subject){0};
}

/* ---- growth --------------------------------------------------------------------------------- */

static uint64_t subject_gain(const struct growth_site *site)
{
    return site->is.last - site->is.first;
}

/* The sites that grow. */
static const struct growth_site *growing_sites(const struct subject_facts *facts, size_t *ret_count)
{
    *ret_count = facts->growth.counts[TREND_GROWS];
    return growth_first(&facts->growth, TREND_GROWS);
}

/* Whether the site stands for the stack. */
static bool is_of_site(
        const struct subject_facts *facts, const struct growth_site *site, uint32_t stack)
{
    return site->stack && facts->growth.alike[stack] == site->stack;
}

/* The sum of what the sites of `has` (NULL: all) gain that rise with one of them, the `first`. */
static struct growth_site growth_with(
        const struct subject_facts *facts, const bool *has, const struct growth_site *first)
{
    struct growth_site sum = *first;
    size_t count;
    const struct growth_site *sites = growing_sites(facts, &count);

    for (size_t i = 0; i < count; i++) {
        bool is_in = sites[i].stack && (!has || has[sites[i].stack]);

        if (!is_in || &sites[i] == first || !growth_is_one(&sites[i], first))
            continue;
        trend_join(&sum.is, &sites[i].is);
    }
    return sum;
}

/* The leak that gains most among the stacks of `has` (NULL: all): its first site, and the sum. */
static const struct growth_site *largest_leak(
        const struct subject_facts *facts, const bool *has, struct growth_site *ret_sum)
{
    const struct growth_site *found = NULL;
    size_t count;
    const struct growth_site *sites = growing_sites(facts, &count);

    for (size_t i = 0; i < count; i++) {
        if (!sites[i].stack || (has && !has[sites[i].stack]))
            continue;
        struct growth_site sum = growth_with(facts, has, &sites[i]);
        if (found && subject_gain(&sum) <= subject_gain(ret_sum))
            continue;
        found = &sites[i];
        *ret_sum = sum;
    }
    return found;
}

struct subject subject_of_line(const struct subject_facts *facts, const struct answer_line *line)
{
    size_t count = facts->load->trace->stack_count;
    struct subject subject = {.title = vec_text(line->title),
            .has = vec_new(count, sizeof(*subject.has)),
            .bytes = line->bytes,
            .blocks = line->blocks};

    for (size_t i = 0; i < count; i++)
        subject.has[i] = strcmp(facts->titles[i], line->title) == 0;
    subject.grows = largest_leak(facts, subject.has, &subject.growth) != NULL;
    return subject;
}

/* ---- one leak in several lines -------------------------------------------------------------- */

/* The line at a distance from the outermost one. */
static struct key outer_line(const struct stackfold *fold, size_t at)
{
    return symbols_line_key(fold->kept[fold->count - 1 - at]);
}

static bool is_same_key(struct key key, struct key other)
{
    return key.a == other.a && key.b == other.b && key.c == other.c;
}

/* How many of the outer program lines of two stacks are the same. */
static size_t outer_lines_shared(const struct stackfold *fold, const struct stackfold *other)
{
    size_t most = min_of(fold->count, other->count);
    size_t count = 0;

    while (count < most && is_same_key(outer_line(fold, count), outer_line(other, count)))
        count++;
    return count;
}

/* A site of the leak, with its program lines. */
struct twig {
    const struct growth_site *site;
    struct stackfold fold;
};

/* What the twigs gain together that go on with the line of one of them behind `lines` lines. */
static uint64_t gain_beyond(
        const struct twig *twigs, size_t count, const struct twig *twig, size_t lines)
{
    uint64_t gain = 0;

    for (size_t i = 0; i < count; i++)
        if (outer_lines_shared(&twigs[i].fold, &twig->fold) > lines)
            gain += subject_gain(twigs[i].site);
    return gain;
}

/*
 * The innermost line that this part of the leak's growth goes through: a site below it, and the
 * number of that line from outside.
 */
static const struct growth_site *leak_line(const struct subject_facts *facts,
        const struct growth_site *first, uint64_t part, size_t *ret_lines)
{
    size_t site_count;
    const struct growth_site *sites = growing_sites(facts, &site_count);
    struct twig *twigs = vec_new(site_count, sizeof(*twigs));
    const struct growth_site *found = first;
    size_t count = 0;

    *ret_lines = 0;
    for (size_t i = 0; i < site_count; i++)
        if (sites[i].stack && growth_is_one(&sites[i], first))
            twigs[count++] =
                    (struct twig){&sites[i], stackfold_of(facts->symbols, sites[i].stack, false)};
    for (size_t i = 0; i < count; i++)
        while (*ret_lines < twigs[i].fold.count
                && gain_beyond(twigs, count, &twigs[i], *ret_lines) > part) {
            found = twigs[i].site;
            ++*ret_lines;
        }
    for (size_t i = 0; i < count; i++)
        stackfold_done(&twigs[i].fold);
    free(twigs);
    return found;
}

/* The outer program lines of one stack, and how the trace's other stacks have them. */
struct trunk {
    struct stackfold fold;
    size_t *of;      /* per stack: how many of its outer lines it has */
    bool *elsewhere; /* per outer line: other stacks have it, and come there another way */
    size_t own;      /* the number of stacks with lines of the program */
};

static struct trunk trunk_of(const struct subject_facts *facts, uint32_t stack)
{
    size_t stacks = facts->load->trace->stack_count;
    struct trunk trunk = {.fold = stackfold_of(facts->symbols, stack, false),
            .of = vec_new(stacks, sizeof(*trunk.of))};

    trunk.elsewhere = vec_new(trunk.fold.count + 1, sizeof(*trunk.elsewhere));
    for (size_t i = 1; i < stacks; i++) {
        struct stackfold other = stackfold_of(facts->symbols, (uint32_t)i, false);

        trunk.own += other.count > 0;
        trunk.of[i] = outer_lines_shared(&trunk.fold, &other);
        for (size_t line = trunk.of[i]; line < trunk.fold.count; line++)
            for (size_t k = trunk.of[i]; k < other.count && !trunk.elsewhere[line]; k++)
                trunk.elsewhere[line] =
                        is_same_key(outer_line(&trunk.fold, line), outer_line(&other, k));
        stackfold_done(&other);
    }
    return trunk;
}

static void trunk_done(struct trunk *trunk)
{
    stackfold_done(&trunk->fold);
    free(trunk->of);
    free(trunk->elsewhere);
}

/* "evaluate run.py:90 < main run.py:120": the line, and the one that calls it. */
static char *limb_title(const struct trunk *trunk, size_t lines)
{
    const struct symbols_line *line = trunk->fold.kept[trunk->fold.count - lines];
    char *title = framekind_text(line, framekind_of(line));

    if (lines > 1) {
        const struct symbols_line *caller = trunk->fold.kept[trunk->fold.count - lines + 1];
        char *outer = framekind_text(caller, framekind_of(caller));
        char *both = vec_format("%s < %s", title, outer);

        free(title);
        free(outer);
        title = both;
    }
    return title;
}

/* All stacks that begin with as many lines of the trunk. */
static struct subject trunk_limb(
        const struct subject_facts *facts, const struct trunk *trunk, size_t lines)
{
    size_t stacks = facts->load->trace->stack_count;
    struct subject subject = {
            .title = limb_title(trunk, lines), .has = vec_new(stacks, sizeof(*subject.has))};

    for (size_t i = 1; i < stacks; i++) {
        subject.has[i] = trunk->of[i] >= lines;
        subject.bytes += subject.has[i] ? facts->lines->of_stack[i].bytes : 0;
        subject.blocks += subject.has[i] ? facts->lines->of_stack[i].count : 0;
    }
    subject.grows = largest_leak(facts, subject.has, &subject.growth) != NULL;
    return subject;
}

/* Whether it is a main loop: most places of the program are below it, or most does not grow. */
static bool is_main_loop(
        const struct subject_facts *facts, const struct trunk *trunk, const struct subject *subject)
{
    uint64_t growing = 0;
    size_t below = 0, count;
    const struct growth_site *sites = growing_sites(facts, &count);

    for (uint32_t stack = 1; stack < facts->load->trace->stack_count; stack++) {
        below += subject->has[stack];
        for (size_t i = 0; i < count && subject->has[stack]; i++)
            if (is_of_site(facts, &sites[i], stack))
                growing += facts->lines->of_stack[stack].bytes;
    }
    return growing < subject->bytes / 2 || below > trunk->own / 4 * 3;
}

/* The line of the table below which a leak gains most; no title: none does. */
static struct subject leaking_line(
        const struct subject_facts *facts, const struct growth_site *first)
{
    struct subject found = {0};

    for (size_t i = 0; i < facts->lines->count; i++) {
        struct subject subject = subject_of_line(facts, &facts->lines->list[i]);

        if (subject.grows && growth_is_one(&subject.growth, first)
                && (!found.title || subject_gain(&subject.growth) > subject_gain(&found.growth))) {
            struct subject before = found;

            found = subject;
            subject = before;
        }
        subject_done(&subject);
    }
    return found;
}

/*
 * The line through which this part of the leak's growth goes, and nothing that comes there another
 * way; no title: it is the one that allocates, or a main loop.
 */
static struct subject leaking_limb(
        const struct subject_facts *facts, const struct growth_site *first, uint64_t part)
{
    size_t lines;
    const struct growth_site *site = leak_line(facts, first, part, &lines);
    struct trunk trunk = trunk_of(facts, site->stack);
    struct subject limb = {0};

    while (lines && trunk.elsewhere[lines - 1])
        lines--;
    if (lines && lines < trunk.fold.count)
        limb = trunk_limb(facts, &trunk, lines);
    if (limb.title && is_main_loop(facts, &trunk, &limb))
        subject_done(&limb);
    trunk_done(&trunk);
    return limb;
}

/* What else is below the line is not part of the leak: the whole training is, below fit(). */
static void keep_what_grows(const struct subject_facts *facts, struct subject *subject)
{
    size_t count, stacks = facts->load->trace->stack_count;
    const struct growth_site *sites = growing_sites(facts, &count);
    bool *grows = vec_new(stacks, sizeof(*grows));

    subject->bytes = subject->blocks = 0;
    for (uint32_t stack = 1; stack < stacks; stack++) {
        for (size_t i = 0; i < count && subject->has[stack] && !grows[stack]; i++)
            grows[stack] = is_of_site(facts, &sites[i], stack)
                    && growth_is_one(&sites[i], &subject->growth);
        subject->bytes += grows[stack] ? facts->lines->of_stack[stack].bytes : 0;
        subject->blocks += grows[stack] ? facts->lines->of_stack[stack].count : 0;
    }
    free(subject->has);
    subject->has = grows;
}

/* Whether what grows in other rounds is so little that the leak's sum is that of all that grows. */
static bool is_all_that_grows(const struct subject_facts *facts, const struct growth_site *sum)
{
    uint64_t others = 0;
    size_t count;
    const struct growth_site *sites = growing_sites(facts, &count);

    for (size_t i = 0; i < count; i++)
        others += growth_is_one(&sites[i], sum) ? 0 : subject_gain(&sites[i]);
    return others < subject_gain(sum) / LEAST_GAIN;
}

/* Nearly all of a leak is told by one line where there is one, else most of it. */
static const unsigned leak_parts[] = {95, 60}; /* percent */

struct subject subject_growing(const struct subject_facts *facts)
{
    uint64_t least = facts->lines->peak / LEAST_GAIN;
    struct growth_site sum;
    const struct growth_site *first = largest_leak(facts, NULL, &sum);
    struct subject subject = {0};

    if (!first || facts->lines->peak == UINT64_MAX)
        return subject;
    struct subject line = leaking_line(facts, first);
    for (size_t i = 0; i < sizeof(leak_parts) / sizeof(*leak_parts) && !subject.title; i++)
        subject = leaking_limb(facts, first, subject_gain(&sum) / 100 * leak_parts[i]);
    if (!subject.title || (line.title && line.growth.is.last >= subject.growth.is.last)) {
        subject_done(&subject);
        subject = line;
    } else {
        subject_done(&line);
    }
    if (subject.title) {
        keep_what_grows(facts, &subject);
        subject.all = is_all_that_grows(facts, &sum) ? sum : subject.growth;
    }
    if (subject.title && (subject_gain(&subject.growth) < least || subject.bytes < least))
        subject_done(&subject);
    return subject;
}
