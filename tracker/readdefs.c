/* SPDX-License-Identifier: MIT */
#include "tracker/readpart.h"

#include "tracker/formatsum.h"

#include <stdlib.h>
#include <string.h>

static const size_t def_bytes[FORMAT_DEF_KIND_COUNT] = {
        [FORMAT_DEF_STRING] = sizeof(struct format_def),
        [FORMAT_DEF_MODULE] = sizeof(struct format_def_module),
        [FORMAT_DEF_NODE] = sizeof(struct format_def_node),
        [FORMAT_DEF_RULE] = sizeof(struct format_def_rule),
        [FORMAT_DEF_HINTS] = sizeof(struct format_def_hints),
        [FORMAT_DEF_SETTING] = sizeof(struct format_def_pair),
        [FORMAT_DEF_NOTE] = sizeof(struct format_def),
        [FORMAT_DEF_DEVICE] = sizeof(struct format_def_device),
        [FORMAT_DEF_COVERAGE] = sizeof(struct format_def_coverage),
        [FORMAT_DEF_THREAD] = sizeof(struct format_def_thread),
        [FORMAT_DEF_PYCODE] = sizeof(struct format_def_pycode),
        [FORMAT_DEF_PYNODE] = sizeof(struct format_def_pynode),
};

static int keep_def(struct reader *reader, const unsigned char *at, uint32_t bytes, uint32_t kind)
{
    if (reader->seen[kind] == UINT32_MAX - 1)
        return read_pass_over(reader); /* numbers end here */
    while (reader->arena_used + bytes > reader->arena_size) {
        size_t size = reader->arena_size ? 2 * reader->arena_size : 1u << 20;
        unsigned char *to = realloc(reader->arena, size);

        if (!to)
            return read_no_memory(reader);
        reader->arena = to;
        reader->arena_size = size;
    }
    if (read_make_room((void **)&reader->found, &reader->found_size, reader->found_count,
                sizeof *reader->found)
            < 0)
        return read_no_memory(reader);
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

/* Is the record what was written? Its kind is without the sum then. */
static bool has_its_sum(const unsigned char *at, struct format_def *io_def, size_t left)
{
    uint32_t kind = io_def->kind & ((1u << FORMAT_DEF_KIND_BITS) - 1);

    if (!is_record(io_def, left)
            || io_def->kind != formatsum_def(kind, (const struct format_def *)(const void *)at))
        return false;
    io_def->kind = kind;
    return true;
}

/* One block: records until kind 0 or the end. A record without a length that makes sense ends it. */
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
            return read_leave_out(
                    reader, READ_AREA_DEFS); /* where the next one begins is not known */
        if (def.kind >= FORMAT_DEF_KIND_COUNT || def.bytes < def_bytes[def.kind]
                || def.length > def.bytes - def_bytes[def.kind]) {
            reader->capture
                    ->bad_records++; /* of a later version, perhaps: what follows may make sense */
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

/* How much of a block is published: what has a kind in the first copy is whole in the second one. */
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

/*
 * Of a process that runs: how far each block goes, the newest block first. So whatever stands before a record that is seen was
 * there when its own block was looked at, and the numbers have no gap.
 */
static void measure_blocks(struct reader *reader, unsigned char *two_blocks, uint32_t *ends)
{
    unsigned char *second = two_blocks + FORMAT_DEFS_BLOCK;

    for (uint32_t i = reader->extents; i-- > 0;)
        for (uint64_t j = blocks_of(&reader->extent[i]); j-- > 0;) {
            uint64_t at = reader->extent[i].offset + j * FORMAT_DEFS_BLOCK;

            if (read_fetch(&reader->source, at, two_blocks, FORMAT_DEFS_BLOCK)
                    && read_fetch(&reader->source, at, second, FORMAT_DEFS_BLOCK))
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

            if (read_fetch(&reader->source, at, block, length))
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
    if (read_is_moving(reader))
        ends = calloc(blocks + 1, sizeof *ends);
    if (!two_blocks || (read_is_moving(reader) && !ends)) {
        r = read_no_memory(reader);
    } else {
        if (ends)
            measure_blocks(reader, two_blocks, ends);
        r = read_blocks(reader, two_blocks, ends ? ends + blocks : NULL);
    }
    free(ends);
    free(two_blocks);
    return r;
}

static int take_string(struct reader *reader, const unsigned char *at, const struct format_def *def)
{
    struct read_private *private = reader->capture->private;
    char *text;

    if (def->id == 0 || def->id > private->strings || private->string[def->id])
        return read_pass_over(reader);
    text = malloc((size_t)def->length + 1);
    if (!text)
        return read_no_memory(reader);
    memcpy(text, at + sizeof *def, def->length);
    text[def->length] = '\0';
    private->string[def->id] = text;
    return 0;
}

static int take_module(struct reader *reader, const unsigned char *at)
{
    struct read_private *private = reader->capture->private;
    struct format_def_module def;
    struct read_module *module;

    memcpy(&def, at, sizeof def);
    if (def.def.id == 0 || def.def.id > private->modules
            || def.build_id_bytes > sizeof def.build_id)
        return read_pass_over(reader);
    module = &reader->capture->module[def.def.id];
    *module = (struct read_module){
            .path = read_string(reader->capture, def.path),
            .base = def.base,
            .end = def.end,
            .bias = def.bias,
            .hash = def.hash,
            .build_id_bytes = def.build_id_bytes,
            .kind = def.module_kind,
            .is_main = def.is_main != 0,
    };
    memcpy(module->build_id, def.build_id, sizeof def.build_id);
    return 0;
}

static int take_node(struct reader *reader, const unsigned char *at)
{
    struct read_private *private = reader->capture->private;
    struct format_def_node def;

    memcpy(&def, at, sizeof def);
    /* A parent's number is smaller: that is what makes every stack end. */
    if (def.def.id == 0 || def.def.id > private->nodes || def.parent >= def.def.id
            || def.module > private->modules)
        return read_pass_over(reader);
    private->node[def.def.id] = (struct read_node){def.parent, def.module, def.offset};
    return 0;
}

static int take_pycode(struct reader *reader, const unsigned char *at)
{
    struct read_private *private = reader->capture->private;
    struct read_pycode *code;
    struct format_def_pycode def;

    memcpy(&def, at, sizeof def);
    if (def.def.id == 0 || def.def.id > private->codes || private->code[def.def.id].lines)
        return read_pass_over(reader);
    code = &private->code[def.def.id];
    code->lines = malloc((size_t)def.def.length + 1);
    if (!code->lines)
        return read_no_memory(reader);
    memcpy(code->lines, at + sizeof def, def.def.length);
    code->def = def;
    return 0;
}

static int take_pynode(struct reader *reader, const unsigned char *at)
{
    struct read_private *private = reader->capture->private;
    struct format_def_pynode def;

    memcpy(&def, at, sizeof def);
    if (def.def.id == 0 || def.def.id > private->pynodes || def.parent >= def.def.id
            || def.code == 0 || def.code > private->codes)
        return read_pass_over(reader);
    private->pynode[def.def.id] =
            (struct read_pynode){def.parent, def.code, def.lasti, def.entry != 0};
    return 0;
}

static int take_rule(struct reader *reader, const unsigned char *at)
{
    struct format_def_rule def;

    memcpy(&def, at, sizeof def);
    if (def.def.id >= reader->capture->rule_count)
        return read_pass_over(reader);
    reader->capture->rule[def.def.id] = (struct read_rule){
            .id = read_string(reader->capture, def.name),
            .action = def.action < ACTION_COUNT ? (enum action)def.action : ACTION_NONE,
            .mode = def.mode < HINT_MODE_COUNT ? (enum hint_mode)def.mode : HINT_OFF,
            .line = def.line,
    };
    return 0;
}

static int take_hints(struct reader *reader, const unsigned char *at)
{
    struct format_def_hints def;

    memcpy(&def, at, sizeof def);
    reader->capture->hints_hash = def.hash;
    reader->capture->hints_path = read_string(reader->capture, def.path);
    reader->capture->hints_mode = def.mode < HINT_MODE_COUNT ? (enum hint_mode)def.mode : HINT_OFF;
    return 0;
}

static int take_setting(struct reader *reader, const unsigned char *at)
{
    struct read_capture *capture = reader->capture;
    struct format_def_pair def;

    memcpy(&def, at, sizeof def);
    capture->setting[capture->setting_count++] =
            (struct read_pair){read_string(capture, def.name), read_string(capture, def.value)};
    return 0;
}

static int take_note(struct reader *reader, const unsigned char *at, const struct format_def *def)
{
    struct read_capture *capture = reader->capture;
    char *text = malloc((size_t)def->length + 1);

    if (!text)
        return read_no_memory(reader);
    memcpy(text, at + sizeof *def, def->length);
    text[def->length] = '\0';
    capture->note[capture->note_count++] = (struct read_note){def->id, text};
    return 0;
}

static int take_device(struct reader *reader, const unsigned char *at)
{
    struct read_capture *capture = reader->capture;
    struct format_def_device def;

    memcpy(&def, at, sizeof def);
    capture->device[capture->device_count++] = (struct read_device){
            .device = (int)(int32_t)def.def.id,
            .name = read_string(capture, def.name),
            .total_bytes = def.total_bytes,
            .driver_version = def.driver_version,
    };
    return 0;
}

static int take_thread(struct reader *reader, const unsigned char *at)
{
    struct read_capture *capture = reader->capture;
    struct format_def_thread def;

    memcpy(&def, at, sizeof def);
    capture->thread[capture->thread_count++] =
            (struct read_thread){def.def.id, def.tid, read_string(capture, def.name)};
    return 0;
}

/* Later records of the same hook and route replace earlier ones; sorted afterwards, since there may be many. */
static int take_coverage(struct reader *reader, const unsigned char *at)
{
    struct read_capture *capture = reader->capture;
    struct format_def_coverage def;

    memcpy(&def, at, sizeof def);
    capture->coverage[capture->coverage_count++] = (struct read_coverage){
            read_string(capture, def.hook), read_string(capture, def.route), def.count};
    return 0;
}

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

static int take_def(struct reader *reader, const struct read_found *found)
{
    const unsigned char *at = reader->arena + found->offset;
    struct format_def def;

    memcpy(&def, at, sizeof def);
    switch (found->kind) {
    case FORMAT_DEF_STRING:
        return take_string(reader, at, &def);
    case FORMAT_DEF_MODULE:
        return take_module(reader, at);
    case FORMAT_DEF_NODE:
        return take_node(reader, at);
    case FORMAT_DEF_PYCODE:
        return take_pycode(reader, at);
    case FORMAT_DEF_PYNODE:
        return take_pynode(reader, at);
    case FORMAT_DEF_RULE:
        return take_rule(reader, at);
    case FORMAT_DEF_HINTS:
        return take_hints(reader, at);
    case FORMAT_DEF_SETTING:
        return take_setting(reader, at);
    case FORMAT_DEF_NOTE:
        return take_note(reader, at, &def);
    case FORMAT_DEF_DEVICE:
        return take_device(reader, at);
    case FORMAT_DEF_COVERAGE:
        return take_coverage(reader, at);
    default:
        return take_thread(reader, at);
    }
}

/* Arrays as large as the number of records that were seen: a number beyond that is a bad record. */
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
    private->string = calloc((size_t) private->strings + 1, sizeof *private->string);
    private->node = calloc((size_t) private->nodes + 1, sizeof *private->node);
    private->code = calloc((size_t) private->codes + 1, sizeof *private->code);
    private->pynode = calloc((size_t) private->pynodes + 1, sizeof *private->pynode);
    capture->module = calloc(capture->module_count, sizeof *capture->module);
    capture->rule = calloc(capture->rule_count + 1, sizeof *capture->rule);
    capture->setting = calloc((size_t)seen[FORMAT_DEF_SETTING] + 1, sizeof *capture->setting);
    capture->note = calloc((size_t)seen[FORMAT_DEF_NOTE] + 1, sizeof *capture->note);
    capture->device = calloc((size_t)seen[FORMAT_DEF_DEVICE] + 1, sizeof *capture->device);
    capture->coverage = calloc((size_t)seen[FORMAT_DEF_COVERAGE] + 1, sizeof *capture->coverage);
    capture->thread = calloc((size_t)seen[FORMAT_DEF_THREAD] + 1, sizeof *capture->thread);
    if (!private->string || !private->node || !private->code || !private->pynode || !capture->module
            || !capture->rule || !capture->setting || !capture->note || !capture->device
            || !capture->coverage || !capture->thread)
        return read_no_memory(reader);
    for (size_t i = 0; i < capture->module_count; i++)
        capture->module[i].path = "";
    for (size_t i = 0; i < capture->rule_count; i++)
        capture->rule[i].id = "";
    return 0;
}

static int number_defs(struct reader *reader)
{
    int r = make_arrays(reader);

    for (size_t i = 0; r == 0 && i < reader->found_count; i++)
        if (reader->found[i].kind == FORMAT_DEF_STRING)
            r = take_def(reader, &reader->found[i]);
    for (size_t i = 0; r == 0 && i < reader->found_count; i++)
        if (reader->found[i].kind != FORMAT_DEF_STRING)
            r = take_def(reader, &reader->found[i]);
    if (r == 0)
        merge_coverage(reader->capture);
    return r;
}

int read_definitions(struct reader *reader)
{
    int r = read_defs(reader);

    return r == 0 ? number_defs(reader) : r;
}
