/* SPDX-License-Identifier: MIT */
#include "tools/commands/cmd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/base/filename.h"
#include "tools/base/keytable.h"
#include "tools/base/vec.h"
#include "tools/check/measure.h"
#include "tools/compare/compare.h"
#include "tools/compare/compare_coverage.h"
#include "tools/evict/cap_hint.h"
#include "tools/load/captures.h"
#include "tools/load/figures.h"
#include "tools/replay/predict.h"
#include "tools/steps/growth.h"
#include "tools/suggest/hintlint.h"
#include "tools/suggest/suggest_file.h"
#include "tools/suggest/suggest_lastuse.h"
#include "tools/suggest/suggest_rules.h"
#include "tools/symbols/builds.h"
#include "tools/symbols/title.h"
#include "tracker/hints/hintfile.h"

struct fields {
    const char *good, *bad, *output, *from, *to;
    uint64_t min_size, cap, bandwidth;
    bool json;
};

static const struct args_option options[] = {
        {"good", "CAPTURE", "the run that frees in time", CMD_TEXT(good)},
        {"bad", "CAPTURE", "the run that frees late", CMD_TEXT(bad)},
        {"output|o", "FILE", "where the hints go (- is standard output)", CMD_OUTPUT(output)},
        {"from", "ANCHOR", "look at what is allocated from the first enter of ANCHOR on",
                CMD_TEXT(from)},
        {"to", "ANCHOR", "and up to the last exit of ANCHOR", CMD_TEXT(to)},
        {"min-size", "SIZE", "leave smaller blocks alone (default 2M)", CMD_SIZE(min_size)},
        {"cap", "SIZE",
                "make the program fit into SIZE of a device: what goes out to the host, and when",
                CMD_SIZE(cap)},
        {"bandwidth", "SIZE",
                "of copies to and from the host, bytes a second (with --cap; default 24G)",
                CMD_SIZE(bandwidth)},
        {"json", NULL, "machine-readable output", CMD_FLAG(json)},
};

/*
 * A path that no capture took may use a block: content of a released block can come back for this
 * long.
 */
#define KEEP_CONTENT 100 /* instances */

#define GROWTH_SHOWN 5
#define HINTS_SHOWN  20 /* of the table; the file has all of them */

struct suggestion {
    const struct fields *fields;
    struct load good, bad;       /* of one run: `bad` is the rank that gets hints */
    bool is_mining;              /* there is only one run */
    struct load *ranks;          /* of one run: the captures of its ranks, as the user named them */
    const struct trace **traces; /* of the ranks */
    size_t rank_count, rank_room;
    struct growers growers; /* of one run: blocks that pile up within its steps */
    struct compare compare;
    struct model_window window; /* of the bad run */
    struct suggest_rules mine;
    struct growth growth;    /* of one run: call sites that grow from round to round */
    struct symbols *symbols; /* of the bad run */
    char **titles;           /* of the hints */
    /* predictions for the whole run; UINT64_MAX, 0 = unknown */
    uint64_t reserved, whole_max;
};

static const char *effect_text(enum suggest_rules_effect effect)
{
    static const char *const texts[] = {
            "effect on the peak not tried", "no effect on the peak", "lowers the peak"};
    return texts[effect];
}

/*
 * ", 2.25 MiB to 12.25 MiB each, 1 to 3 in each SOT_CALL_*"; for one block without its size, which
 * is printed already.
 */
static char *spread_text(const struct suggest_rules_hint *hint)
{
    const struct rule_range *each = &hint->rule.expect.count;
    struct render_bytes least = render_bytes(hint->least);
    struct render_bytes most = render_bytes(hint->most);
    bool is_one_size = hint->least == hint->most;
    char many[48];

    if (hint->count == 1)
        return vec_text("");
    if (each->lo == each->hi)
        (void)snprintf(many, sizeof(many), "%" PRIu64, each->lo);
    else
        (void)snprintf(many, sizeof(many), "%" PRIu64 " to %" PRIu64, each->lo, each->hi);
    return vec_format(", %s%s%s each, %s in each %s", least.text, is_one_size ? "" : " to ",
            is_one_size ? "" : most.text, many, hint->rule.when.anchor);
}

/* "24 late frees, 384.00 MiB, 16.00 MiB each, 1 in each step/0/forward, never used" */
static char *late_text(const struct suggest_rules_hint *hint)
{
    char *spread = spread_text(hint);
    char *unused = hint->unused == 0 ? vec_text("")
            : hint->unused == hint->count
            ? vec_text(", never used")
            : vec_format(", %" PRIu64 " of them never used", hint->unused);
    char *text = vec_format("%" PRIu64 " late free%s, %s%s%s", hint->count, render_s(hint->count),
            render_bytes(hint->bytes).text, spread, unused);

    free(unused);
    free(spread);
    return text;
}

/* "nd" for 2 */
static const char *ordinal_ending(uint32_t number)
{
    static const char *const endings[] = {"th", "st", "nd", "rd"};
    bool is_teen = number / 10 % 10 == 1;

    return endings[is_teen || number % 10 > 3 ? 0 : number % 10];
}

static char *grown_text(const struct suggest_rules_hint *hint)
{
    const struct suggest_growth *grower = hint->grower;

    return vec_format("%zu blocks, %s, given to ncclSend%s%s, and kept: up to %" PRIu64
                      " live at a time\nthe hint releases each at the %" PRIu32
                      "%s ncclRecv in %s after the send, else at the exit of %s",
            grower->count, render_bytes(grower->bytes).text, *grower->sent ? " in " : "",
            grower->sent, grower->most, grower->receives, ordinal_ending(grower->receives),
            grower->received, grower->closing);
}

static char *cmd_suggest_make_comment(struct suggestion *s, size_t number, const char *way)
{
    const struct suggest_rules_hint *hint = &s->mine.hints[number];
    char *what = hint->grower ? grown_text(hint) : late_text(hint);
    char *effect = hint->gain
            ? vec_format("without it the peak is %s higher", render_bytes(hint->gain).text)
            : vec_text(effect_text(hint->effect));
    char *comment =
            vec_format("%s\n%s; %s\nthe first of them: %s", s->titles[number], what, effect, way);

    free(what);
    free(effect);
    return comment;
}

/* What the capture of one rank cannot prove; NULL = no question is open. */
static char *make_proof(const struct suggest_rules_hint *hint)
{
    if (!hint->grower)
        return NULL;
    return vec_format(HINTLINT_PROOF_OPEN
            " when the %" PRIu32
            "%s ncclRecv in %s after the send is over, why has the peer read the whole buffer?",
            hint->grower->receives, ordinal_ending(hint->grower->receives), hint->grower->received);
}

/* Sets titles before the hints are named; the hints are final. */
static void give_titles(struct suggestion *s)
{
    char **words = title_words(s->symbols, TITLE_STACKS(s->mine.hints), s->mine.hint_count);
    struct keytable used = {0};

    s->titles = title_rows(s->symbols, TITLE_STACKS(s->mine.hints), s->mine.hint_count);
    for (size_t i = 0; i < s->mine.hint_count; i++) {
        if (s->mine.hints[i].key.frame)
            suggest_file_name(&s->mine.hints[i].key, &s->titles[i], &words[i]);
        suggest_file_id(words[i], &used, s->mine.hints[i].rule.id);
    }
    keytable_done(&used);
    title_done(words, s->mine.hint_count);
}

/* The head of the file: facts that its reader needs besides the hints; NULL = none. */
static char *cmd_suggest_make_head(const struct suggestion *s)
{
    const struct trace_sum *used = &s->mine.used;
    const char *rank = s->bad.capture->rank;
    bool is_of_rank = rank && *rank;

    if (used->count == 0 && !is_of_rank)
        return NULL;
    char *left = used->count == 0
            ? vec_text("")
            : vec_format("left out: %" PRIu64 " late free%s (%s) that the run still used after the "
                         "anchor's exit\n",
                    used->count, render_s(used->count), render_bytes(used->bytes).text);
    char *others = s->rank_count > 1
            ? vec_format("; no hint takes what %zu other rank%s may still use", s->rank_count - 1,
                    s->rank_count > 2 ? "s" : "")
            : vec_text(" alone: others may use such memory, so verify them with all ranks");
    char *head = vec_format("%s%s%s%s", left, is_of_rank ? "made from the capture of rank " : "",
            is_of_rank ? rank : "", is_of_rank ? others : "");

    free(others);
    free(left);
    return head;
}

static struct hintfile *cmd_suggest_make_file(struct suggestion *s)
{
    struct hintfile *file = suggest_file_file(s->bad.capture, s->fields->min_size);
    char **ways = title_ways(s->symbols, TITLE_STACKS(s->mine.hints), s->mine.hint_count);

    file->comment = cmd_suggest_make_head(s);
    file->keep_content = KEEP_CONTENT;
    file->predicted_max = s->whole_max;
    file->predicted_reserved = s->reserved == UINT64_MAX ? 0 : s->reserved;
    file->made_from = vec_new(2 + s->rank_count, sizeof(*file->made_from));
    if (!s->is_mining)
        file->made_from[file->made_from_count++] = vec_text(filename_of(s->good.path));
    file->made_from[file->made_from_count++] = vec_text(filename_of(s->bad.path));
    for (size_t i = 0; i < s->rank_count; i++)
        if (s->traces[i] != s->bad.trace)
            file->made_from[file->made_from_count++] = vec_text(filename_of(s->ranks[i].path));
    file->rule_count = s->mine.hint_count;
    file->rule = vec_new(file->rule_count, sizeof(*file->rule));
    file->words = vec_new(file->rule_count, sizeof(*file->words));
    for (size_t i = 0; i < s->mine.hint_count; i++) {
        file->rule[i] = s->mine.hints[i].rule;
        file->rule[i].keep_content = KEEP_CONTENT;
        file->words[i].comment = cmd_suggest_make_comment(s, i, ways[i]);
        file->words[i].proof = make_proof(&s->mine.hints[i]);
        file->words[i].saves = s->mine.hints[i].gain;
        file->words[i].site[0] = sitekey_text(&s->mine.hints[i].key);
        if (!s->mine.hints[i].key.frame) /* a Python function is found in every build */
            suggest_file_builds(file, s->bad.trace, s->mine.hints[i].stack);
    }
    title_done(ways, s->mine.hint_count);
    return file;
}

static int cmd_suggest_save(struct suggestion *s)
{
    struct hintfile *file = cmd_suggest_make_file(s);
    int r = suggest_file_save(file, s->fields->output);

    hintfile_free(file);
    return r;
}

/* The anchor of the first round in which the site grew. The caller frees it. */
static char *since_text(const struct suggestion *s, const struct growth_site *site)
{
    uint32_t anchor = s->growth.rounds[site->kind].anchor[site->is.since];

    return figures_anchor_text(&s->bad.trace->anchors[anchor]);
}

/*
 * Prints the memory that a run keeps growing: no anchor ends it, so the program has to be mended.
 */
static void print_growth(const struct suggestion *s)
{
    size_t count = s->growth.counts[TREND_GROWS];
    size_t shown = count < GROWTH_SHOWN ? count : GROWTH_SHOWN;
    char **titles = title_rows(s->symbols, TITLE_STACKS(s->growth.sites), shown);

    for (size_t i = 0; i < shown; i++) {
        const struct growth_site *site = &s->growth.sites[i];
        char *text = growth_text(&s->growth, site);
        char *since = since_text(s, site);
        render_print(stdout, "growth: %s, since %s: %s\n", text, since,
                site->stack ? titles[i] : "no call site");
        free(since);
        free(text);
    }
    if (count > shown)
        printf("growth: at %zu more call site%s\n", count - shown, render_s(count - shown));
    title_done(titles, shown);
}

/* Prints blocks that get no hint, and why. */
static void print_sum(const char *why, const struct trace_sum *sum)
{
    if (sum->count)
        printf("  no hint for %" PRIu64 " late free%s (%s): %s\n", sum->count, render_s(sum->count),
                render_bytes(sum->bytes).text, why);
}

static void print_written(const struct suggestion *s)
{
    char *word = render_word(s->fields->output);
    bool shadow = true;

    for (size_t i = 0; i < s->mine.hint_count; i++)
        shadow = shadow && s->mine.hints[i].rule.mode == HINT_SHADOW;
    printf("written to %s%s; next: kedge verify --hints %s -- PROGRAM...\n", s->fields->output,
            shadow ? ", mode shadow" : "", word);
    free(word);
}

static void suggest_print_text(struct suggestion *s)
{
    const struct suggest_rules *mine = &s->mine;

    for (size_t i = 0; i < mine->hint_count && i < HINTS_SHOWN; i++) {
        const struct suggest_rules_hint *hint = &mine->hints[i];
        printf("%-28s %6" PRIu64 "  %11s  %s\n    ", hint->rule.id, hint->count,
                render_bytes(hint->bytes).text, effect_text(hint->effect));
        render_label(stdout, s->titles[i], 4, 4);
    }
    if (mine->hint_count > HINTS_SHOWN)
        printf("... %zu more\n", mine->hint_count - HINTS_SHOWN);
    printf("%zu hint%s for %" PRIu64 " of %zu late free%s (%s of %s)\n", mine->hint_count,
            render_s(mine->hint_count), mine->covered.count, s->compare.late_count,
            render_s(s->compare.late_count), render_bytes(mine->covered.bytes).text,
            render_bytes(s->compare.late_bytes).text);
    if (mine->grown.count)
        printf("  and for %" PRIu64
               " blocks that pile up (%s): sent, and released at a later receive\n",
                mine->grown.count, render_bytes(mine->grown.bytes).text);
    print_sum("smaller than a physical handle, 2 MiB (--min-size)", &mine->small);
    print_sum(mine->is_cut
                    ? "not told apart from blocks that must stay by the first sites, anchors and "
                      "sizes that were tried; narrow it down by --from, --to, --min-size"
                    : "not to be told apart from blocks that must stay",
            &mine->mixed);
    print_sum("no stack, or not the pool's", &mine->unplaced);
    print_sum("shared by their site (exports, registrations, descriptors)", &mine->shared);
    print_sum("still used after the anchor's exit", &mine->used);
    print_sum("it would not lower the peak", &mine->idle);
    if (s->compare.never_count)
        printf("  no hint for %zu block%s (%s): never freed, but not because of an anchor\n",
                s->compare.never_count, render_s(s->compare.never_count),
                render_bytes(s->compare.never_bytes).text);
    compare_coverage_print(stdout, &s->compare, s->good.trace, s->bad.trace);
    print_growth(s);
    if (s->rank_count > 1)
        printf("made from %s; no hint takes what %zu other rank%s may still use\n", s->bad.path,
                s->rank_count - 1, render_s(s->rank_count - 1));
    printf("Max memory: %s, predicted with the hints %s\n", render_bytes(mine->max_before).text,
            render_bytes(mine->max_after).text);
    if (s->reserved != UINT64_MAX)
        printf("Peak reserved, predicted with the hints: %s\n", render_bytes(s->reserved).text);
    if (s->good.trace) /* one run has no second build to compare */
        builds_print(stdout, s->good.trace, s->bad.trace);
    if (mine->hint_count && strcmp(s->fields->output, "-") != 0)
        print_written(s);
}

static void json_hint(struct json *json, struct suggestion *s, size_t number)
{
    const struct suggest_rules_hint *hint = &s->mine.hints[number];
    char *key = sitekey_text(&hint->key);

    if (!key)
        key = vec_format("c:%016" PRIx64, hint->key.key);
    json_begin(json, NULL, '{');
    json_text(json, "id", hint->rule.id);
    json_text(json, "title", s->titles[number]);
    json_text(json, "key", key);
    json_text(json, "site", symbols_site(s->symbols, hint->stack));
    json_text(json, "python_site", symbols_pysite(s->symbols, hint->stack));
    json_text(json, "inside", hint->rule.pick.inside);
    json_text(json, "when", hint->rule.when.anchor);
    json_known(json, "receives", hint->grower ? hint->grower->receives : UINT64_MAX);
    json_text(json, "else", hint->grower ? hint->grower->closing : NULL);
    json_uint(json, "size_min", hint->rule.pick.size_lo);
    json_uint(json, "size_max", hint->rule.pick.size_hi);
    json_uint(json, "count", hint->count);
    json_uint(json, "bytes", hint->bytes);
    json_uint(json, "unused_count", hint->unused);
    json_uint(json, "saves_bytes", hint->gain);
    json_text(json, "effect", effect_text(hint->effect));
    json_end(json, '}');
    free(key);
}

static void json_growth(struct json *json, const struct suggestion *s)
{
    size_t count = s->growth.counts[TREND_GROWS];
    char **titles = title_rows(s->symbols, TITLE_STACKS(s->growth.sites), count);

    json_begin(json, "growth", '[');
    for (size_t i = 0; i < count; i++) {
        const struct growth_site *site = &s->growth.sites[i];
        char *since = since_text(s, site);
        json_begin(json, NULL, '{');
        json_text(json, "title", site->stack ? titles[i] : NULL);
        json_uint(json, "bytes_per_step", (site->is.last - site->is.first) / site->is.rises);
        json_uint(json, "steps", site->is.rises);
        json_text(json, "round", s->growth.rounds[site->kind].noun);
        json_text(json, "since", since);
        json_end(json, '}');
        free(since);
    }
    json_end(json, ']');
    title_done(titles, count);
}

static void suggest_print_json(struct suggestion *s)
{
    struct json json = json_open(stdout);

    json_text(&json, "output", s->mine.hint_count ? s->fields->output : NULL);
    json_text(&json, "made_from", s->bad.path);
    json_uint(&json, "late_frees", s->compare.late_count);
    json_uint(&json, "late_bytes", s->compare.late_bytes);
    json_uint(&json, "max_bytes", s->mine.max_before);
    json_uint(&json, "predicted_max_bytes", s->mine.max_after);
    json_known(&json, "predicted_peak_reserved_bytes", s->reserved);
    figures_json_sum(&json, "covered", &s->mine.covered);
    figures_json_sum(&json, "piled_up", &s->mine.grown);
    figures_json_sum(&json, "small", &s->mine.small);
    figures_json_sum(&json, "mixed", &s->mine.mixed);
    figures_json_sum(&json, "no_stack", &s->mine.unplaced);
    figures_json_sum(&json, "shared", &s->mine.shared);
    figures_json_sum(&json, "used_after", &s->mine.used);
    figures_json_sum(&json, "saves_nothing", &s->mine.idle);
    compare_coverage_json(&json, &s->compare, s->good.trace, s->bad.trace);
    json_begin(&json, "hints", '[');
    for (size_t i = 0; i < s->mine.hint_count; i++)
        json_hint(&json, s, i);
    json_end(&json, ']');
    json_growth(&json, s);
    if (s->good.trace) /* one run has no second build to compare */
        builds_json(&json, s->good.trace, s->bad.trace);
    json_end(&json, '}');
}

static void predict(struct suggestion *s)
{
    struct rule *rules = suggest_rules_rules(&s->mine);

    if (predict_reserved(s->bad.trace, rules, s->mine.hint_count, &s->reserved) < 0)
        s->reserved = UINT64_MAX;
    (void)predict_max(s->bad.trace, rules, s->mine.hint_count, &s->whole_max);
    free(rules);
}

static void cmd_suggest_say_none(const struct suggestion *s)
{
    const char *why = "nothing was freed late that a hint could release";

    if (compare_coverage_is_unknown(&s->compare))
        why = "too little could be looked at to know what was freed late";
    else if (s->compare.late_count && s->mine.used.count == s->compare.late_count)
        why = "all that was freed late is still used after the anchor's exit";
    else if (s->mine.idle.count)
        why = "no hint would lower the peak";
    (void)fprintf(stderr, "kedge suggest: no hint to write: %s\n", why);
}

static int mine(struct suggestion *s)
{
    struct suggest_rules_job job = {
            .trace = s->bad.trace,
            .good = s->good.trace,
            .window = s->window,
            .late = s->compare.late,
            .late_count = s->compare.late_count,
            .growers = &s->growers,
            .ranks = s->traces,
            .rank_count = s->rank_count,
            .min_size = s->fields->min_size,
            .only_effective = s->is_mining,
    };
    progress_begin("looking for hints");
    int r = suggest_rules_hints(&job, &s->mine);

    progress_end();
    if (r < 0)
        (void)fprintf(stderr, "kedge suggest: %s\n", strerror(-r));
    return r < 0 ? CMD_BAD : CMD_DONE;
}

static int mine_and_save(struct suggestion *s)
{
    int r = mine(s);

    if (r != CMD_DONE)
        return r;
    s->symbols = symbols_new(s->bad.trace);
    growth_join(&s->growth, s->symbols);
    give_titles(s);
    progress_begin("predicting");
    predict(s);
    progress_end();
    r = CMD_DONE;
    if (s->mine.hint_count == 0)
        cmd_suggest_say_none(s);
    else if (cmd_suggest_save(s) < 0)
        r = CMD_BAD;
    if (r == CMD_DONE && s->fields->json)
        suggest_print_json(s);
    else if (r == CMD_DONE)
        suggest_print_text(s);
    /*
     * No file was written: the caller's script must notice. "Nothing to release" is an answer, "not
     * checked" is none.
     */
    if (r == CMD_DONE && s->mine.hint_count == 0)
        r = compare_coverage_is_unknown(&s->compare) ? CMD_BAD : CMD_NO;
    title_done(s->titles, s->mine.hint_count);
    symbols_free(s->symbols);
    suggest_rules_done(&s->mine);
    return r;
}

static int compare_and_mine(struct suggestion *s)
{
    struct compare_side good = {.trace = s->good.trace, .ended = load_has_ended(&s->good)};
    struct compare_side bad = {.trace = s->bad.trace, .ended = load_has_ended(&s->bad)};
    bool is_refused = load_refuses("kedge suggest", &s->good);
    int r = CMD_BAD;

    is_refused |= load_refuses("kedge suggest", &s->bad);
    if (!is_refused)
        r = figures_window(&s->good, s->fields->from, s->fields->to, &good.window);
    if (r == 0)
        r = figures_window(&s->bad, s->fields->from, s->fields->to, &bad.window);
    if (r)
        return r;
    if (s->good.complete_from > good.window.first || s->bad.complete_from > bad.window.first) {
        const struct load *lacks = s->bad.complete_from > bad.window.first ? &s->bad : &s->good;
        (void)fprintf(stderr, "kedge suggest: %s: %s: no hint can be proved from it\n", lacks->path,
                load_lacks(lacks->capture));
        return CMD_BAD;
    }
    s->window = bad.window;
    progress_begin("comparing");
    compare_runs(&good, &bad, &s->compare);
    progress_end();
    r = mine_and_save(s);
    compare_done(&s->compare);
    return r;
}

/* Can hints be made from this run alone? */
static int check_uses(struct suggestion *s, const struct load *load)
{
    int r = load_refuses("kedge suggest", load)
            ? CMD_BAD
            : figures_window(load, s->fields->from, s->fields->to, &s->window);

    if (r)
        return r;
    if (load->complete_from > s->window.first || !load->capture->unseen.is_on) {
        (void)fprintf(stderr, "kedge suggest: %s: %s: no hint can be made from it\n", load->path,
                load->capture->unseen.is_on ? load_lacks(load->capture)
                        : load_is_imported(load->capture)
                        ? "the record that was imported does not say when memory was used"
                        : "the capture has no uses (KEDGE_TRACE=full,uses=on records them)");
        return CMD_BAD;
    }
    return CMD_DONE;
}

/*
 * Finds the blocks that one run holds after its own last use of them (suggest_lastuse.h), and those
 * that pile up in it; forget_late in any case.
 */
static void find_late(struct suggestion *s)
{
    suggest_lastuse_late(s->bad.trace, s->window, &s->compare);
    suggest_growth_find(s->bad.trace, s->window, s->fields->min_size, &s->growers);
}

static void forget_late(struct suggestion *s)
{
    suggest_growth_done(&s->growers);
    compare_done(&s->compare);
}

/* Chooses the rank whose peak is lowered most by hints that no other rank contradicts. */
static int choose_rank(struct suggestion *s)
{
    uint64_t most = 0;
    size_t chosen = 0;
    int r = CMD_DONE;

    for (size_t i = 0; i < s->rank_count && s->rank_count > 1 && r == CMD_DONE; i++) {
        s->bad = s->ranks[i];
        (void)figures_window(&s->bad, s->fields->from, s->fields->to, &s->window);
        find_late(s);
        r = mine(s);
        if (r == CMD_DONE && s->mine.max_before - s->mine.max_after > most) {
            most = s->mine.max_before - s->mine.max_after;
            chosen = i;
        }
        suggest_rules_done(&s->mine);
        forget_late(s);
    }
    s->bad = s->ranks[chosen];
    (void)figures_window(&s->bad, s->fields->from, s->fields->to, &s->window);
    return r;
}

/* Refuses two captures of one rank, or one without a rank: they are two runs, not one. */
static int check_ranks(const struct suggestion *s)
{
    for (size_t i = 0; i < s->rank_count; i++)
        for (size_t k = 0; k < i; k++) {
            const char *rank = s->ranks[i].capture->rank;

            if (strcmp(rank, s->ranks[k].capture->rank) != 0)
                continue;
            (void)fprintf(stderr,
                    "kedge suggest: %s and %s are %s: name one of them, or compare two runs with "
                    "--good and --bad\n",
                    s->ranks[k].path, s->ranks[i].path, *rank ? "of one rank" : "without a rank");
            return CMD_BAD;
        }
    return CMD_DONE;
}

static int mine_ranks(struct suggestion *s)
{
    int r = check_ranks(s);

    s->traces = vec_new(s->rank_count, sizeof(const struct trace *));
    for (size_t i = 0; i < s->rank_count && r == CMD_DONE; i++) {
        s->traces[i] = s->ranks[i].trace;
        r = check_uses(s, &s->ranks[i]);
    }
    if (r == CMD_DONE)
        r = choose_rank(s);
    if (r != CMD_DONE)
        return r;
    find_late(s);
    growth_find(&s->bad, s->window, NULL, &s->growth);
    r = mine_and_save(s);
    growth_done(&s->growth);
    forget_late(s);
    return r;
}

static int add_rank(struct suggestion *s, const char *path)
{
    struct load load = {0};
    int r = load_open(path, &load);

    if (r == CMD_DONE)
        VEC_PUSH(s->ranks, s->rank_count, s->rank_room) = load;
    else
        load_close(&load);
    return r;
}

/* Adds a capture, or a folder with the captures of all ranks. */
static int cmd_suggest_add_word(struct suggestion *s, const char *word)
{
    struct captures found = {0};
    struct stat about;
    int r = CMD_DONE;

    if (stat(word, &about) < 0 || !S_ISDIR(about.st_mode))
        return add_rank(s, word);
    captures_find_any(word, &found);
    if (found.count == 0) {
        (void)fprintf(stderr, "kedge suggest: %s: no captures in this folder\n", word);
        r = CMD_BAD;
    }
    for (size_t i = 0; i < found.count && r == CMD_DONE; i++)
        r = add_rank(s, found.file[i].path);
    captures_done(&found);
    return r;
}

/* What is wrong with the usage, NULL = nothing. --cap looks at a whole run, and needs no -o. */
static const char *why_no_usage(const struct fields *fields, char **words)
{
    if (!words[0] && !fields->good && !fields->bad)
        return "a capture is missing";
    if (words[0] && (fields->good || fields->bad))
        return "--good and --bad name the captures: none stands beside them";
    if (fields->cap && (words[0] && words[1]))
        return "--cap looks at one capture";
    if (fields->cap && (fields->from || fields->to))
        return "--cap looks at a whole run: not with --from or --to";
    if (fields->cap)
        return words[0] ? NULL : "--cap looks at one capture: not with --good or --bad";
    if (!fields->good != !fields->bad)
        return "--good and --bad belong together";
    if (!fields->output)
        return "-o FILE is missing: where the hints go (- is standard output)";
    return fields->bandwidth ? "--bandwidth needs --cap" : NULL;
}

static int suggest_cap(struct suggestion *s)
{
    struct cap_hint_job job = {.output = s->fields->output,
            .size = s->fields->cap,
            .min_size = s->fields->min_size,
            .bandwidth = s->fields->bandwidth ? s->fields->bandwidth : CAP_HINT_BANDWIDTH,
            .json = s->fields->json};

    if (s->rank_count == 1) {
        job.load = &s->ranks[0];
        return cap_hint_suggest(&job);
    }
    (void)fprintf(stderr, "kedge suggest: --cap looks at one capture, and there are %zu\n",
            s->rank_count);
    return CMD_BAD;
}

static int suggest_command(const void *parsed, char **words)
{
    struct fields fields = *(const struct fields *)parsed;
    struct suggestion s = {.fields = &fields, .reserved = UINT64_MAX};
    const char *wrong = why_no_usage(&fields, words);
    int r = CMD_DONE;

    if (wrong) {
        (void)fprintf(stderr, "kedge suggest: %s\nusage: kedge %s\n", wrong, cmd_suggest.usage);
        return CMD_BAD;
    }
    if (fields.min_size == 0)
        fields.min_size = HINTFILE_MIN_SIZE;
    s.is_mining = words[0] != NULL;
    for (size_t i = 0; words[i] && r == CMD_DONE; i++)
        r = cmd_suggest_add_word(&s, words[i]);
    if (!s.is_mining)
        r = load_open(fields.good, &s.good);
    if (!s.is_mining && r == CMD_DONE)
        r = load_open(fields.bad, &s.bad);
    if (r == CMD_DONE && fields.cap)
        r = suggest_cap(&s);
    else if (r == CMD_DONE)
        r = s.is_mining ? mine_ranks(&s) : compare_and_mine(&s);
    load_close(&s.good);
    if (!s.is_mining) /* else it is one of the ranks' loads */
        load_close(&s.bad);
    for (size_t i = 0; i < s.rank_count; i++)
        load_close(&s.ranks[i]);
    free(s.ranks);
    free((void *)s.traces);
    return r;
}

const struct cmd cmd_suggest = {
        .name = "suggest",
        .usage = "suggest (CAPTURE|FOLDER... | --good CAPTURE --bad CAPTURE | CAPTURE --cap SIZE) "
                 "-o FILE [options]",
        .summary = "Writes hints for memory that is freed too late: later than in a good run, or "
                   "long after its last use; or for what may go out to the host.",
        CMD_OPTIONS(options, struct fields),
        .writes = OUTFILE_HINTS,
        .pages = true,
        .words_min = 0,
        .words_max = -1,
        .run = suggest_command,
};
