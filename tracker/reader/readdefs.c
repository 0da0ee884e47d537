/* SPDX-License-Identifier: MIT */
#include "tracker/reader/readpart.h"

#include "tracker/format/formatsum.h"

#include <stdlib.h>
#include <string.h>

/* ---- one definition of each kind; `def` is the whole record ---- */

/* The text of a string number in a definition. */
static const char *readdefs_word_of(struct reader *reader, uint32_t number)
{
    reader_note_numbers(reader, number, 0, 0);
    return reader_string(reader->capture, number);
}

static int take_string(struct reader *reader, const struct format_def *def)
{
    struct read_private *private = reader->capture->private;

    if (def->id == 0 || def->id > private->strings || private->string[def->id])
        return reader_pass_over(reader);
    private->string[def->id] = strndup((const char *)(def + 1), def->length);
    return private->string[def->id] ? 0 : reader_no_memory(reader);
}

static int take_module(struct reader *reader, const struct format_def *def)
{
    const struct format_def_module *from = (const void *)def;
    struct read_module *module;

    if (def->id == 0 || def->id > reader->capture->private->modules
            || from->build_id_bytes > sizeof from->build_id)
        return reader_pass_over(reader);
    module = &reader->capture->module[def->id];
    if (module->end != 0)
        return reader_pass_over(reader); /* defined already */
    *module = (struct read_module){
            .path = readdefs_word_of(reader, from->path),
            .base = from->base,
            .end = from->end,
            .bias = from->bias,
            .hash = from->hash,
            .build_id_bytes = from->build_id_bytes,
            .kind = from->module_kind,
            .is_main = from->is_main != 0,
    };
    memcpy(module->build_id, from->build_id, sizeof from->build_id);
    return 0;
}

static int take_node(struct reader *reader, const struct format_def *def)
{
    struct read_private *private = reader->capture->private;
    const struct format_def_node *from = (const void *)def;

    /* A parent's number is smaller, so every stack ends. */
    if (def->id == 0 || def->id > private->nodes || from->parent >= def->id
            || from->module > private->modules)
        return reader_pass_over(reader);
    if (private->node[def->id].is_there)
        return reader_pass_over(reader);
    private->node[def->id] = (struct read_node){from->parent, from->module, from->offset, true};
    return 0;
}

static int take_pycode(struct reader *reader, const struct format_def *def)
{
    struct read_private *private = reader->capture->private;
    const struct format_def_pycode *from = (const void *)def;
    struct read_pycode *code;

    if (def->id == 0 || def->id > private->codes || private->code[def->id].lines)
        return reader_pass_over(reader);
    code = &private->code[def->id];
    code->lines = malloc((size_t)def->length + 1);
    if (!code->lines)
        return reader_no_memory(reader);
    memcpy(code->lines, from + 1, def->length);
    code->def = *from;
    reader_note_numbers(reader, from->name, 0, 0);
    reader_note_numbers(reader, from->qualname, 0, 0);
    reader_note_numbers(reader, from->file, 0, 0);
    return 0;
}

static int take_pynode(struct reader *reader, const struct format_def *def)
{
    struct read_private *private = reader->capture->private;
    const struct format_def_pynode *from = (const void *)def;

    if (def->id == 0 || def->id > private->pynodes || from->parent >= def->id || from->code == 0
            || from->code > private->codes || private->pynode[def->id].code != 0)
        return reader_pass_over(reader);
    private->pynode[def->id] =
            (struct read_pynode){from->parent, from->code, from->lasti, from->entry != 0};
    return 0;
}

static int take_rule(struct reader *reader, const struct format_def *def)
{
    const struct format_def_rule *from = (const void *)def;

    reader->capture->rule[def->id] = (struct read_rule){
            .id = readdefs_word_of(reader, from->name),
            .action = from->action < ACTION_COUNT ? (enum action)from->action : ACTION_NONE,
            .mode = from->mode < HINT_MODE_COUNT ? (enum hint_mode)from->mode : HINT_OFF,
            .line = from->line,
    };
    return 0;
}

static int take_drift(struct reader *reader, const struct format_def *def)
{
    const struct format_def_drift *from = (const void *)def;
    struct read_rule *rule = &reader->capture->rule[def->id];

    rule->has_drifted = true;
    rule->drift = (struct hintwords_drift){
            .expect = {{from->count_lo, from->count_hi}, {from->bytes_lo, from->bytes_hi}},
            .seen = {from->count, from->bytes},
            .path = readdefs_word_of(reader, from->path),
            .instance = from->instance,
    };
    return 0;
}

static int take_evict(struct reader *reader, const struct format_def *def)
{
    const struct format_def_evict *from = (const void *)def;
    struct read_capture *capture = reader->capture;

    capture->evict[capture->evict_count++] =
            (struct read_evict){(int)def->id, from->time_ns, from->what};
    return 0;
}

static int take_kept(struct reader *reader, const struct format_def *def)
{
    const struct format_def_kept *from = (const void *)def;
    struct read_capture *capture = reader->capture;

    reader_note_numbers(reader, 0, from->stack, from->pystack);
    capture->kept[capture->kept_count++] = (struct read_kept){
            .rule = (int)def->id,
            .device = from->device,
            .why = from->why < FORMAT_KEPT_COUNT ? (enum format_kept_why)from->why
                                                 : FORMAT_KEPT_NONE,
            .addr = from->addr,
            .size = from->size,
            .seq = from->seq,
            .stack = from->stack,
            .pystack = from->pystack,
            .path = readdefs_word_of(reader, from->path),
    };
    return 0;
}

static int take_short(struct reader *reader, const struct format_def *def)
{
    const struct format_def_short *from = (const void *)def;
    struct read_capture *capture = reader->capture;

    capture->shorts[capture->short_count++] = (struct read_short){
            .rule = (int)def->id,
            .device = from->device,
            .time_ns = from->time_ns,
            .needed = from->needed,
            .room = from->room,
            .cap = from->cap,
            .path = readdefs_word_of(reader, from->path),
            .instance = from->instance,
    };
    return 0;
}

static int take_held(struct reader *reader, const struct format_def *def)
{
    const struct format_def_held *from = (const void *)def;
    struct read_capture *capture = reader->capture;
    char *text = strndup((const char *)(from + 1), def->length);

    if (!text)
        return reader_no_memory(reader);
    reader_note_numbers(reader, 0, from->stack, from->pystack);
    capture->held[capture->held_count++] =
            (struct read_held){def->id, from->stack, from->pystack, from->bytes, from->count, text};
    return 0;
}

static int take_held_at(struct reader *reader, const struct format_def *def)
{
    const struct format_def_held_at *from = (const void *)def;
    struct read_capture *capture = reader->capture;
    size_t count = def->length / sizeof(uint64_t);
    uint64_t *address = malloc(count ? count * sizeof *address : 1);

    if (!address)
        return reader_no_memory(reader);
    memcpy(address, from + 1, count * sizeof *address);
    capture->held_at[capture->held_at_count++] =
            (struct read_held_at){def->id, from->row, address, count};
    return 0;
}

static int take_walk(struct reader *reader, const struct format_def *def)
{
    const struct format_def_walk *from = (const void *)def;

    if (from->why == FORMAT_WALK_NONE || from->why >= FORMAT_WALK_COUNT)
        return reader_pass_over(reader);
    reader->capture->walk[reader->capture->walk_count++] = *from;
    return 0;
}

static int take_data(struct reader *reader, const struct format_def *def)
{
    const struct format_def_data *from = (const void *)def;
    struct read_capture *capture = reader->capture;
    char *text;

    if (def->id == FORMAT_DATA_NONE || def->id >= FORMAT_DATA_COUNT)
        return reader_pass_over(reader);
    text = strndup((const char *)(from + 1), def->length);
    if (!text)
        return reader_no_memory(reader);
    capture->data[capture->data_count++] = (struct read_data){
            .kind = (enum format_data)def->id,
            .root = from->root,
            .flags = from->flags,
            .seq = from->seq,
            .address = from->address,
            .size = from->size,
            .time_ns = from->time_ns,
            .text = text,
    };
    return 0;
}

static int readdefs_take_hints(struct reader *reader, const struct format_def *def)
{
    const struct format_def_hints *from = (const void *)def;
    struct read_capture *capture = reader->capture;

    capture->hints_hash = from->hash;
    capture->hints_path = readdefs_word_of(reader, from->path);
    capture->hints_mode = from->mode < HINT_MODE_COUNT ? (enum hint_mode)from->mode : HINT_OFF;
    return 0;
}

static int take_setting(struct reader *reader, const struct format_def *def)
{
    const struct format_def_pair *from = (const void *)def;
    struct read_capture *capture = reader->capture;

    capture->setting[capture->setting_count++] = (struct read_pair){
            readdefs_word_of(reader, from->name), readdefs_word_of(reader, from->value)};
    return 0;
}

static int take_note(struct reader *reader, const struct format_def *def)
{
    struct read_capture *capture = reader->capture;
    char *text = strndup((const char *)(def + 1), def->length);

    if (!text)
        return reader_no_memory(reader);
    capture->note[capture->note_count++] = (struct read_note){def->id, text};
    return 0;
}

static int take_device(struct reader *reader, const struct format_def *def)
{
    const struct format_def_device *from = (const void *)def;
    struct read_capture *capture = reader->capture;

    capture->device[capture->device_count++] = (struct read_device){
            .device = (int)(int32_t)def->id,
            .name = readdefs_word_of(reader, from->name),
            .total_bytes = from->total_bytes,
            .driver_version = from->driver_version,
    };
    return 0;
}

static int take_thread(struct reader *reader, const struct format_def *def)
{
    const struct format_def_thread *from = (const void *)def;
    struct read_capture *capture = reader->capture;

    capture->thread[capture->thread_count++] =
            (struct read_thread){def->id, from->tid, readdefs_word_of(reader, from->name)};
    return 0;
}

/* Later records of the same hook and route replace earlier ones; sorted afterwards, since there may
 * be many. */
static int take_coverage(struct reader *reader, const struct format_def *def)
{
    const struct format_def_coverage *from = (const void *)def;
    struct read_capture *capture = reader->capture;

    capture->coverage[capture->coverage_count++] =
            (struct read_coverage){readdefs_word_of(reader, from->hook),
                    readdefs_word_of(reader, from->route), from->count};
    return 0;
}

static int take_moves(struct reader *reader, const struct format_def *def)
{
    const struct format_def_moves *from = (const void *)def;

    if (from->count >= reader->capture->moves.count)
        reader->capture->moves = (struct read_moves){
                .count = from->count,
                .bytes = from->bytes,
                .ns = from->ns,
                .time_ns = from->time_ns,
                .ready = from->ready,
                .lazy = from->lazy,
                .sparing = from->sparing,
                .create_ns = from->create_ns,
                .map_ns = from->map_ns,
                .access_ns = from->access_ns,
                .unmap_ns = from->unmap_ns,
        };
    return 0;
}

static const struct {
    size_t bytes; /* without the text */
    int (*take)(struct reader *reader, const struct format_def *def);
    bool is_of_rule; /* its id is the index of a rule */
} kinds[FORMAT_DEF_KIND_COUNT] = {
        [FORMAT_DEF_STRING] = {sizeof(struct format_def), take_string, false},
        [FORMAT_DEF_MODULE] = {sizeof(struct format_def_module), take_module, false},
        [FORMAT_DEF_NODE] = {sizeof(struct format_def_node), take_node, false},
        [FORMAT_DEF_RULE] = {sizeof(struct format_def_rule), take_rule, true},
        [FORMAT_DEF_HINTS] = {sizeof(struct format_def_hints), readdefs_take_hints, false},
        [FORMAT_DEF_SETTING] = {sizeof(struct format_def_pair), take_setting, false},
        [FORMAT_DEF_NOTE] = {sizeof(struct format_def), take_note, false},
        [FORMAT_DEF_DEVICE] = {sizeof(struct format_def_device), take_device, false},
        [FORMAT_DEF_COVERAGE] = {sizeof(struct format_def_coverage), take_coverage, false},
        [FORMAT_DEF_THREAD] = {sizeof(struct format_def_thread), take_thread, false},
        [FORMAT_DEF_PYCODE] = {sizeof(struct format_def_pycode), take_pycode, false},
        [FORMAT_DEF_PYNODE] = {sizeof(struct format_def_pynode), take_pynode, false},
        [FORMAT_DEF_DRIFT] = {sizeof(struct format_def_drift), take_drift, true},
        [FORMAT_DEF_EVICT] = {sizeof(struct format_def_evict), take_evict, true},
        [FORMAT_DEF_KEPT] = {sizeof(struct format_def_kept), take_kept, true},
        [FORMAT_DEF_SHORT] = {sizeof(struct format_def_short), take_short, true},
        [FORMAT_DEF_MOVES] = {sizeof(struct format_def_moves), take_moves, false},
        [FORMAT_DEF_HELD] = {sizeof(struct format_def_held), take_held, false},
        [FORMAT_DEF_WALK] = {sizeof(struct format_def_walk), take_walk, false},
        [FORMAT_DEF_DATA] = {sizeof(struct format_def_data), take_data, false},
        [FORMAT_DEF_HELD_AT] = {sizeof(struct format_def_held_at), take_held_at, false},
};

/* ---- blocks ---- */

static int keep_def(struct reader *reader, const unsigned char *at, uint32_t bytes, uint32_t kind)
{
    if (reader->seen[kind] == UINT32_MAX - 1)
        return reader_pass_over(reader); /* beyond the last possible number */
    while (reader->arena_used + bytes > reader->arena_size) {
        size_t size = reader->arena_size ? 2 * reader->arena_size : 1u << 20;
        unsigned char *to = realloc(reader->arena, size);

        if (!to)
            return reader_no_memory(reader);
        reader->arena = to;
        reader->arena_size = size;
    }
    if (reader_make_room((void **)&reader->found, &reader->found_size, reader->found_count,
                sizeof *reader->found)
            < 0)
        return reader_no_memory(reader);
    memcpy(reader->arena + reader->arena_used, at, bytes);
    reader->found[reader->found_count++] = (struct read_found){reader->arena_used, kind};
    reader->arena_used += bytes;
    reader->seen[kind]++;
    return 0;
}

static bool is_record(const struct format_def *def, size_t left)
{
    return def->bytes % 8 == 0 && def->bytes >= sizeof *def && def->bytes <= left;
}

/* Is the record unchanged? Removes the sum from its kind. */
static bool has_its_sum(const unsigned char *at, struct format_def *io_def, size_t left)
{
    uint32_t kind = io_def->kind & ((1u << FORMAT_DEF_KIND_BITS) - 1);

    if (!is_record(io_def, left)
            || io_def->kind != formatsum_def(kind, (const struct format_def *)(const void *)at))
        return false;
    io_def->kind = kind;
    return true;
}

/* Reads one block: records until kind 0 or the end. A record with an invalid length ends it. */
static int read_block(struct reader *reader, const unsigned char *block, size_t length)
{
    size_t at = 0;

    while (length - at >= sizeof(struct format_def)) {
        struct format_def def;
        int r;

        memcpy(&def, block + at, sizeof def);
        if (def.kind == FORMAT_DEF_NONE)
            return 0;
        if (!has_its_sum(block + at, &def, length - at))
            return reader_leave_out(reader, READ_AREA_DEFS); /* the next record cannot be found */
        if (def.kind >= FORMAT_DEF_KIND_COUNT || !kinds[def.kind].take
                || def.bytes < kinds[def.kind].bytes
                || def.length > def.bytes - kinds[def.kind].bytes) {
            reader->capture
                    /* perhaps of a later version: following records may be valid */
                    ->bad_records++;
            at += def.bytes;
            continue;
        }
        r = keep_def(reader, block + at, def.bytes, def.kind);
        if (r < 0)
            return r;
        at += def.bytes;
    }
    return 0;
}

/* Returns the published bytes of a block: a record with a kind in the first copy is complete in the
 * second. */
static uint32_t published(const unsigned char *first, const unsigned char *second)
{
    uint32_t at = 0;

    while (FORMAT_DEFS_BLOCK - at >= sizeof(struct format_def)) {
        struct format_def def;

        memcpy(&def, first + at, sizeof def);
        if (def.kind == FORMAT_DEF_NONE)
            return at;
        memcpy(&def, second + at, sizeof def);
        if (!is_record(&def, FORMAT_DEFS_BLOCK - at))
            break;
        at += def.bytes;
    }
    return FORMAT_DEFS_BLOCK;
}

static uint64_t blocks_of(const struct format_extent *extent)
{
    return extent->kind == FORMAT_EXTENT_DEFS ? extent->length / FORMAT_DEFS_BLOCK : 0;
}

/* Of a running process: measures each block, the newest block first. So every record before a seen
 * one was there when its own block was measured, and the numbers have no gap. */
static void measure_blocks(struct reader *reader, unsigned char *two_blocks, uint32_t *ends)
{
    unsigned char *second = two_blocks + FORMAT_DEFS_BLOCK;

    for (uint32_t i = reader->extents; i-- > 0;)
        for (uint64_t j = blocks_of(&reader->extent[i]); j-- > 0;) {
            uint64_t at = reader->extent[i].offset + j * FORMAT_DEFS_BLOCK;

            if (reader_fetch(&reader->source, at, two_blocks, FORMAT_DEFS_BLOCK)
                    && reader_fetch(&reader->source, at, second, FORMAT_DEFS_BLOCK))
                *ends = published(two_blocks, second);
            ends++;
        }
}

static int read_blocks(struct reader *reader, unsigned char *block, const uint32_t *ends)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < reader->extents; i++)
        for (uint64_t j = 0; r == 0 && j < blocks_of(&reader->extent[i]); j++) {
            uint64_t at = reader->extent[i].offset + j * FORMAT_DEFS_BLOCK;
            uint32_t length = ends ? *--ends : FORMAT_DEFS_BLOCK;

            if (reader_fetch(&reader->source, at, block, length))
                r = read_block(reader, block, length);
        }
    return r;
}

static int read_defs(struct reader *reader)
{
    unsigned char *two_blocks = malloc(2 * (size_t)FORMAT_DEFS_BLOCK);
    uint32_t *ends = NULL;
    size_t blocks = 0;
    int r;

    for (uint32_t i = 0; i < reader->extents; i++)
        blocks += blocks_of(&reader->extent[i]);
    if (reader_is_moving(reader))
        ends = calloc(blocks + 1, sizeof *ends);
    if (!two_blocks || (reader_is_moving(reader) && !ends)) {
        r = reader_no_memory(reader);
    } else {
        if (ends)
            measure_blocks(reader, two_blocks, ends);
        r = read_blocks(reader, two_blocks, ends ? ends + blocks : NULL);
    }
    free(ends);
    free(two_blocks);
    return r;
}

/* ---- all definitions ---- */

static int by_hook(const void *left, const void *right)
{
    const struct read_coverage *a = left;
    const struct read_coverage *b = right;
    int order = strcmp(a->hook, b->hook);

    if (order == 0)
        order = strcmp(a->route, b->route);
    if (order == 0)
        order = a->count < b->count ? -1 : a->count > b->count;
    return order;
}

/* Counts only rise, so the highest one is the latest. */
static void merge_coverage(struct read_capture *capture)
{
    size_t kept = 0;

    if (capture->coverage_count == 0)
        return;
    qsort(capture->coverage, capture->coverage_count, sizeof *capture->coverage, by_hook);
    for (size_t i = 0; i < capture->coverage_count; i++) {
        if (kept > 0 && strcmp(capture->coverage[kept - 1].hook, capture->coverage[i].hook) == 0
                && strcmp(capture->coverage[kept - 1].route, capture->coverage[i].route) == 0)
            kept--;
        capture->coverage[kept++] = capture->coverage[i];
    }
    capture->coverage_count = kept;
}

static int by_step(const void *left, const void *right)
{
    const struct read_evict *a = left;
    const struct read_evict *b = right;

    if (a->rule != b->rule)
        return a->rule < b->rule ? -1 : 1;
    if (a->what.device != b->what.device)
        return a->what.device < b->what.device ? -1 : 1;
    return a->what.step < b->what.step ? -1 : a->what.step > b->what.step;
}

/* Zeroed entries for numbers up to `count`. */
static void *readdefs_make(struct reader *reader, uint32_t count, size_t bytes)
{
    void *array = calloc((size_t)count + 1, bytes);

    reader->is_short |= !array;
    return array;
}

/* Allocates arrays for the number of records seen: a number beyond that is invalid. */
static int make_arrays(struct reader *reader)
{
    struct read_capture *capture = reader->capture;
    struct read_private *private = capture->private;
    const uint32_t *seen = reader->seen;

    private->strings = seen[FORMAT_DEF_STRING];
    private->modules = seen[FORMAT_DEF_MODULE];
    private->nodes = seen[FORMAT_DEF_NODE];
    private->codes = seen[FORMAT_DEF_PYCODE];
    private->pynodes = seen[FORMAT_DEF_PYNODE];
    capture->module_count = (size_t) private->modules + 1;
    capture->rule_count = seen[FORMAT_DEF_RULE];
    private->string = readdefs_make(reader, private->strings, sizeof *private->string);
    private->node = readdefs_make(reader, private->nodes, sizeof *private->node);
    private->code = readdefs_make(reader, private->codes, sizeof *private->code);
    private->pynode = readdefs_make(reader, private->pynodes, sizeof *private->pynode);
    capture->module = readdefs_make(reader, private->modules, sizeof *capture->module);
    capture->rule = readdefs_make(reader, seen[FORMAT_DEF_RULE], sizeof *capture->rule);
    capture->evict = readdefs_make(reader, seen[FORMAT_DEF_EVICT], sizeof *capture->evict);
    capture->kept = readdefs_make(reader, seen[FORMAT_DEF_KEPT], sizeof *capture->kept);
    capture->shorts = readdefs_make(reader, seen[FORMAT_DEF_SHORT], sizeof *capture->shorts);
    capture->held = readdefs_make(reader, seen[FORMAT_DEF_HELD], sizeof *capture->held);
    capture->held_at = readdefs_make(reader, seen[FORMAT_DEF_HELD_AT], sizeof *capture->held_at);
    capture->walk = readdefs_make(reader, seen[FORMAT_DEF_WALK], sizeof *capture->walk);
    capture->data = readdefs_make(reader, seen[FORMAT_DEF_DATA], sizeof *capture->data);
    capture->setting = readdefs_make(reader, seen[FORMAT_DEF_SETTING], sizeof *capture->setting);
    capture->note = readdefs_make(reader, seen[FORMAT_DEF_NOTE], sizeof *capture->note);
    capture->device = readdefs_make(reader, seen[FORMAT_DEF_DEVICE], sizeof *capture->device);
    capture->coverage = readdefs_make(reader, seen[FORMAT_DEF_COVERAGE], sizeof *capture->coverage);
    capture->thread = readdefs_make(reader, seen[FORMAT_DEF_THREAD], sizeof *capture->thread);
    if (reader->is_short)
        return reader_no_memory(reader);
    for (size_t i = 0; i < capture->module_count; i++)
        capture->module[i].path = "";
    for (size_t i = 0; i < capture->rule_count; i++)
        capture->rule[i].id = "";
    return 0;
}

/* Strings first, since others name them. */
static int take_defs(struct reader *reader, bool are_strings)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < reader->found_count; i++) {
        uint32_t kind = reader->found[i].kind;
        /* records are multiples of 8 bytes, as in the file */
        const struct format_def *def = (const void *)(reader->arena + reader->found[i].offset);

        if ((kind == FORMAT_DEF_STRING) != are_strings)
            continue;
        r = kinds[kind].is_of_rule && def->id >= reader->capture->rule_count
                ? reader_pass_over(reader)
                : kinds[kind].take(reader, def);
    }
    return r;
}

int read_definitions(struct reader *reader)
{
    int r = read_defs(reader);

    if (r == 0)
        r = make_arrays(reader);
    if (r == 0)
        r = take_defs(reader, true);
    if (r == 0)
        r = take_defs(reader, false);
    if (r == 0)
        merge_coverage(reader->capture);
    if (r == 0)
        qsort(reader->capture->evict, reader->capture->evict_count, sizeof *reader->capture->evict,
                by_step);
    return r;
}
