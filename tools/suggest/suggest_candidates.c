/* SPDX-License-Identifier: MIT */
#include "tools/suggest/suggest_candidates.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/base/wildcard.h"
#include "tools/base/keytable.h"
#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tools/suggest/turns.h"
#include "tracker/base/utf8.h"

static bool suggest_candidates_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_of_word(char c)
{
    return suggest_candidates_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The number of bytes that are folded together; 0: none. */
static size_t folded_length(const char *path, enum suggest_candidates_fold fold)
{
    bool by_words =
            fold == SUGGEST_CANDIDATES_FOLD_LETTERS || fold == SUGGEST_CANDIDATES_FOLD_WORDS;
    bool has_digit = false;
    size_t length = 0;

    if (fold == SUGGEST_CANDIDATES_FOLD_NOTHING)
        return 0;
    while (by_words ? is_of_word(path[length]) : suggest_candidates_is_digit(path[length]))
        has_digit |= suggest_candidates_is_digit(path[length++]);
    return has_digit ? length : 0;
}

/* Length of a character, or of a whole word without a digit: its end is not the start of a word. */
static size_t plain_length(const char *path, enum suggest_candidates_fold fold)
{
    uint32_t code;
    size_t length = utf8_length((const unsigned char *)path, &code);

    if (length == 0)
        return 1;
    if (fold != SUGGEST_CANDIDATES_FOLD_LETTERS && fold != SUGGEST_CANDIDATES_FOLD_WORDS)
        return length;
    while (is_of_word(path[length - 1]) && is_of_word(path[length]))
        length++;
    return length;
}

void suggest_candidates_fold(
        const char *path, enum suggest_candidates_fold fold, char ret_glob[static RULE_GLOB_MAX])
{
    bool is_one = fold == SUGGEST_CANDIDATES_FOLD_RUNS || fold == SUGGEST_CANDIDATES_FOLD_WORDS;
    size_t n = 0;

    while (*path) {
        size_t folded = folded_length(path, fold);
        size_t length = folded ? folded : plain_length(path, fold);
        bool is_special = wildcard_is_special(*path); /* a special character of its own */
        size_t bytes = folded && is_one ? 1 : length + is_special;
        if (n + bytes + 1 >= RULE_GLOB_MAX) {
            ret_glob[n++] = '*';
            break;
        }
        if (is_special)
            ret_glob[n] = '\\';
        if (folded)
            memset(&ret_glob[n], is_one ? '*' : '?', bytes);
        else
            memcpy(&ret_glob[n + is_special], path, length);
        n += bytes;
        path += length;
    }
    ret_glob[n] = '\0';
}

/* One of the two runs. */
struct side {
    const struct trace *trace;
    uint32_t *path; /* per anchor: the number of its path */
    /* per block: the number of its stack and site, TRACE_NONE: no hint can act on it */
    uint32_t *origin;
    struct vec_lists blocks; /* per origin */
    struct vec_lists exits;  /* per path: the events at which it was left, ascending */
    struct vec_lists inside; /* per path: the blocks of its instances, ascending */
};

/* A glob of anchors, with the paths that it matches. */
struct glob {
    uint32_t *paths; /* ascending */
    size_t path_count;
    uint32_t *exits[2]; /* per side: exits of all these paths, ascending; NULL: not computed yet */
    size_t exit_count[2];
};

struct shape {
    uint32_t inside, when; /* globs */
    uint32_t seen;         /* the last site that it was tried for, counted from 1 */
};

/* The anchor of a late free, and the anchor that it is late by. */
struct pair {
    uint32_t folded, literal; /* indices of shapes */
};

struct site {
    struct sitekey key;
    uint32_t rank;
};

/* A block that a candidate must match, or must not match. */
struct elem {
    uint64_t size;
    uint32_t nth;
    uint32_t late;   /* the block; TRACE_NONE: must not match */
    bool is_anyones; /* several threads ask for such blocks: their order depends on scheduling */
};

enum {
    BAD,
    GOOD,
    SIDES
};

struct search {
    const struct suggest_candidates_job *job;
    struct suggest_candidates out;
    struct side side[SIDES];
    int sides; /* number of sides */
    struct keytable path_numbers, origin_numbers, glob_numbers, shape_numbers, pair_numbers,
            site_numbers;
    const char **paths;
    size_t path_count, path_room;
    uint64_t compared; /* names compared with folded ones */
    struct glob *globs;
    size_t glob_count, glob_room;
    struct shape *shapes;
    size_t shape_count, shape_room;
    struct pair *pairs;
    size_t pair_count, pair_room;
    uint32_t *pair_of; /* per late block of the bad run */
    struct site *sites;
    size_t site_count, site_room;
    struct vec_lists origins; /* per site */
    uint32_t *origin_seen;    /* the last site that has it, counted from 1 */
    struct keytable anyones;  /* of either run (turns.h) */
    bool *is_covered; /* bad block: a candidate with folded anchors matches all of its site there */
    uint64_t looks;
    /* for the current site: its blocks by path, and the matches of a shape among them */
    uint32_t *blocks[SIDES];
    size_t block_count[SIDES], block_room[SIDES];
    struct elem *elems;
    size_t elem_count, elem_room;
};

/* ---- anchors ---- */

static void suggest_candidates_number_paths(struct search *s, struct side *side)
{
    const struct trace *trace = side->trace;

    side->path = vec_new(trace->anchor_count, sizeof(*side->path));
    for (size_t i = 0; i < trace->anchor_count; i++) {
        const char *path = trace->anchors[i].path;
        uint32_t number = keytable_number(&s->path_numbers, keytable_text(path));
        side->path[i] = number;
        if (number == s->path_count)
            VEC_PUSH(s->paths, s->path_count, s->path_room) = path;
    }
}

/* Exits, and the blocks that a hint could act on, by path. */
static void list_by_path(const struct search *s, struct side *side)
{
    const struct trace *trace = side->trace;
    uint32_t *of = vec_new(max_of(trace->event_count, trace->block_count), sizeof(*of));

    for (size_t i = 0; i < trace->event_count; i++)
        of[i] = trace->events[i].kind == TRACE_EXIT ? side->path[trace->events[i].anchor]
                                                    : TRACE_NONE;
    side->exits = vec_lists_new(of, trace->event_count, s->path_count);
    for (size_t i = 0; i < trace->block_count; i++)
        of[i] = side->origin[i] == TRACE_NONE ? TRACE_NONE : side->path[trace->blocks[i].anchor];
    side->inside = vec_lists_new(of, trace->block_count, s->path_count);
    free(of);
}

/* Whether a glob can name this path and no other. */
static bool has_literal(const char *path)
{
    char text[RULE_GLOB_MAX];

    suggest_candidates_fold(path, SUGGEST_CANDIDATES_FOLD_NOTHING, text);
    return wildcard_is_literal(text);
}

/*
 * Names that differ in more than digits have a folded name each, which would be compared with all
 * the others: beyond a limit they are folded by words, and beyond the same limit again not at all.
 */
static void fold_path(
        struct search *s, const char *path, enum suggest_candidates_fold fold, char *ret_text)
{
    enum suggest_candidates_fold words = fold == SUGGEST_CANDIDATES_FOLD_RUNS
            ? SUGGEST_CANDIDATES_FOLD_WORDS
            : SUGGEST_CANDIDATES_FOLD_LETTERS;

    suggest_candidates_fold(path, fold, ret_text);
    for (uint64_t limit = 1; limit <= 2; limit++) {
        if (wildcard_is_literal(ret_text)
                || s->compared + s->path_count <= limit * SUGGEST_CANDIDATES_GLOBS_MAX
                || keytable_find(&s->glob_numbers, keytable_text(ret_text)))
            return;
        suggest_candidates_fold(
                path, limit == 1 ? words : SUGGEST_CANDIDATES_FOLD_NOTHING, ret_text);
    }
}

static uint32_t number_glob(struct search *s, const char *path, enum suggest_candidates_fold fold)
{
    char text[RULE_GLOB_MAX];

    fold_path(s, path, fold, text);
    uint32_t number = keytable_number(&s->glob_numbers, keytable_text(text));
    if (number < s->glob_count)
        return number;
    struct glob *glob = &VEC_PUSH(s->globs, s->glob_count, s->glob_room);
    *glob = (struct glob){0};
    memcpy(VEC_PUSH(s->out.globs, s->out.glob_count, s->out.glob_room), text, RULE_GLOB_MAX);
    glob->paths = vec_new(wildcard_is_literal(text) ? 1 : s->path_count, sizeof(*glob->paths));
    if (wildcard_is_literal(text)) {
        glob->paths[glob->path_count++] = *keytable_find(&s->path_numbers, keytable_text(path));
        return number;
    }
    s->compared += s->path_count;
    for (size_t i = 0; i < s->path_count; i++)
        if (wildcard_match(text, s->paths[i]))
            glob->paths[glob->path_count++] = (uint32_t)i;
    return number;
}

static bool has_path(const struct glob *glob, uint32_t path)
{
    size_t after = vec_first_above(glob->paths, glob->path_count, path);

    return after > 0 && glob->paths[after - 1] == path;
}

static void find_exits(struct glob *glob, const struct side *side, int which)
{
    const uint32_t *first = side->exits.first;
    size_t count = 0;

    for (size_t i = 0; i < glob->path_count; i++)
        count += first[glob->paths[i] + 1] - first[glob->paths[i]];
    glob->exits[which] = vec_new(count, sizeof(uint32_t));
    for (size_t i = 0; i < glob->path_count; i++)
        for (uint32_t k = first[glob->paths[i]]; k < first[glob->paths[i] + 1]; k++)
            glob->exits[which][glob->exit_count[which]++] = side->exits.at[k];
    VEC_SORT(glob->exits[which], count, vec_by_u32);
}

/* The exit at which a hint of this shape would release the block, as in hint.h; TRACE_NEVER. */
static uint32_t find_exit(struct search *s, const struct shape *shape, int which, uint32_t id)
{
    const struct side *side = &s->side[which];
    const struct trace_block *block = &side->trace->blocks[id];
    struct glob *when = &s->globs[shape->when];

    if (block->anchor && has_path(when, side->path[block->anchor])) {
        uint32_t exit = side->trace->anchors[block->anchor].exit;
        return exit != TRACE_NEVER && exit > block->born ? exit : TRACE_NEVER;
    }
    if (!when->exits[which])
        find_exits(when, side, which);
    size_t next = vec_first_above(when->exits[which], when->exit_count[which], block->born);
    return next < when->exit_count[which] ? when->exits[which][next] : TRACE_NEVER;
}

/* ---- shapes: the anchors of late frees as hints name them ---- */

static uint32_t number_shape(struct search *s, uint32_t inside, uint32_t when)
{
    uint32_t number = keytable_number(&s->shape_numbers, (struct key){inside, when, 0});

    if (number == s->shape_count)
        VEC_PUSH(s->shapes, s->shape_count, s->shape_room) =
                (struct shape){.inside = inside, .when = when};
    return number;
}

static void number_pair(struct search *s, uint32_t id)
{
    const struct side *bad = &s->side[BAD];
    uint32_t inside = bad->path[bad->trace->blocks[id].anchor];
    uint32_t when = bad->path[s->job->late_anchor[id]];
    uint32_t number = keytable_number(&s->pair_numbers, (struct key){inside, when, 0});
    /* a `*` in an outer anchor's name would match the inner names too, and the inner one's exit */
    enum suggest_candidates_fold outer =
            inside == when ? SUGGEST_CANDIDATES_FOLD_RUNS : SUGGEST_CANDIDATES_FOLD_DIGITS;

    s->pair_of[id] = number;
    if (number < s->pair_count)
        return;
    struct pair pair = {
            .folded =
                    number_shape(s, number_glob(s, s->paths[inside], SUGGEST_CANDIDATES_FOLD_RUNS),
                            number_glob(s, s->paths[when], outer)),
    };
    pair.literal = pair.folded;
    if (has_literal(s->paths[inside]) && has_literal(s->paths[when]))
        pair.literal =
                number_shape(s, number_glob(s, s->paths[inside], SUGGEST_CANDIDATES_FOLD_NOTHING),
                        number_glob(s, s->paths[when], SUGGEST_CANDIDATES_FOLD_NOTHING));
    VEC_PUSH(s->pairs, s->pair_count, s->pair_room) = pair;
}

/* ---- call sites ---- */

static bool is_late(const struct search *s, int which, uint32_t id)
{
    return which == BAD && s->job->late_exit[id] != TRACE_NEVER;
}

/* Groups blocks that a hint could act on by origin: those of one have the same call sites. */
static void number_origins(struct search *s, int which)
{
    struct side *side = &s->side[which];
    const struct trace *trace = side->trace;

    side->origin = vec_new(trace->block_count, sizeof(*side->origin));
    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];
        struct key key = {block->stack, block->site, (uint64_t)which};
        bool acts = !block->native && block->size >= s->job->min_size;
        side->origin[i] = acts ? keytable_number(&s->origin_numbers, key) : TRACE_NONE;
    }
}

static void suggest_candidates_add_sites(struct search *s, uint32_t id)
{
    struct sitekey keys[SITEKEY_MAX];
    const struct trace *trace = s->side[BAD].trace;
    size_t count = sitekey_list(trace, &trace->blocks[id], keys);

    for (size_t i = 0; i < count; i++) {
        bool is_new;
        (void)keytable_number_new(&s->site_numbers, sitekey_key(&keys[i]), &is_new);
        if (is_new)
            VEC_PUSH(s->sites, s->site_count, s->site_room) =
                    (struct site){keys[i], sitekey_rank(&keys[i])};
    }
}

/* A site and an origin that has it. */
struct link {
    uint32_t site, origin;
};

struct links {
    struct link *at;
    size_t count, room;
};

static void add_links(struct search *s, int which, uint32_t origin, struct links *links)
{
    struct sitekey keys[SITEKEY_MAX];
    const struct side *side = &s->side[which];
    uint32_t id = side->blocks.at[side->blocks.first[origin]];
    size_t count = sitekey_list(side->trace, &side->trace->blocks[id], keys);

    for (size_t i = 0; i < count; i++) {
        const uint32_t *site = keytable_find(&s->site_numbers, sitekey_key(&keys[i]));
        if (site)
            VEC_PUSH(links->at, links->count, links->room) = (struct link){*site, origin};
    }
}

static int suggest_candidates_by_site(const void *a, const void *b)
{
    const struct link *x = a;
    const struct link *y = b;

    return vec_order(x->site, y->site, vec_order(x->origin, y->origin, 0));
}

/* The sites of the late frees, and the origins of each in both runs. */
static void suggest_candidates_list_sites(struct search *s)
{
    size_t origins = keytable_count(&s->origin_numbers);
    bool *is_known = vec_new(origins, sizeof(*is_known));
    struct links links = {0};

    for (uint32_t i = 0; i < s->side[BAD].trace->block_count; i++) {
        uint32_t origin = s->side[BAD].origin[i];
        if (!is_late(s, BAD, i) || origin == TRACE_NONE || is_known[origin])
            continue;
        is_known[origin] = true;
        suggest_candidates_add_sites(s, i);
    }
    free(is_known);
    for (int which = 0; which < s->sides; which++) {
        struct side *side = &s->side[which];
        side->blocks = vec_lists_new(side->origin, side->trace->block_count, origins);
        for (uint32_t i = 0; i < origins; i++)
            if (side->blocks.first[i] < side->blocks.first[i + 1])
                add_links(s, which, i, &links);
    }
    VEC_SORT(links.at, links.count, suggest_candidates_by_site);
    uint32_t *of = vec_new(links.count, sizeof(*of));
    for (size_t i = 0; i < links.count; i++)
        of[i] = links.at[i].site;
    s->origins = vec_lists_new(of, links.count, s->site_count);
    for (size_t i = 0; i < links.count; i++)
        s->origins.at[i] = links.at[i].origin;
    free(of);
    free(links.at);
}

/* ---- one site ---- */

static void add_candidate(struct search *s, const struct candidate *candidate, uint32_t rank,
        const struct elem *elems, size_t count)
{
    struct suggest_candidates *out = &s->out;
    struct suggest_cover_set set = {.first = (uint32_t)out->item_count, .rank = rank};

    if (out->count >= SUGGEST_CANDIDATES_MAX
            || out->item_count + count > SUGGEST_CANDIDATES_ITEMS_MAX) {
        out->is_cut = true;
        return;
    }
    for (size_t i = 0; i < count; i++)
        VEC_PUSH(out->items, out->item_count, out->item_room) = elems[i].late;
    set.count = (uint32_t)count;
    size_t number = out->count;
    VEC_PUSH(out->list, number, out->list_room) = *candidate;
    VEC_PUSH(out->sets, out->count, out->sets_room) = set;
}

static int suggest_candidates_by_size(const void *a, const void *b)
{
    const struct elem *x = a;
    const struct elem *y = b;

    return vec_order(x->size, y->size, vec_order(x->nth, y->nth, 0));
}

static int by_nth(const void *a, const void *b)
{
    const struct elem *x = a;
    const struct elem *y = b;

    return vec_order(x->nth, y->nth, vec_order(x->size, y->size, 0));
}

enum {
    RANK_NTH = 1,
    RANK_SIZES = 2,
    RANK_LITERAL = 4,
    RANK_SITE = 8, /* weight of the site */
};

static bool has_turns(const struct elem *elems, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (elems[i].is_anyones)
            return false;
    return true;
}

/*
 * A candidate for each run of neighbouring sizes (or turns) without a block that it must not match;
 * elems are sorted by them. UINT32_MAX stands for "not counted" in the run: only all turns together
 * match it. None by turns if several threads ask.
 */
static void add_runs(struct search *s, const struct candidate *base, uint32_t rank,
        const struct elem *elems, size_t count, bool sizes)
{
    size_t first = 0; /* of the run */
    size_t i = 0;

    if (!sizes && !has_turns(elems, count))
        return;
    while (i < count) {
        size_t end = i;
        bool right = sizes || elems[i].nth < UINT32_MAX;
        while (end < count
                && (sizes ? elems[end].size == elems[i].size : elems[end].nth == elems[i].nth)) {
            right = right && elems[end].late != TRACE_NONE;
            end++;
        }
        size_t run_end = right ? end : i;
        if ((!right || end == count) && first < run_end) {
            struct candidate candidate = *base;
            if (sizes) {
                candidate.size_lo = elems[first].size;
                candidate.size_hi = elems[run_end - 1].size;
            } else {
                candidate.nth_lo = elems[first].nth;
                candidate.nth_hi = elems[run_end - 1].nth;
            }
            add_candidate(s, &candidate, rank, &elems[first], run_end - first);
        }
        if (!right)
            first = end;
        i = end;
    }
}

/* For each size that some must not match: runs of turns. */
static void add_runs_of_sizes(struct search *s, const struct candidate *base, uint32_t rank,
        const struct elem *elems, size_t count)
{
    size_t i = 0;

    while (i < count) {
        struct candidate candidate = *base;
        size_t end = i;
        bool right = true;
        candidate.size_lo = candidate.size_hi = elems[i].size;
        for (; end < count && elems[end].size == elems[i].size; end++)
            right = right && elems[end].late != TRACE_NONE;
        if (!right)
            add_runs(s, &candidate, rank, &elems[i], end - i, false);
        i = end;
    }
}

/* Collect the blocks by path that match the shape, right or wrong. */
static size_t suggest_candidates_collect(
        struct search *s, const struct shape *shape, int which, size_t *io_wrong)
{
    const struct glob *inside = &s->globs[shape->inside];
    const struct side *side = &s->side[which];
    uint32_t path = TRACE_NONE;
    size_t wanted = 0;
    bool is_inside = false;
    size_t i = 0;

    if (inside->path_count == 1) { /* many literal shapes: each checks only its own blocks */
        size_t end = s->block_count[which];
        while (i < end) {
            size_t mid = i + (end - i) / 2;
            uint32_t id = s->blocks[which][mid];
            if (side->path[side->trace->blocks[id].anchor] < inside->paths[0])
                i = mid + 1;
            else
                end = mid;
        }
    }
    for (; i < s->block_count[which]; i++) {
        uint32_t id = s->blocks[which][i];
        const struct trace_block *block = &side->trace->blocks[id];
        if (side->path[block->anchor] != path) {
            path = side->path[block->anchor];
            is_inside = has_path(inside, path);
            if (path > inside->paths[inside->path_count - 1])
                break;
        }
        s->looks++;
        if (!is_inside)
            continue;
        uint32_t exit = find_exit(s, shape, which, id);
        bool wrong = which == BAD ? exit != s->job->late_exit[id]
                                  : exit != TRACE_NEVER && block->died > exit;
        if (!wrong && !is_late(s, which, id))
            continue;
        VEC_PUSH(s->elems, s->elem_count, s->elem_room) = (struct elem){
                block->size, block->nth, wrong ? TRACE_NONE : id, turns_has(&s->anyones, block)};
        *io_wrong += wrong;
        wanted += !wrong;
    }
    return wanted;
}

/* Candidates of one site and one shape: one for all blocks, else the coarsest ones possible. */
static void try_shape(
        struct search *s, const struct site *site, const struct shape *shape, uint32_t rank)
{
    struct candidate all = {.key = site->key,
            .inside = shape->inside,
            .when = shape->when,
            .size_lo = s->job->min_size,
            .size_hi = UINT64_MAX,
            .nth_hi = UINT32_MAX};
    size_t wrong = 0;

    s->elem_count = 0;
    size_t wanted = suggest_candidates_collect(s, shape, BAD, &wrong);
    if (wanted == 0)
        return;
    if (s->job->good)
        (void)suggest_candidates_collect(s, shape, GOOD, &wrong);
    if (wrong == 0) {
        add_candidate(s, &all, rank, s->elems, s->elem_count);
        for (size_t i = 0; i < s->elem_count; i++)
            s->is_covered[s->elems[i].late] = true;
        return;
    }
    VEC_SORT(s->elems, s->elem_count, suggest_candidates_by_size);
    add_runs(s, &all, rank | RANK_SIZES, s->elems, s->elem_count, true);
    add_runs_of_sizes(s, &all, rank | RANK_SIZES | RANK_NTH, s->elems, s->elem_count);
    VEC_SORT(s->elems, s->elem_count, by_nth);
    add_runs(s, &all, rank | RANK_NTH, s->elems, s->elem_count, false);
}

static void try_shapes(struct search *s, uint32_t number, bool literal)
{
    const struct site *site = &s->sites[number];
    uint32_t rank = site->rank * RANK_SITE + (literal ? RANK_LITERAL : 0);

    for (size_t i = 0; i < s->block_count[BAD]; i++) {
        uint32_t id = s->blocks[BAD][i];
        if (!is_late(s, BAD, id) || (literal && s->is_covered[id]))
            continue;
        const struct pair *pair = &s->pairs[s->pair_of[id]];
        struct shape *shape = &s->shapes[literal ? pair->literal : pair->folded];
        if (shape->seen == number + 1 || (literal && pair->literal == pair->folded))
            continue;
        shape->seen = number + 1;
        try_shape(s, site, shape, rank);
    }
}

static int suggest_candidates_by_path(const void *a, const void *b, void *side)
{
    const struct side *of = side;
    uint32_t i = *(const uint32_t *)a;
    uint32_t k = *(const uint32_t *)b;
    uint32_t x = of->path[of->trace->blocks[i].anchor];
    uint32_t y = of->path[of->trace->blocks[k].anchor];

    return vec_order(x, y, vec_order(i, k, 0));
}

/* The blocks of a site by path: picked out of all blocks if the site has many, else sorted. */
static void list_site(struct search *s, uint32_t number, int which, uint64_t blocks)
{
    struct side *side = &s->side[which];
    const struct vec_lists *origins = &s->origins;

    s->block_count[which] = 0;
    for (uint32_t o = origins->first[number]; o < origins->first[number + 1]; o++)
        s->origin_seen[origins->at[o]] = number + 1;
    if (blocks > side->trace->block_count / 16) {
        size_t count = side->inside.first[s->path_count];
        for (size_t i = 0; i < count; i++)
            if (s->origin_seen[side->origin[side->inside.at[i]]] == number + 1)
                VEC_PUSH(s->blocks[which], s->block_count[which], s->block_room[which]) =
                        side->inside.at[i];
        return;
    }
    for (uint32_t o = origins->first[number]; o < origins->first[number + 1]; o++) {
        uint32_t origin = origins->at[o];
        for (uint32_t b = side->blocks.first[origin]; b < side->blocks.first[origin + 1]; b++)
            VEC_PUSH(s->blocks[which], s->block_count[which], s->block_room[which]) =
                    side->blocks.at[b];
    }
    if (s->block_count[which])
        qsort_r(s->blocks[which], s->block_count[which], sizeof(uint32_t),
                suggest_candidates_by_path, side);
}

/* The cost of a site; of sites with the same allocations the most readable one represents all. */
struct turn {
    uint32_t site, rank;
    uint64_t blocks;
    struct key same; /* equal for sites of the same origins */
};

static struct turn make_turn(const struct search *s, uint32_t site)
{
    struct turn turn = {.site = site, .rank = s->sites[site].rank, .same = {1, 0, 0}};

    for (uint32_t o = s->origins.first[site]; o < s->origins.first[site + 1]; o++) {
        uint32_t origin = s->origins.at[o];
        for (int which = 0; which < s->sides; which++)
            turn.blocks +=
                    s->side[which].blocks.first[origin + 1] - s->side[which].blocks.first[origin];
        turn.same.a = (turn.same.a ^ origin) * UINT64_C(0x9fb21c651e98df25);
        turn.same.a ^= turn.same.a >> 32;
        turn.same.b = (turn.same.b + origin + 1) * UINT64_C(0xd6e8feb86659fd93);
        turn.same.b ^= turn.same.b >> 29;
    }
    return turn;
}

/* Few blocks first: at the limit, sites with most are left out, as frames around all others are. */
static int by_cost(const void *a, const void *b)
{
    const struct turn *x = a;
    const struct turn *y = b;

    int order = vec_order(x->rank, y->rank, vec_order(x->site, y->site, 0));

    return vec_order(x->blocks, y->blocks, order);
}

/* Literal anchors serve late frees that no folded anchor matches without a split. */
static bool needs_literal(const struct search *s, uint32_t site, const bool *is_open)
{
    for (uint32_t o = s->origins.first[site]; o < s->origins.first[site + 1]; o++)
        if (is_open[s->origins.at[o]])
            return true;
    return false;
}

static void try_sites(struct search *s, const struct turn *turns, size_t count, bool literal)
{
    const struct side *bad = &s->side[BAD];
    bool *is_open = vec_new(keytable_count(&s->origin_numbers), sizeof(*is_open));
    size_t i;

    for (uint32_t id = 0; id < bad->trace->block_count; id++)
        if (is_late(s, BAD, id) && !s->is_covered[id])
            is_open[bad->origin[id]] = true;
    for (i = 0; i < count && s->looks < s->job->looks_max; i++) {
        progress_step(i + (literal ? count : 0), 2 * count);
        if (literal && !needs_literal(s, turns[i].site, is_open))
            continue;
        for (int which = 0; which < s->sides; which++)
            list_site(s, turns[i].site, which, turns[i].blocks);
        try_shapes(s, turns[i].site, literal);
    }
    s->out.is_cut |= i < count;
    free(is_open);
}

static void try_all(struct search *s)
{
    struct turn *turns = vec_new(s->site_count, sizeof(*turns));
    struct keytable known = {0};
    size_t count = 0;

    for (size_t i = 0; i < s->site_count; i++)
        turns[i] = make_turn(s, (uint32_t)i);
    VEC_SORT(turns, s->site_count, by_cost);
    for (size_t i = 0; i < s->site_count; i++) {
        bool is_new;
        (void)keytable_number_new(&known, turns[i].same, &is_new);
        if (is_new)
            turns[count++] = turns[i];
    }
    keytable_done(&known);
    s->origin_seen = vec_new(keytable_count(&s->origin_numbers), sizeof(*s->origin_seen));
    s->is_covered = vec_new(s->side[BAD].trace->block_count, sizeof(*s->is_covered));
    try_sites(s, turns, count, false);
    try_sites(s, turns, count, true);
    free(turns);
}

static void search_done(struct search *s)
{
    for (int which = 0; which < SIDES; which++) {
        free(s->side[which].path);
        free(s->side[which].origin);
        vec_lists_done(&s->side[which].blocks);
        vec_lists_done(&s->side[which].exits);
        vec_lists_done(&s->side[which].inside);
        free(s->blocks[which]);
    }
    for (size_t i = 0; i < s->glob_count; i++) {
        free(s->globs[i].paths);
        free(s->globs[i].exits[BAD]);
        free(s->globs[i].exits[GOOD]);
    }
    keytable_done(&s->anyones);
    keytable_done(&s->path_numbers);
    keytable_done(&s->origin_numbers);
    keytable_done(&s->glob_numbers);
    keytable_done(&s->shape_numbers);
    keytable_done(&s->pair_numbers);
    keytable_done(&s->site_numbers);
    vec_lists_done(&s->origins);
    free(s->origin_seen);
    free(s->is_covered);
    free((void *)s->paths);
    free(s->globs);
    free(s->shapes);
    free(s->pairs);
    free(s->pair_of);
    free(s->sites);
    free(s->elems);
}

struct suggest_candidates suggest_candidates_find(const struct suggest_candidates_job *job)
{
    struct search s = {.job = job,
            .side = {[BAD] = {.trace = job->bad}, [GOOD] = {.trace = job->good}},
            .sides = job->good ? SIDES : 1};

    for (int which = 0; which < s.sides; which++) {
        suggest_candidates_number_paths(&s, &s.side[which]);
        number_origins(&s, which);
    }
    for (int which = 0; which < s.sides; which++) {
        list_by_path(&s, &s.side[which]);
        turns_find(&s.anyones, s.side[which].trace, s.side[which].origin);
    }
    s.pair_of = vec_new(job->bad->block_count, sizeof(*s.pair_of));
    for (uint32_t i = 0; i < job->bad->block_count; i++)
        if (is_late(&s, BAD, i))
            number_pair(&s, i);
    suggest_candidates_list_sites(&s);
    try_all(&s);
    search_done(&s);
    return s.out;
}

void suggest_candidates_done(struct suggest_candidates *candidates)
{
    free(candidates->list);
    free(candidates->sets);
    free(candidates->items);
    free((void *)candidates->globs);
    *candidates = (struct suggest_candidates){0};
}
