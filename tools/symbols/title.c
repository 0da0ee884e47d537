/* SPDX-License-Identifier: MIT */
#include "tools/symbols/title.h"

#include <stdlib.h>
#include <string.h>

#include "tools/base/filename.h"
#include "tools/base/keytable.h"
#include "tools/base/vec.h"
#include "tools/symbols/framekind.h"

#define TITLE_PARTS  16 /* most frames of one title */
#define TITLE_ROUNDS 64 /* most frames that are tried */

static const char workspace_title[] = "cuBLAS workspace";

/* ---- the ways of the trace: which of a stack's own frames tell it from all others ---- */

/*
 * The program's own frames of a stack, innermost first, Python before native; stacks often share
 * them. A stack without any: one frame of the best kind that it has.
 */
struct way {
    enum framekind kind;
    uint32_t first, count; /* its frames are frames[first] and on */
    uint16_t told[TITLE_PARTS];
    unsigned told_count; /* of these frames, those that are in the title */
};

/* Of all stacks that the trace had then. */
struct ways {
    size_t stacks;
    uint32_t *of_stack;
    struct way *list;
    size_t count, room;
    uint32_t *frames; /* equal texts have equal numbers */
    size_t frame_count, frame_room;
};

/* Kinds and texts of lines, each found once. */
struct line_kind {
    enum framekind kind;
    uint32_t text;
    bool is_workspace;
};

struct line_kinds {
    struct keytable lines, texts, ways;
    struct line_kind *list;
    size_t count, room;
};

static void ways_free(void *data)
{
    struct ways *ways = data;

    free(ways->of_stack);
    free(ways->list);
    free(ways->frames);
    free(ways);
}

/* Lines of one frame have the same texts in memory (symbols.h). */
static const struct line_kind *line_kind_at(
        struct line_kinds *kinds, const struct symbols_line *line)
{
    bool is_new;
    const struct key key = {(uintptr_t)line->function, (uintptr_t)symbols_line_file(line),
            (uint64_t)line->line << 2 | (uint64_t)line->is_python << 1 | line->is_ours};
    uint32_t at = keytable_number_new(&kinds->lines, key, &is_new);

    if (is_new) {
        struct line_kind found = {
                .kind = framekind_of(line), .is_workspace = framekind_is_workspace(line)};
        char *text = framekind_text(line, found.kind);
        found.text = keytable_number(&kinds->texts, keytable_text(text));
        VEC_PUSH(kinds->list, kinds->count, kinds->room) = found;
        free(text);
    }
    return &kinds->list[at];
}

/* Adds the way's frames. */
static struct way way_of(
        struct ways *ways, struct line_kinds *kinds, const struct symbols_line *lines, size_t count)
{
    struct way way = {.kind = FRAMEKIND_NONE, .first = (uint32_t)ways->frame_count};

    for (size_t i = 0; i < count; i++) {
        const struct line_kind *line = line_kind_at(kinds, &lines[i]);
        if (line->is_workspace) {
            VEC_PUSH(ways->frames, ways->frame_count, ways->frame_room) =
                    keytable_number(&kinds->texts, keytable_text(workspace_title));
            way.kind = FRAMEKIND_PROGRAM_NATIVE;
            way.count = 1;
            return way;
        }
        if (line->kind < way.kind)
            way.kind = line->kind;
    }
    size_t most = way.kind <= FRAMEKIND_PROGRAM_NATIVE ? count : 1;
    for (size_t i = 0; i < count && way.count < most; i++) {
        const struct line_kind *line = line_kind_at(kinds, &lines[i]);
        if (line->kind != way.kind)
            continue;
        VEC_PUSH(ways->frames, ways->frame_count, ways->frame_room) = line->text;
        way.count++;
    }
    return way;
}

static struct key way_key(const struct ways *ways, const struct way *way)
{
    struct key key = KEYTABLE_NO_TEXT;

    key = keytable_longer(key, (char)way->kind);
    for (uint32_t i = 0; i < way->count; i++)
        for (unsigned byte = 0; byte < sizeof(uint32_t); byte++)
            key = keytable_longer(key, (char)(ways->frames[way->first + i] >> 8 * byte));
    return key;
}

static void ways_collect(struct ways *ways, struct symbols *symbols)
{
    struct line_kinds kinds = {0};

    for (size_t i = 0; i < ways->stacks; i++) {
        size_t count;
        bool is_new;
        const struct symbols_line *lines = symbols_stack(symbols, (uint32_t)i, &count);
        struct way way = way_of(ways, &kinds, lines, count);
        ways->of_stack[i] = keytable_number_new(&kinds.ways, way_key(ways, &way), &is_new);
        if (is_new)
            VEC_PUSH(ways->list, ways->count, ways->room) = way;
        else
            ways->frame_count = way.first;
    }
    keytable_done(&kinds.lines);
    keytable_done(&kinds.texts);
    keytable_done(&kinds.ways);
    free(kinds.list);
}

/* A way, and its frame that is looked at: UINT32_MAX behind the last one. */
struct way_row {
    uint32_t frame, way;
};

static const struct vec_key by_frame[] = {
        VEC_UP(struct way_row, frame), VEC_UP(struct way_row, way)};

static uint32_t way_frame(const struct ways *ways, uint32_t way, size_t at)
{
    return at < ways->list[way].count ? ways->frames[ways->list[way].first + at] : UINT32_MAX;
}

/* The first frame from `at` on in which the rows differ; SIZE_MAX: none. */
static size_t ways_differ(
        const struct ways *ways, const struct way_row *rows, size_t count, size_t at)
{
    size_t longest = 0;

    for (size_t i = 0; i < count; i++)
        if (ways->list[rows[i].way].count > longest)
            longest = ways->list[rows[i].way].count;
    for (; at < longest; at++)
        for (size_t i = 1; i < count; i++)
            if (way_frame(ways, rows[i].way, at) != way_frame(ways, rows[0].way, at))
                return at;
    return SIZE_MAX;
}

/* Behind the last of the sorted rows that have the frame of row `i`. */
static size_t ways_run(const struct way_row *rows, size_t count, size_t i)
{
    size_t end = i + 1;

    while (end < count && rows[end].frame == rows[i].frame)
        end++;
    return end;
}

/*
 * Tells rows apart that are equal before frame `from`: frame `at` comes into their titles, and rows
 * that are equal there go on alone.
 */
static void ways_tell(struct ways *ways, struct way_row *rows, size_t count,
        size_t at) // NOLINT(misc-no-recursion)
{
    if (at == SIZE_MAX || ways->list[rows[0].way].told_count == TITLE_PARTS)
        return;
    for (size_t i = 0; i < count; i++) {
        struct way *way = &ways->list[rows[i].way];
        rows[i].frame = way_frame(ways, rows[i].way, at);
        if (at < way->count)
            way->told[way->told_count++] = (uint16_t)at;
    }
    VEC_SORT_BY(rows, count, by_frame);
    for (size_t i = 0, end; i < count; i = end) {
        end = ways_run(rows, count, i);
        if (end - i > 1)
            ways_tell(ways, rows + i, end - i, ways_differ(ways, rows + i, end - i, at + 1));
    }
}

/* Sorts the rows by their frame `at`, those with the most frequent one first; their number. */
static size_t ways_agree(
        const struct ways *ways, struct way_row *rows, size_t count, size_t at, bool *ret_go_on)
{
    size_t first = 0;
    size_t most = 0;

    for (size_t i = 0; i < count; i++)
        rows[i].frame = way_frame(ways, rows[i].way, at);
    VEC_SORT_BY(rows, count, by_frame);
    for (size_t i = 0, end; i < count; i = end) {
        end = ways_run(rows, count, i);
        first = end - i > most ? i : first;
        most = end - i > most ? end - i : most;
    }
    *ret_go_on = true;
    for (size_t i = 0; i < most; i++) {
        struct way_row row = rows[first + i];
        rows[first + i] = rows[i];
        rows[i] = row;
        *ret_go_on = *ret_go_on && ways->list[row.way].count > at + 1;
    }
    return most;
}

/*
 * Wrappers: rows that begin with the same frames, and go on, are put first; *ret_shared: how many
 * such frames, 0 if less than three of four rows share any.
 */
static size_t ways_wrapped(
        const struct ways *ways, struct way_row *rows, size_t count, size_t *ret_shared)
{
    size_t wrapped = count;

    for (*ret_shared = 0;; (*ret_shared)++) {
        bool go_on;
        size_t most = ways_agree(ways, rows, wrapped, *ret_shared, &go_on);
        if (most < 2 || !go_on || 4 * most < 3 * count)
            return *ret_shared ? wrapped : 0;
        wrapped = most;
    }
}

static struct ways *ways_new(struct symbols *symbols)
{
    struct ways *ways = vec_new(1, sizeof(*ways));
    size_t own = 0;
    size_t shared;

    ways->stacks = symbols_stack_count(symbols);
    ways->of_stack = vec_new(ways->stacks + 1, sizeof(*ways->of_stack));
    ways_collect(ways, symbols);
    struct way_row *rows = vec_new(ways->count, sizeof(*rows));
    for (uint32_t i = 0; i < ways->count; i++)
        rows[i] = (struct way_row){ways->list[i].kind, i};
    VEC_SORT_BY(rows, ways->count, by_frame);
    while (own < ways->count && rows[own].frame <= FRAMEKIND_PROGRAM_NATIVE)
        own++;
    size_t wrapped = ways_wrapped(ways, rows, own, &shared);
    if (wrapped)
        ways_tell(ways, rows, wrapped, shared);
    for (size_t i = wrapped; i < ways->count; i++)
        rows[i].frame = ways->list[rows[i].way].kind;
    VEC_SORT_BY(rows + wrapped, ways->count - wrapped, by_frame);
    for (size_t i = wrapped, end; i < ways->count; i = end) {
        end = ways_run(rows, ways->count, i);
        ways_tell(ways, rows + i, end - i, 0);
    }
    free(rows);
    return ways;
}

/* The way of a stack; the trace may have more stacks than last time. */
static const struct way *title_way(struct symbols *symbols, uint32_t stack)
{
    void **slot = symbols_slot(symbols, ways_free);
    struct ways *ways = *slot;

    if (!ways || ways->stacks != symbols_stack_count(symbols)) {
        if (ways)
            ways_free(ways);
        *slot = ways = ways_new(symbols);
    }
    return &ways->list[ways->of_stack[stack]];
}

/* ---- the rows of a table ---- */

/* The frames of a stack that may be in its title, the best first. */
struct part {
    char *text;
    enum framekind kind;
    const struct symbols_line *line; /* NULL: no stack */
};

struct parts {
    struct part *part;
    size_t count, room;
};

static void add_kind(
        struct parts *parts, const struct symbols_line *lines, size_t count, enum framekind kind)
{
    for (size_t i = 0; i < count; i++) {
        if (framekind_of(&lines[i]) != kind)
            continue;
        VEC_PUSH(parts->part, parts->count, parts->room) =
                (struct part){framekind_text(&lines[i], kind), kind, &lines[i]};
    }
}

static struct parts parts_of(struct symbols *symbols, uint32_t stack)
{
    struct parts parts = {0};
    size_t count;
    const struct symbols_line *lines = symbols_stack(symbols, stack, &count);

    for (size_t i = 0; i < count && parts.count == 0; i++)
        if (framekind_is_workspace(&lines[i]))
            VEC_PUSH(parts.part, parts.count, parts.room) =
                    (struct part){vec_text(workspace_title), FRAMEKIND_NONE, &lines[i]};
    for (enum framekind kind = 0; kind < FRAMEKINDS; kind++)
        add_kind(&parts, lines, count, kind);
    if (parts.count == 0) {
        enum framekind kind =
                count && *lines[0].module ? FRAMEKIND_LIBRARY : FRAMEKIND_PROGRAM_NATIVE;
        char *text = count ? framekind_text(&lines[0], kind) : vec_text("(no stack)");
        VEC_PUSH(parts.part, parts.count, parts.room) =
                (struct part){text, FRAMEKIND_NONE, count ? &lines[0] : NULL};
    }
    return parts;
}

static void parts_done(struct parts *parts)
{
    for (size_t i = 0; i < parts->count; i++)
        free(parts->part[i].text);
    free(parts->part);
}

char *title_line(struct symbols *symbols, uint32_t stack)
{
    struct parts parts = parts_of(symbols, stack);
    char *line = vec_text(parts.part[0].text);

    parts_done(&parts);
    return line;
}

/* A title that is being built. */
struct row {
    struct parts parts;
    char *title;
    size_t used;              /* parts up to here were tried */
    size_t told[TITLE_PARTS]; /* the parts in the title */
    unsigned frames;
    uint32_t number;
};

static const char *part_at(const struct row *row, size_t at)
{
    return at < row->parts.count ? row->parts.part[at].text : "";
}

static void title_extend(struct row *row, size_t at)
{
    if (at < row->parts.count) {
        const char *link = row->parts.part[at].kind == row->parts.part[0].kind ? " < " : ", ";
        char *longer = vec_format("%s%s%s", row->title, link, row->parts.part[at].text);
        free(row->title);
        row->title = longer;
        row->told[row->frames++] = at;
    }
    row->used = at + 1;
}

static int by_title(const void *a, const void *b)
{
    const struct row *x = a;
    const struct row *y = b;
    int r = strcmp(x->title, y->title);

    return r ? r : vec_order(x->number, y->number, 0);
}

/* The first untried part in which rows of one title differ; SIZE_MAX: none. */
static size_t title_find_difference(const struct row *rows, size_t count)
{
    size_t longest = 0;

    for (size_t i = 0; i < count; i++)
        if (rows[i].parts.count > longest)
            longest = rows[i].parts.count;
    for (size_t at = rows[0].used; at < longest; at++)
        for (size_t i = 1; i < count; i++)
            if (strcmp(part_at(&rows[0], at), part_at(&rows[i], at)) != 0)
                return at;
    return SIZE_MAX;
}

/* Adds one more frame to each of the rows that share a title, if that distinguishes any of them. */
static bool title_tell_apart(struct row *rows, size_t count)
{
    bool changed = false;
    size_t i = 0;

    VEC_SORT(rows, count, by_title);
    while (i < count) {
        size_t end = i + 1;
        while (end < count && strcmp(rows[i].title, rows[end].title) == 0)
            end++;
        size_t at = end - i > 1 && rows[i].frames < TITLE_PARTS
                ? title_find_difference(&rows[i], end - i)
                : SIZE_MAX;
        for (size_t k = i; at != SIZE_MAX && k < end; k++)
            title_extend(&rows[k], at);
        changed = changed || at != SIZE_MAX;
        i = end;
    }
    return changed;
}

/* Each row has the title that its way has in the whole trace. */
static struct row *rows_new(
        struct symbols *symbols, const void *from, size_t stride, size_t offset, size_t count)
{
    struct row *rows = vec_new(count, sizeof(*rows));

    for (size_t i = 0; i < count; i++) {
        uint32_t stack;
        memcpy(&stack, (const char *)from + i * stride + offset, sizeof(stack));
        const struct way *way = title_way(symbols, stack);
        rows[i] = (struct row){.parts = parts_of(symbols, stack), .number = (uint32_t)i};
        rows[i].title = vec_text(rows[i].parts.part[way->told_count ? way->told[0] : 0].text);
        rows[i].told[rows[i].frames++] = way->told_count ? way->told[0] : 0;
        for (unsigned k = 1; k < way->told_count; k++)
            title_extend(&rows[i], way->told[k]);
        rows[i].used = way->count;
    }
    return rows;
}

/* The titles of the rows, in their first order. */
static char **rows_end(struct row *rows, size_t count)
{
    char **titles = vec_new(count, sizeof(*titles));

    for (size_t i = 0; i < count; i++) {
        titles[rows[i].number] = rows[i].title;
        parts_done(&rows[i].parts);
    }
    free(rows);
    return titles;
}

static struct row *rows_apart(
        struct symbols *symbols, const void *from, size_t stride, size_t offset, size_t count)
{
    struct row *rows = rows_new(symbols, from, stride, offset, count);

    for (size_t round = 0; round < TITLE_ROUNDS && title_tell_apart(rows, count); round++)
        ;
    return rows;
}

char **title_rows(
        struct symbols *symbols, const void *rows, size_t stride, size_t offset, size_t count)
{
    return rows_end(rows_apart(symbols, rows, stride, offset, count), count);
}

char **title_ways(
        struct symbols *symbols, const void *rows, size_t stride, size_t offset, size_t count)
{
    return rows_end(rows_new(symbols, rows, stride, offset, count), count);
}

bool title_is_workspace(const char *title)
{
    return strcmp(title, workspace_title) == 0;
}

void title_done(char **titles, size_t count)
{
    for (size_t i = 0; titles && i < count; i++)
        free(titles[i]);
    free((void *)titles);
}

/* "libown+0x12": the library's name, and the offset. */
static char *word_without_name(const struct symbols_line *line)
{
    const char *name = filename_of(line->module);
    const char *suffix = strstr(name, ".so");
    const char *place = strrchr(line->function, '+');
    int length = suffix && suffix > name ? (int)(suffix - name) : (int)strlen(name);

    if (!*name) /* an address of one run */
        return vec_text("");
    return vec_format("%.*s%s", length, name, place ? place : "");
}

/* "" for a frame outside the program. */
static char *title_word_of(const struct part *part)
{
    const struct symbols_line *line = part->line;

    if (!line || part->kind > FRAMEKIND_PROGRAM_NATIVE)
        return vec_text("");
    if (line->is_python) {
        const char *dot = strrchr(line->function, '.'); /* in Class.method */
        return vec_text(dot && dot[1] ? dot + 1 : line->function);
    }
    return framekind_has_name(line) ? framekind_short_name(line->function)
                                    : word_without_name(line);
}

static char *title_words_of(const struct row *row)
{
    char *words = vec_text("");

    for (unsigned i = 0; i < row->frames; i++) {
        char *word = title_word_of(&row->parts.part[row->told[i]]);
        char *longer = vec_format("%s%s%s", words, *words && *word ? "-" : "", word);
        free(words);
        free(word);
        words = longer;
    }
    return words;
}

char **title_words(
        struct symbols *symbols, const void *rows, size_t stride, size_t offset, size_t count)
{
    struct row *told = rows_apart(symbols, rows, stride, offset, count);

    for (size_t i = 0; i < count; i++) {
        free(told[i].title);
        told[i].title = title_words_of(&told[i]);
    }
    return rows_end(told, count);
}
