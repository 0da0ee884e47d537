/* SPDX-License-Identifier: MIT */
#include "tools/suggest/hintlint.h"

#include "alloc/base/wildcard.h"
#include "tools/base/keytable.h"
#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tracker/hints/hinttree.h"
#include "tracker/hints/pysite.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUILD_DIGITS_MIN 8

/* By Python call site of a hint: the key of its function (its own without a line); native: 0. */
struct functions {
    uint64_t of[RULE_SITES_MAX];
};

/* A hint file under check. */
struct look {
    const struct hintfile *file;
    struct functions *functions;      /* of each hint */
    struct keytable lines;            /* of each function: the number of call sites that name it */
    const struct rule *rule;          /* the hint under check; NULL: the whole file */
    const struct hinttree_node *item; /* its node; the outermost mapping */
    struct hintlint *lint;
};

/* ---- places ---- */

/* The value of a key, NULL without one. */
static const struct hinttree_node *hintlint_value_of(
        const struct hinttree_node *map, const char *name)
{
    for (const struct hinttree_node *key = map->child; key; key = key->next)
        if (key->kind == HINTTREE_KEY && strcmp(key->text, name) == 0)
            return key->child;
    return NULL;
}

/* The value of `inner` (or NULL) in that of `key`, or the part of the way to it that exists. */
static const struct hinttree_node *hintlint_place_of(
        const struct hinttree_node *item, const char *key, const char *inner)
{
    const struct hinttree_node *value = hintlint_value_of(item, key);
    const struct hinttree_node *deep = value && inner ? hintlint_value_of(value, inner) : NULL;

    return deep ? deep : value ? value : item;
}

static struct hintlint_remark *warn_at(
        const struct look *look, const struct hinttree_node *place, char *text)
{
    struct hintlint *lint = look->lint;
    struct hintlint_remark *remark = &VEC_PUSH(lint->remarks, lint->count, lint->room);

    *remark = (struct hintlint_remark){
            .line = place->line,
            .column = place->column,
            .hint = look->rule ? look->rule->id : NULL,
    };
    remark->text = text;
    return remark;
}

/* ---- globs ---- */

static bool hintlint_is_any(const char *glob)
{
    return glob[strspn(glob, "*")] == '\0';
}

/* The parts of a glob: literal bytes, and wildcards for one or any number. */
enum {
    GLOB_ONE = 256, /* greater than each byte */
    GLOB_ANY,
    GLOB_PARTS = RULE_GLOB_MAX + 4, /* including the text that is appended */
};

static size_t split_glob(const char *glob, int ret_parts[static GLOB_PARTS])
{
    size_t count = 0;
    bool is_plain;
    char byte;

    while ((byte = wildcard_next(&glob, &is_plain)) != '\0')
        ret_parts[count++] = is_plain ? (unsigned char)byte : byte == '?' ? GLOB_ONE : GLOB_ANY;
    return count;
}

/*
 * Compares two globs part by part. `reached[j]`: by the first j parts of b, and the parts of a so
 * far.
 *
 * GLOB_MEET: is there a text that both match? GLOB_COVER: does `a` certainly match all texts that
 * `b` matches? A `?` that meets a `*` is not analysed.
 */
enum glob_question {
    GLOB_MEET,
    GLOB_COVER,
};

static bool compare_globs(const char *a, const char *b, enum glob_question question)
{
    int a_parts[GLOB_PARTS], b_parts[GLOB_PARTS];
    size_t a_count = split_glob(a, a_parts), b_count = split_glob(b, b_parts);
    bool reached[GLOB_PARTS + 1] = {true};

    for (size_t j = 0; j < b_count && question == GLOB_MEET && b_parts[j] == GLOB_ANY; j++)
        reached[j + 1] = true;
    for (size_t i = 0; i < a_count; i++) {
        bool before = reached[0];

        reached[0] = before && a_parts[i] == GLOB_ANY;
        for (size_t j = 1; j <= b_count; j++) {
            int own = a_parts[i], other = b_parts[j - 1];
            bool above = reached[j];
            bool is_same =
                    own == other || own == GLOB_ONE || (question == GLOB_MEET && other == GLOB_ONE);
            bool is_any = own == GLOB_ANY || (question == GLOB_MEET && other == GLOB_ANY);

            reached[j] = is_any ? above || reached[j - 1] : before && is_same && other != GLOB_ANY;
            before = above;
        }
    }
    return reached[b_count];
}

static bool covers_glob(const char *wide, const char *narrow)
{
    return hintlint_is_any(wide) || strcmp(wide, narrow) == 0
            || compare_globs(wide, narrow, GLOB_COVER);
}

static bool can_meet(const char *a, const char *b)
{
    return compare_globs(a, b, GLOB_MEET);
}

/* ---- one hint ---- */

bool hintlint_is_proof(const char *proof)
{
    return proof && strncmp(proof, HINTLINT_PROOF_OPEN, strlen(HINTLINT_PROOF_OPEN)) != 0;
}

static bool has_proof(const struct look *look)
{
    return hintlint_is_proof(look->file->words[look->rule - look->file->rule].proof);
}

static void look_at_live(const struct look *look, const char *key, const struct rule_when *when)
{
    const char *edge = when->kind == EDGE_ENTER ? "enter" : "exit";

    if (look->rule->mode == HINT_LIVE && when->count == 0 && rule_is_set(when)
            && hintlint_is_any(when->anchor))
        (void)warn_at(look, hintlint_place_of(look->item, key, "anchor"),
                vec_format("mode live releases at every anchor's %s: name the anchor after whose "
                           "%s nothing uses the memory",
                        edge, edge));
}

/* The order of the program's events does not prove that the memory is dead. */
static void look_at_events(const struct look *look, const char *key, const struct rule_when *when)
{
    if (when->count > 0 && !has_proof(look))
        (void)warn_at(look, hintlint_place_of(look->item, key, NULL),
                vec_text("is released by a count of events, which does not say by itself that "
                         "nothing uses the memory: say in `proof` why that is so"));
}

static void look_at_sites(const struct look *look)
{
    const struct rule_pick *pick = &look->rule->pick;
    const struct hinttree_node *place = hintlint_place_of(look->item, "pick", NULL);

    if (pick->site_count > 0 || pick->use.call > 0)
        return;
    if (hintlint_is_any(pick->inside))
        (void)warn_at(look, place,
                vec_text("picks by size alone, whoever asks for the memory: name its call sites "
                         "in `site`"));
    else if (pick->size_lo == 0 && pick->size_hi == UINT64_MAX)
        (void)warn_at(look, place,
                vec_format("picks all that is allocated inside %s: name call sites in `site`, or "
                           "a size",
                        pick->inside));
}

static void look_at_size(const struct look *look)
{
    const struct rule *rule = look->rule;
    const struct hinttree_node *place = hintlint_place_of(look->item, "pick", "size");
    const struct hinttree_node *backend = hintlint_value_of(look->item, "backend");

    if (rule->pick.size_hi < rule->min_size)
        (void)warn_at(look, place,
                vec_format("releases nothing, since its sizes are below min-size (%s): lower "
                           "min-size, or remove the hint",
                        render_bytes(rule->min_size).text));
    else if (rule->backend == RULE_ALIAS && rule->pick.size_lo >= HINTFILE_MIN_SIZE) {
        if (backend) /* a default applies to the hints that it is useful for */
            (void)warn_at(look, backend,
                    vec_format("backend: alias has no effect: its sizes are %s or more",
                            render_bytes(HINTFILE_MIN_SIZE).text));
    } else if (rule->backend == RULE_ALIAS && rule->min_size >= HINTFILE_MIN_SIZE)
        (void)warn_at(look, backend ? backend : look->item,
                vec_format("backend: alias is for blocks below %s, and takes none: lower min-size",
                        render_bytes(HINTFILE_MIN_SIZE).text));
    else if (rule->backend == RULE_UNMAP && rule->min_size < HINTFILE_MIN_SIZE
            && rule->pick.size_lo < HINTFILE_MIN_SIZE)
        (void)warn_at(look,
                hintlint_value_of(look->item, "min-size")
                        ? hintlint_value_of(look->item, "min-size")
                        : place,
                vec_format("takes blocks below %s, each of which then holds a physical handle of "
                           "its own until it is released: leave min-size at %s, pick larger "
                           "sizes, or state backend: alias",
                        render_bytes(HINTFILE_MIN_SIZE).text,
                        render_bytes(HINTFILE_MIN_SIZE).text));
}

static void look_at_expect(const struct look *look)
{
    if (!rule_expects(look->rule))
        (void)warn_at(look, look->item,
                vec_text("has no `expect`, so nobody notices when it matches more or less than it "
                         "was made for: state count and bytes"));
}

/*
 * A reader expects the hint's own anchor's exit, or that of one around it. An enter is always
 * another instance's. Marks and anchors beside it may be intended, but then the order of the
 * program is the proof.
 */
static void look_at_anchors(const struct look *look, const char *key, const struct rule_when *when)
{
    const char *inside = look->rule->pick.inside;
    char within[RULE_GLOB_MAX + 2];

    (void)snprintf(within, sizeof(within), "%s/*", when->anchor);
    if (!rule_is_set(when) || when->count > 0 || when->kind != EDGE_EXIT || hintlint_is_any(inside)
            || has_proof(look) || can_meet(inside, when->anchor) || can_meet(inside, within))
        return;
    (void)warn_at(look, hintlint_place_of(look->item, key, "anchor"),
            vec_format("what is allocated inside %s waits for whichever %s ends next, which is "
                       "another anchor: name the anchor of `inside` or one around it, or say in "
                       "`proof` why that is late enough",
                    inside, when->anchor));
}

/* `key` is when or else: whichever comes first ends the block, so each needs its reason. */
static void look_at_edge(const struct look *look, const char *key, const struct rule_when *when)
{
    look_at_live(look, key, when);
    look_at_events(look, key, when);
    look_at_anchors(look, key, when);
}

/* ---- hints that evict, and what they restore ---- */

/* `what` happens at each edge. */
static void look_at_step(const struct look *look, const char *what, const char *advice)
{
    static const char *const edges[] = {"enter", "exit", "point"};
    const struct rule_when *when = &look->rule->when;

    if (hintlint_is_any(when->anchor))
        (void)warn_at(look, hintlint_place_of(look->item, "when", "anchor"),
                vec_format("%s at every anchor's %s: %s", what, edges[when->kind], advice));
}

static void look_at_evicted_size(const struct look *look)
{
    const struct rule *rule = look->rule;
    const struct hinttree_node *min_size = hintlint_value_of(look->item, "min-size");
    const struct hinttree_node *size = hintlint_place_of(look->item, "pick", "size");

    if (rule->pick.size_hi < rule->min_size)
        (void)warn_at(look, size,
                vec_format("evicts nothing, since its sizes are below min-size (%s): lower "
                           "min-size, or remove the hint",
                        render_bytes(rule->min_size).text));
    else if (rule->min_size < HINTFILE_MIN_SIZE && rule->pick.size_lo < HINTFILE_MIN_SIZE)
        (void)warn_at(look, min_size ? min_size : size,
                vec_format("takes blocks below %s, each of which then holds a physical handle of "
                           "its own: leave min-size at %s, or pick larger sizes",
                        render_bytes(HINTFILE_MIN_SIZE).text,
                        render_bytes(HINTFILE_MIN_SIZE).text));
}

static void look_at_cap(const struct look *look)
{
    const struct rule_evict *evict = &look->rule->evict;
    const struct hinttree_node *cap = hintlint_value_of(look->item, "cap");
    bool is_cpu = evict->policy == RULE_POLICY_CPU;

    if (!cap)
        return;
    if (evict->policy != RULE_POLICY_AUTO)
        (void)warn_at(look, cap,
                vec_format("the cap has no effect with policy: %s, which keeps in %s: leave it "
                           "out, or state policy: auto",
                        is_cpu ? "cpu" : "cuda",
                        is_cpu ? "what the running call names" : "all blocks"));
    else if (evict->cap > 0 && look->rule->pick.size_lo > evict->cap)
        (void)warn_at(look, hintlint_value_of(cap, "device"),
                vec_text("a block of it is larger than the cap, and a call that names one cannot "
                         "be made: raise the cap, or pick smaller blocks"));
}

static void look_at_moves(const struct look *look)
{
    const struct rule_evict *evict = &look->rule->evict;

    if (evict->prefetch == 0)
        (void)warn_at(look, hintlint_place_of(look->item, "prefetch", NULL),
                vec_text("prefetch: 0 brings nothing in ahead of the call that names it, which has "
                         "to wait: state 1 or more"));
    if (evict->order_count > 0 && evict->victim != RULE_VICTIM_FARTHEST)
        (void)warn_at(look, hintlint_place_of(look->item, "order", NULL),
                vec_format("the order has no effect with victim: %s: leave it out, or state "
                           "victim: farthest-next-use",
                        evict->victim == RULE_VICTIM_LRU ? "lru" : "fifo"));
    if (evict->clean && evict->backing == RULE_BACKING_MANAGED)
        (void)warn_at(look, hintlint_place_of(look->item, "clean", NULL),
                vec_text("clean: yes has no effect with backing: managed, whose pages move whether "
                         "they "
                         "were written or not: leave it out"));
    else if (evict->clean && !has_proof(look))
        warn_at(look, hintlint_place_of(look->item, "clean", NULL),
                vec_text("clean: yes loses what a kernel writes to these blocks: say in `proof` "
                         "why kernels only read them"))
                ->is_note = true;
}

/* ---- hints beside each other ---- */

/* Whether `wide` names this site of another hint, or its function with any line. */
static bool covers_site(
        const struct rule_pick *wide, uint64_t site, bool is_python, uint64_t function)
{
    for (uint32_t i = 0; i < wide->site_count; i++) {
        if ((wide->python >> i & 1) == is_python
                && (wide->site[i] == site || wide->site[i] == function))
            return true;
    }
    return wide->site_count == 0;
}

static bool covers_sites(const struct rule_pick *wide, const struct rule_pick *narrow,
        const struct functions *functions)
{
    for (uint32_t i = 0; i < narrow->site_count; i++)
        if (!covers_site(wide, narrow->site[i], narrow->python >> i & 1, functions->of[i]))
            return false;
    return narrow->site_count > 0 || wide->site_count == 0;
}

static bool covers_numbers(const struct rule_pick *wide, const struct rule_pick *narrow)
{
    return wide->size_lo <= narrow->size_lo && wide->size_hi >= narrow->size_hi
            && wide->nth_lo <= narrow->nth_lo && wide->nth_hi >= narrow->nth_hi
            && (wide->device < 0 || wide->device == narrow->device)
            && (wide->stream == 0 || wide->stream == narrow->stream)
            && (wide->thread == RULE_THREAD_ANY || wide->thread == narrow->thread);
}

/* The first hint in the file that matches takes the allocation. */
static void look_at_earlier(const struct look *look)
{
    const struct rule_pick *pick = &look->rule->pick;
    size_t number = (size_t)(look->rule - look->file->rule);

    for (const struct rule *rule = look->file->rule; rule < look->rule; rule++) {
        if (rule->action == ACTION_RESTORE || !covers_numbers(&rule->pick, pick)
                || !covers_sites(&rule->pick, pick, &look->functions[number])
                || !covers_glob(rule->pick.inside, pick->inside)
                || !covers_glob(rule->pick.rank, pick->rank))
            continue;
        (void)warn_at(look, hintlint_place_of(look->item, "pick", NULL),
                vec_format("matches nothing, since hint %s on line %" PRIu32 " takes all that it "
                           "picks: put it above that hint, or remove one of them",
                        rule->id, rule->line));
        return;
    }
}

/* A hint that takes blocks from later hints needs a reason. */
static void look_at_later(const struct look *look)
{
    const struct rule *last = look->file->rule + look->file->rule_count;

    for (const struct rule *rule = look->rule + 1; rule < last; rule++)
        if (rule_waits(rule) && rule->action != ACTION_RESTORE)
            return;
    (void)warn_at(look, hintlint_place_of(look->item, "do", NULL),
            vec_text("keeps its blocks from no hint, since no other action comes after it in the "
                     "file: put it above the hints that must not take them"));
}

/* A line that tells no two call sites of the file apart only lets the next edit break the hint. */
static void look_at_lines(const struct look *look)
{
    size_t number = (size_t)(look->rule - look->file->rule);
    const struct hinttree_node *place = hintlint_place_of(look->item, "pick", "site")->child;

    for (uint32_t i = 0; i < look->rule->pick.site_count; i++, place = place->next) {
        struct key function = {look->functions[number].of[i], 0, 0};

        if (function.a == 0 || function.a == look->rule->pick.site[i]
                || *keytable_find(&look->lines, function) > 1)
            continue;
        warn_at(look, place,
                vec_format("the line of %s moves with each edit of the file: leave it out if all "
                           "of the function is meant",
                        look->file->words[number].site[i]))
                ->is_note = true;
    }
}

/* ---- the file ---- */

static void look_at_action(const struct look *look)
{
    if (action_releases(look->rule->action)) {
        look_at_edge(look, "when", &look->rule->when);
        look_at_edge(look, "else", &look->rule->otherwise);
        look_at_size(look);
        look_at_expect(look);
    } else if (look->rule->action == ACTION_EVICT) {
        look_at_step(look, "a step begins", "name the anchor of a step");
        look_at_evicted_size(look);
        look_at_cap(look);
        look_at_moves(look);
    } else if (look->rule->action == ACTION_RESTORE) {
        look_at_step(
                look, "blocks begin to come in", "name the anchor before which they are needed");
    }
    if (!rule_waits(look->rule))
        look_at_later(look);
}

static uint64_t hintlint_function_of(const char *site, uint64_t key)
{
    char text[PYSITE_TEXT_MAX];
    const char *last = strrchr(site, ':');

    (void)snprintf(text, sizeof(text), "%.*s", (int)(last - site), site);
    (void)pysite_read(text, &key); /* without a line only the file is left, which is refused */
    return key;
}

static void list_functions(struct look *look)
{
    const struct hintfile *file = look->file;
    struct keytable sites = {0};

    look->functions = vec_new(file->rule_count, sizeof(*look->functions));
    for (size_t i = 0; i < file->rule_count; i++)
        for (uint32_t s = 0; s < file->rule[i].pick.site_count; s++) {
            const char *text = file->words[i].site[s];
            uint64_t site = file->rule[i].pick.site[s];
            uint64_t function = text ? hintlint_function_of(text, site) : 0;
            size_t known = keytable_count(&sites);

            look->functions[i].of[s] = function;
            (void)keytable_at(&sites, (struct key){function, site, 0}, 0);
            if (function && keytable_count(&sites) > known)
                ++*keytable_at(&look->lines, (struct key){function, 0, 0}, 0);
        }
    keytable_done(&sites);
}

static void look_at_program(const struct look *look)
{
    const struct hintfile *file = look->file;
    const struct hinttree_node *build = hintlint_place_of(look->item, "program", "build");

    if (hintlint_is_any(file->argv))
        (void)warn_at(look, hintlint_place_of(look->item, "program", "argv"),
                vec_text("the hints are for every program that is given them, child processes "
                         "too: name the program in program.argv, as \"*train.py*\""));
    for (size_t i = 0; i < file->build_count; i++)
        if (strlen(file->build[i].id) < BUILD_DIGITS_MIN)
            (void)warn_at(look, hintlint_value_of(build, file->build[i].soname),
                    vec_format("%zu digits of a build-id fit too many builds of %s: write %d or "
                               "more",
                            strlen(file->build[i].id), file->build[i].soname, BUILD_DIGITS_MIN));
}

static int by_place(const void *left, const void *right)
{
    const struct hintlint_remark *a = left;
    const struct hintlint_remark *b = right;

    return vec_order(a->line, b->line, vec_order(a->column, b->column, strcmp(a->text, b->text)));
}

void hintlint_hints(
        const struct hintfile *file, const char *bytes, size_t length, struct hintlint *lint)
{
    struct look look = {.file = file, .lint = lint};
    struct hinttree_node where;
    struct hinttree_node *root = NULL;
    const char *what;

    if (hinttree_read(bytes, length, &root, &where, &what) < 0)
        vec_out_of_memory(); /* it was readable before, so memory is short */
    look.item = root;
    list_functions(&look);
    look_at_program(&look);
    look.item = hintlint_value_of(root, "hints")->child;
    for (size_t i = 0; i < file->rule_count; i++, look.item = look.item->next) {
        look.rule = &file->rule[i];
        look_at_action(&look);
        if (look.rule->action == ACTION_RESTORE)
            continue;
        look_at_sites(&look);
        look_at_earlier(&look);
        look_at_lines(&look);
    }
    hinttree_free(root);
    keytable_done(&look.lines);
    free(look.functions);
    VEC_SORT(lint->remarks, lint->count, by_place);
    for (size_t i = 0; i < lint->count; i++)
        lint->warnings += !lint->remarks[i].is_note;
}

void hintlint_done(struct hintlint *lint)
{
    for (size_t i = 0; i < lint->count; i++)
        free(lint->remarks[i].text);
    free(lint->remarks);
    *lint = (struct hintlint){0};
}
