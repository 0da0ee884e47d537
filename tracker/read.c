/* SPDX-License-Identifier: MIT */
#include "tracker/read.h"

#include "tracker/intern.h"
#include "tracker/site.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXTENT_MAX (UINT64_C(1) << 30) /* the writer's are 256 MiB at most */
#define PART_BYTES (1u << 20)          /* live slots are read in parts of this */
#define ARGS_MAX   1024u

struct node {
    uint32_t parent;
    uint32_t module;
    uint64_t offset;
};

struct read_private {
    char **string; /* [number], [0] = "" */
    uint32_t strings;
    struct node *node; /* [number] */
    uint32_t nodes;
    uint32_t modules;
    char exe[1025], host[65], rank[33], program[97];
    char args[2049];
};

/* Where bytes come from: a descriptor, or memory. */
struct source {
    int fd; /* -1 = memory */
    const unsigned char *bytes;
    uint64_t length;
};

/* A definition that was found, before its number can be trusted. */
struct found {
    uint64_t offset; /* in `arena` */
    uint32_t kind;
};

struct reader {
    struct source source;
    struct read_capture *capture;
    struct read_error *error;
    struct format_header header;
    struct format_extent *extent;
    uint32_t extents;

    /* every definition's bytes, one after the other */
    unsigned char *arena;
    size_t arena_used, arena_size;
    struct found *found;
    size_t found_count, found_size;
    uint32_t seen[FORMAT_DEF_KIND_COUNT];

    size_t live_size, other_size, event_size, oom_size;
};

/* ---- helpers ---- */

__attribute__((format(printf, 4, 5))) static int fail(
        struct reader *reader, int r, uint64_t offset, const char *text, ...)
{
    va_list args;

    if (!reader->error)
        return r;
    reader->error->offset = offset;
    va_start(args, text);
    (void)vsnprintf(reader->error->text, sizeof reader->error->text, text, args);
    va_end(args);
    return r;
}

static int no_memory(struct reader *reader)
{
    return fail(reader, -ENOMEM, 0, "no memory");
}

/* One more element in an array that doubles. 0 or -ENOMEM. */
static int make_room(void **array, size_t *size, size_t count, size_t element)
{
    size_t wanted = *size ? 2 * *size : 64;
    void *to;

    if (count < *size)
        return 0;
    if (wanted > SIZE_MAX / element)
        return -ENOMEM;
    to = realloc(*array, wanted * element);
    if (!to)
        return -ENOMEM;
    *array = to;
    *size = wanted;
    return 0;
}

/* Bytes at an offset; false = not all there. */
static bool fetch(const struct source *source, uint64_t offset, void *to, size_t length)
{
    size_t used = 0;

    if (offset > source->length || length > source->length - offset)
        return false;
    if (source->fd < 0) {
        memcpy(to, source->bytes + offset, length);
        return true;
    }
    while (used < length) {
        ssize_t got = pread(source->fd, (char *)to + used, length - used, (off_t)(offset + used));

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false; /* the file became shorter */
        used += (size_t)got;
    }
    return true;
}

/* A text field of the header: ended by a NUL or by its size. */
static void copy_text(char *to, const char *from, size_t size)
{
    size_t length = strnlen(from, size);

    memcpy(to, from, length);
    to[length] = '\0';
}

/* ---- header and directory ---- */

static int read_args(struct reader *reader)
{
    struct read_capture *capture = reader->capture;
    char *args = capture->private->args;
    uint32_t length = reader->header.cmdline_bytes;
    size_t count = 0;

    if (length > sizeof reader->header.cmdline)
        length = sizeof reader->header.cmdline;
    memcpy(args, reader->header.cmdline, length);
    args[length] = '\0';
    for (uint32_t i = 0; i < length; i += (uint32_t)strlen(args + i) + 1)
        count++;
    if (count > ARGS_MAX)
        count = ARGS_MAX;
    capture->argv = calloc(count + 1, sizeof *capture->argv);
    if (!capture->argv)
        return no_memory(reader);
    for (uint32_t i = 0; capture->argc < count; i += (uint32_t)strlen(args + i) + 1)
        capture->argv[capture->argc++] = args + i;
    return 0;
}

static int read_header(struct reader *reader)
{
    struct format_header *header = &reader->header;
    struct read_capture *capture = reader->capture;
    struct read_private *private = capture->private;

    if (!fetch(&reader->source, 0, header, sizeof *header)
            || memcmp(header->magic, FORMAT_MAGIC, sizeof header->magic) != 0)
        return fail(reader, -EBADMSG, 0, "not a kedge capture");
    if (header->version != FORMAT_VERSION)
        return fail(reader, -EPROTONOSUPPORT, 8,
                "written in version %u of the format, this kedge reads version %u", header->version,
                FORMAT_VERSION);
    copy_text(private->exe, header->exe, sizeof header->exe);
    copy_text(private->host, header->host, sizeof header->host);
    copy_text(private->rank, header->rank, sizeof header->rank);
    copy_text(private->program, header->program, sizeof header->program);
    capture->exe = private->exe;
    capture->host = private->host;
    capture->rank = private->rank;
    capture->program = private->program;
    capture->version = header->version;
    capture->state = header->state >= FORMAT_STATE_OPEN && header->state <= FORMAT_STATE_SIGNAL
            ? (enum format_state)header->state
            : FORMAT_STATE_OPEN;
    capture->state_detail = header->state_detail;
    capture->trace = header->trace < FORMAT_TRACE_COUNT ? (enum format_trace)header->trace
                                                        : FORMAT_TRACE_OFF;
    capture->pid = header->pid;
    capture->ppid = header->ppid;
    capture->start_real_ns = header->start_real_ns;
    capture->oom_count = header->oom_count;
    capture->last_seq = header->last_seq;
    capture->file_bytes = reader->source.length;
    capture->total = header->total;
    memcpy(capture->device_total, header->device, sizeof header->device);
    if (header->directory_offset >= sizeof *header && header->class_count <= FORMAT_CLASSES_MAX) {
        capture->class_count = header->class_count;
        memcpy(capture->class_total, header->memclass, sizeof header->memclass);
        memcpy(capture->look, header->look, sizeof header->look);
        capture->plan = header->plan;
    }
    capture->lost = header->lost;
    return read_args(reader);
}

static int by_offset(const void *left, const void *right)
{
    const struct format_extent *a = left;
    const struct format_extent *b = right;

    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

/* Extents that lie in the file and not on each other, so that work is bounded by the file's size. */
static int read_directory(struct reader *reader)
{
    uint32_t count = reader->header.extent_count;
    uint64_t end = reader->header.header_bytes;
    uint32_t kept = 0;

    if (count > FORMAT_EXTENTS_MAX)
        count = FORMAT_EXTENTS_MAX;
    reader->extent = calloc(count + 1, sizeof *reader->extent);
    if (!reader->extent)
        return no_memory(reader);
    if (!fetch(&reader->source, reader->header.directory_offset, reader->extent,
                count * sizeof *reader->extent))
        return fail(reader, -EBADMSG, reader->header.directory_offset,
                "the directory lies outside the file");
    qsort(reader->extent, count, sizeof *reader->extent, by_offset);
    for (uint32_t i = 0; i < count; i++) {
        struct format_extent extent = reader->extent[i];

        if (extent.kind == FORMAT_EXTENT_NONE)
            continue; /* claimed, not published */
        if (extent.offset < end || extent.length > EXTENT_MAX || extent.length == 0
                || extent.offset % FORMAT_PAGE != 0 || extent.offset > reader->source.length
                || extent.length > reader->source.length - extent.offset) {
            reader->capture->bad_records++;
            continue;
        }
        end = extent.offset + extent.length;
        reader->extent[kept++] = extent;
    }
    reader->extents = kept;
    return 0;
}

/* ---- definitions ---- */

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
};

static int keep_def(struct reader *reader, const unsigned char *at, uint32_t bytes, uint32_t kind)
{
    while (reader->arena_used + bytes > reader->arena_size) {
        size_t size = reader->arena_size ? 2 * reader->arena_size : 1u << 20;
        unsigned char *to = realloc(reader->arena, size);

        if (!to)
            return no_memory(reader);
        reader->arena = to;
        reader->arena_size = size;
    }
    if (make_room((void **)&reader->found, &reader->found_size, reader->found_count,
                sizeof *reader->found)
            < 0)
        return no_memory(reader);
    memcpy(reader->arena + reader->arena_used, at, bytes);
    reader->found[reader->found_count++] = (struct found){reader->arena_used, kind};
    reader->arena_used += bytes;
    reader->seen[kind]++;
    return 0;
}

/* One block: records until kind 0 or the block's end. A record without a length that makes sense ends it. */
static int read_block(struct reader *reader, const unsigned char *block, size_t length)
{
    size_t at = 0;

    while (length - at >= sizeof(struct format_def)) {
        struct format_def def;
        int r;

        memcpy(&def, block + at, sizeof def);
        if (def.kind == FORMAT_DEF_NONE)
            return 0;
        if (def.bytes % 8 != 0 || def.bytes < sizeof def || def.bytes > length - at) {
            reader->capture->bad_records++;
            return 0;
        }
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

static int read_defs(struct reader *reader)
{
    unsigned char *block = malloc(FORMAT_DEFS_BLOCK);
    int r = 0;

    if (!block)
        return no_memory(reader);
    for (uint32_t i = 0; r == 0 && i < reader->extents; i++) {
        const struct format_extent *extent = &reader->extent[i];

        if (extent->kind != FORMAT_EXTENT_DEFS)
            continue;
        for (uint64_t at = 0; r == 0 && at + FORMAT_DEFS_BLOCK <= extent->length;
                at += FORMAT_DEFS_BLOCK)
            if (fetch(&reader->source, extent->offset + at, block, FORMAT_DEFS_BLOCK))
                r = read_block(reader, block, FORMAT_DEFS_BLOCK);
    }
    free(block);
    return r;
}

static const char *string_at(const struct read_capture *capture, uint32_t number)
{
    const struct read_private *private = capture->private;

    if (number == 0 || number > private->strings || !private->string[number])
        return "";
    return private->string[number];
}

static int take_string(struct reader *reader, const unsigned char *at, const struct format_def *def)
{
    struct read_private *private = reader->capture->private;
    char *text;

    if (def->id == 0 || def->id > private->strings || private->string[def->id]) {
        reader->capture->bad_records++;
        return 0;
    }
    text = malloc((size_t)def->length + 1);
    if (!text)
        return no_memory(reader);
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
            || def.build_id_bytes > sizeof def.build_id) {
        reader->capture->bad_records++;
        return 0;
    }
    module = &reader->capture->module[def.def.id];
    *module = (struct read_module){
            .path = string_at(reader->capture, def.path),
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
            || def.module > private->modules) {
        reader->capture->bad_records++;
        return 0;
    }
    private->node[def.def.id] = (struct node){def.parent, def.module, def.offset};
    return 0;
}

static int take_rule(struct reader *reader, const unsigned char *at)
{
    struct format_def_rule def;

    memcpy(&def, at, sizeof def);
    if (def.def.id >= reader->capture->rule_count) {
        reader->capture->bad_records++;
        return 0;
    }
    reader->capture->rule[def.def.id] = (struct read_rule){
            .id = string_at(reader->capture, def.name),
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
    reader->capture->hints_path = string_at(reader->capture, def.path);
    reader->capture->hints_mode = def.mode < HINT_MODE_COUNT ? (enum hint_mode)def.mode : HINT_OFF;
    return 0;
}

static int take_setting(struct reader *reader, const unsigned char *at)
{
    struct read_capture *capture = reader->capture;
    struct format_def_pair def;

    memcpy(&def, at, sizeof def);
    capture->setting[capture->setting_count++] =
            (struct read_pair){string_at(capture, def.name), string_at(capture, def.value)};
    return 0;
}

static int take_note(struct reader *reader, const unsigned char *at, const struct format_def *def)
{
    struct read_capture *capture = reader->capture;
    char *text = malloc((size_t)def->length + 1);

    if (!text)
        return no_memory(reader);
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
            .name = string_at(capture, def.name),
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
            (struct read_thread){def.def.id, def.tid, string_at(capture, def.name)};
    return 0;
}

/* Later records of the same hook and route replace earlier ones; sorted afterwards, since there may be many. */
static int take_coverage(struct reader *reader, const unsigned char *at)
{
    struct read_capture *capture = reader->capture;
    struct format_def_coverage def;

    memcpy(&def, at, sizeof def);
    capture->coverage[capture->coverage_count++] = (struct read_coverage){
            string_at(capture, def.hook), string_at(capture, def.route), def.count};
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

static int take_def(struct reader *reader, const struct found *found)
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
    capture->module_count = (size_t) private->modules + 1;
    capture->rule_count = seen[FORMAT_DEF_RULE];
    private->string = calloc((size_t) private->strings + 1, sizeof *private->string);
    private->node = calloc((size_t) private->nodes + 1, sizeof *private->node);
    capture->module = calloc(capture->module_count, sizeof *capture->module);
    capture->rule = calloc(capture->rule_count + 1, sizeof *capture->rule);
    capture->setting = calloc((size_t)seen[FORMAT_DEF_SETTING] + 1, sizeof *capture->setting);
    capture->note = calloc((size_t)seen[FORMAT_DEF_NOTE] + 1, sizeof *capture->note);
    capture->device = calloc((size_t)seen[FORMAT_DEF_DEVICE] + 1, sizeof *capture->device);
    capture->coverage = calloc((size_t)seen[FORMAT_DEF_COVERAGE] + 1, sizeof *capture->coverage);
    capture->thread = calloc((size_t)seen[FORMAT_DEF_THREAD] + 1, sizeof *capture->thread);
    if (!private->string || !private->node || !capture->module || !capture->rule
            || !capture->setting || !capture->note || !capture->device || !capture->coverage
            || !capture->thread)
        return no_memory(reader);
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

/* ---- live table ---- */

/* What the upper bits of the flags say; a class that is not known here counts as the driver's. */
static enum memclass class_of(unsigned flags)
{
    unsigned memclass = flags >> FORMAT_ALLOC_CLASS_SHIFT & (FORMAT_CLASSES_MAX - 1);

    if (memclass >= MEMCLASS_COUNT || (memclass == 0 && (flags & FORMAT_ALLOC_NATIVE)))
        return MEMCLASS_DRIVER;
    return (enum memclass)memclass;
}

static unsigned plain_flags(unsigned flags)
{
    return flags & ((1u << FORMAT_ALLOC_CLASS_SHIFT) - 1);
}

static struct read_live live_of(const struct read_capture *capture, const struct format_live *slot)
{
    return (struct read_live){
            .seq = slot->state >> 1,
            .addr = slot->addr,
            .size = slot->size,
            .stream = slot->stream,
            .time_ns = slot->time_ns,
            .path = string_at(capture, slot->path),
            .path_number = slot->path,
            .instance = slot->instance,
            .nth = slot->nth,
            .stack = slot->stack,
            .device = slot->device,
            .flags = plain_flags(slot->flags),
            .memclass = class_of(slot->flags),
            .hint = slot->hint < FORMAT_HINT_COUNT ? (enum format_hint_what)slot->hint
                                                   : FORMAT_HINT_NONE,
            .rule = slot->rule,
    };
}

static int take_live(struct reader *reader, const struct format_live *slot)
{
    struct read_capture *capture = reader->capture;

    if ((slot->state & 1) == 0)
        return 0;
    if (class_of(slot->flags) >= MEMCLASS_DEVICE_END) {
        if (make_room((void **)&capture->other, &reader->other_size, capture->other_count,
                    sizeof *capture->other)
                < 0)
            return no_memory(reader);
        capture->other[capture->other_count++] = live_of(capture, slot);
        return 0;
    }
    if (make_room((void **)&capture->live, &reader->live_size, capture->live_count,
                sizeof *capture->live)
            < 0)
        return no_memory(reader);
    capture->live[capture->live_count++] = live_of(capture, slot);
    return 0;
}

/*
 * A record may change while its bytes are copied, if the process runs. Its first 8 bytes (a slot's state, a chunk's
 * number) never come back to an earlier value other than 0, so a record whose first 8 bytes are the same in a second copy
 * was whole in the first one. Others are emptied.
 */
static void drop_torn(unsigned char *bytes, const unsigned char *again, size_t length, size_t unit)
{
    for (size_t at = 0; at < length; at += unit)
        if (memcmp(bytes + at, again + at, sizeof(uint64_t)) != 0)
            memset(bytes + at, 0, sizeof(uint64_t));
}

/* `bytes` has room for two copies of `length`. */
static bool fetch_records(
        struct reader *reader, uint64_t offset, unsigned char *bytes, size_t length, size_t unit)
{
    if (!fetch(&reader->source, offset, bytes, length))
        return false;
    if (reader->source.fd >= 0 && reader->header.state != FORMAT_STATE_CLEAN) {
        if (!fetch(&reader->source, offset, bytes + length, length))
            return false;
        drop_torn(bytes, bytes + length, length, unit);
    }
    return true;
}

/* Calls `take` for each record of `unit` bytes in extents of a kind. */
static int each_part(struct reader *reader, enum format_extent_kind kind, size_t unit,
        int (*take)(struct reader *reader, const unsigned char *at))
{
    size_t part = PART_BYTES / unit * unit;
    unsigned char *bytes = malloc(2 * part);
    int r = 0;

    if (!bytes)
        return no_memory(reader);
    for (uint32_t i = 0; r == 0 && i < reader->extents; i++) {
        const struct format_extent *extent = &reader->extent[i];

        if (extent->kind != (uint32_t)kind)
            continue;
        for (uint64_t at = 0; r == 0 && at < extent->length; at += part) {
            uint64_t left = extent->length - at;
            size_t length = left < part ? (size_t)left / unit * unit : part;

            if (length == 0 || !fetch_records(reader, extent->offset + at, bytes, length, unit))
                break;
            for (size_t j = 0; r == 0 && j < length; j += unit)
                r = take(reader, bytes + j);
        }
    }
    free(bytes);
    return r;
}

static int take_live_bytes(struct reader *reader, const unsigned char *at)
{
    struct format_live slot;

    memcpy(&slot, at, sizeof slot);
    return take_live(reader, &slot);
}

static int live_by_seq(const void *left, const void *right)
{
    const struct read_live *a = left;
    const struct read_live *b = right;

    return a->seq < b->seq ? -1 : a->seq > b->seq;
}

static int read_live_table(struct reader *reader)
{
    struct read_capture *capture = reader->capture;
    int r = each_part(reader, FORMAT_EXTENT_LIVE, sizeof(struct format_live), take_live_bytes);

    if (capture->live_count > 0)
        qsort(capture->live, capture->live_count, sizeof *capture->live, live_by_seq);
    if (capture->other_count > 0)
        qsort(capture->other, capture->other_count, sizeof *capture->other, live_by_seq);
    return r;
}

/* ---- events ---- */

static void set_place(const struct read_capture *capture, struct read_event *to, uint32_t stack,
        uint32_t path, uint32_t instance)
{
    to->stack = stack <= capture->private->nodes ? stack : 0;
    to->path_number = path;
    to->path = string_at(capture, path);
    to->instance = instance;
}

static void set_alloc(
        const struct read_capture *capture, struct read_event *to, const struct format_event *from)
{
    to->addr = from->u.alloc.addr;
    to->size = from->u.alloc.size;
    to->stream = from->u.alloc.stream;
    to->nth = from->u.alloc.nth;
    set_place(capture, to, from->u.alloc.stack, from->u.alloc.path, from->u.alloc.instance);
}

static void set_free(
        const struct read_capture *capture, struct read_event *to, const struct format_event *from)
{
    to->addr = from->u.free.addr;
    to->size = from->u.free.size;
    to->stream = from->u.free.stream;
    set_place(capture, to, from->u.free.stack, from->u.free.path, from->u.free.instance);
}

static bool set_edge(
        const struct read_capture *capture, struct read_event *to, const struct format_event *from)
{
    if (from->u.edge.kind >= EDGE_KIND_COUNT)
        return false;
    to->edge = (enum edge_kind)from->u.edge.kind;
    to->anchor = from->u.edge.anchor;
    to->before_start = from->u.edge.before_start != 0;
    set_place(capture, to, 0, from->u.edge.path, from->u.edge.instance);
    return true;
}

static bool set_hint(
        const struct read_capture *capture, struct read_event *to, const struct format_event *from)
{
    if (from->u.hint.what == FORMAT_HINT_NONE || from->u.hint.what >= FORMAT_HINT_COUNT
            || from->u.hint.mode >= HINT_MODE_COUNT)
        return false;
    to->addr = from->u.hint.addr;
    to->size = from->u.hint.size;
    to->rule = from->u.hint.rule;
    to->what = (enum format_hint_what)from->u.hint.what;
    to->mode = (enum hint_mode)from->u.hint.mode;
    to->result = from->u.hint.result;
    set_place(capture, to, from->u.hint.stack, from->u.hint.path, from->u.hint.instance);
    return true;
}

static void set_oom(
        const struct read_capture *capture, struct read_event *to, const struct format_event *from)
{
    to->size = from->u.oom.size;
    to->free_bytes = from->u.oom.free_bytes;
    to->largest_free = from->u.oom.largest_free;
    to->result = (int)from->u.oom.result;
    set_place(capture, to, from->u.oom.stack, from->u.oom.path, from->u.oom.instance);
}

/* false = a record that makes no sense. */
static bool decode(
        const struct read_capture *capture, const struct format_event *from, struct read_event *to)
{
    *to = (struct read_event){
            .thread = from->thread,
            .seq = from->seq,
            .time_ns = from->time_ns,
            .device = (int16_t)(from->head >> 16),
            .flags = plain_flags(from->head >> 8 & 0xff),
            .path = "",
            .rule = -1,
    };
    switch (from->head & 0xff) {
    case FORMAT_EVENT_ALLOC:
    case FORMAT_EVENT_OTHER_ALLOC:
        to->kind = (enum format_event_kind)(from->head & 0xff);
        to->memclass = class_of(from->head >> 8 & 0xff);
        set_alloc(capture, to, from);
        return true;
    case FORMAT_EVENT_FREE:
    case FORMAT_EVENT_OTHER_FREE:
        to->kind = (enum format_event_kind)(from->head & 0xff);
        set_free(capture, to, from);
        return true;
    case FORMAT_EVENT_EDGE:
        to->kind = FORMAT_EVENT_EDGE;
        return set_edge(capture, to, from);
    case FORMAT_EVENT_HINT:
        to->kind = FORMAT_EVENT_HINT;
        return set_hint(capture, to, from);
    case FORMAT_EVENT_RESERVED:
        to->kind = FORMAT_EVENT_RESERVED;
        to->heap = from->u.reserved.heap;
        to->size = from->u.reserved.bytes;
        return true;
    case FORMAT_EVENT_OOM:
        to->kind = FORMAT_EVENT_OOM;
        set_oom(capture, to, from);
        return true;
    default:
        return false;
    }
}

static int take_event(struct reader *reader, const struct format_event *from)
{
    struct read_capture *capture = reader->capture;

    if (make_room((void **)&capture->event, &reader->event_size, capture->event_count,
                sizeof *capture->event)
            < 0)
        return no_memory(reader);
    if (decode(capture, from, &capture->event[capture->event_count]))
        capture->event_count++;
    else
        capture->bad_records++;
    return 0;
}

/* A chunk's records until the first unpublished one. */
static int take_chunk(struct reader *reader, const unsigned char *at)
{
    struct format_chunk chunk;
    int r = 0;

    memcpy(&chunk, at, sizeof chunk);
    if (chunk.number == 0)
        return 0;
    for (uint32_t i = 0; r == 0 && i < FORMAT_CHUNK_RECORDS; i++) {
        struct format_event event;

        memcpy(&event, at + ((size_t)i + 1) * FORMAT_RECORD_BYTES, sizeof event);
        if (event.head == 0)
            break;
        r = take_event(reader, &event);
    }
    return r;
}

static int event_by_seq(const void *left, const void *right)
{
    const struct read_event *a = left;
    const struct read_event *b = right;

    if (a->seq != b->seq)
        return a->seq < b->seq ? -1 : 1;
    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns ? -1 : 1;
    /* Same seq and time: in the order of writing (both come from one thread's chunk, or nobody can tell). */
    return a->order < b->order ? -1 : a->order > b->order;
}

static int read_events(struct reader *reader)
{
    struct read_capture *capture = reader->capture;
    int r = each_part(reader, FORMAT_EXTENT_EVENTS, FORMAT_CHUNK_BYTES, take_chunk);

    /* Chunks that were recycled meanwhile are lost to us, too. */
    (void)fetch(&reader->source, offsetof(struct format_header, lost), &capture->lost,
            sizeof capture->lost);

    for (size_t i = 0; i < capture->event_count; i++)
        capture->event[i].order = i;
    if (capture->event_count > 0)
        qsort(capture->event, capture->event_count, sizeof *capture->event, event_by_seq);
    capture->complete_after_seq = capture->lost.recycled_seq;
    capture->has_all_events = capture->lost.recycled_seq == 0 && capture->lost.events_recycled == 0
            && capture->lost.events_dropped == 0
            && (capture->trace == FORMAT_TRACE_RING || capture->trace == FORMAT_TRACE_FULL);
    return r;
}

/* ---- why allocations failed ---- */

static int take_oom(struct reader *reader, const unsigned char *at)
{
    struct read_capture *capture = reader->capture;
    struct read_oom oom = {0};

    memcpy(&oom.what, at, sizeof oom.what);
    if ((oom.what.state & 1) == 0)
        return 0;
    if (make_room((void **)&capture->oom, &reader->oom_size, capture->oom_record_count,
                sizeof *capture->oom)
            < 0)
        return no_memory(reader);
    oom.number = oom.what.state >> 1;
    oom.call = string_at(capture, oom.what.call);
    oom.path = string_at(capture, oom.what.path);
    if (oom.what.holder_count > FORMAT_OOM_HOLDERS) {
        oom.what.holder_count = FORMAT_OOM_HOLDERS;
        capture->bad_records++;
    }
    capture->oom[capture->oom_record_count++] = oom;
    return 0;
}

static int oom_by_number(const void *left, const void *right)
{
    const struct read_oom *a = left;
    const struct read_oom *b = right;

    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return a->what.seq < b->what.seq ? -1 : a->what.seq > b->what.seq;
}

static int read_ooms(struct reader *reader)
{
    struct read_capture *capture = reader->capture;
    int r = each_part(reader, FORMAT_EXTENT_OOM, sizeof(struct format_oom), take_oom);

    if (capture->oom_record_count > 0)
        qsort(capture->oom, capture->oom_record_count, sizeof *capture->oom, oom_by_number);
    return r;
}

/* ---- the door ---- */

static int read_source(struct reader *reader)
{
    int r = read_header(reader);

    if (r == 0)
        r = read_directory(reader);
    if (r == 0)
        r = read_defs(reader);
    if (r == 0)
        r = number_defs(reader);
    if (r == 0)
        r = read_live_table(reader);
    if (r == 0)
        r = read_events(reader);
    if (r == 0)
        r = read_ooms(reader);
    return r;
}

static int read_all(const struct source *source, struct read_capture **ret_capture,
        struct read_error *ret_error)
{
    struct reader reader = {.source = *source, .error = ret_error};
    int r;

    if (ret_error)
        *ret_error = (struct read_error){{0}, 0};
    reader.capture = calloc(1, sizeof *reader.capture);
    if (!reader.capture)
        return no_memory(&reader);
    reader.capture->hints_path = "";
    reader.capture->private = calloc(1, sizeof *reader.capture->private);
    r = reader.capture->private ? read_source(&reader) : no_memory(&reader);
    free(reader.extent);
    free(reader.arena);
    free(reader.found);
    if (r < 0) {
        read_close(reader.capture);
        return r;
    }
    *ret_capture = reader.capture;
    return 0;
}

int read_open_bytes(const void *bytes, size_t length, struct read_capture **ret_capture,
        struct read_error *ret_error)
{
    struct source source = {.fd = -1, .bytes = bytes, .length = length};

    return read_all(&source, ret_capture, ret_error);
}

int read_open(const char *path, struct read_capture **ret_capture, struct read_error *ret_error)
{
    struct reader teller = {.error = ret_error};
    struct source source = {0};
    struct stat status;
    int r;

    source.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not make us wait */
    if (source.fd < 0)
        return fail(&teller, -errno, 0, "%s", strerrordesc_np(errno));
    if (fstat(source.fd, &status) != 0) {
        r = fail(&teller, -errno, 0, "%s", strerrordesc_np(errno));
    } else if (!S_ISREG(status.st_mode)) {
        r = fail(&teller, -EINVAL, 0, "not a regular file");
    } else {
        source.length = (uint64_t)status.st_size;
        r = read_all(&source, ret_capture, ret_error);
    }
    (void)close(source.fd);
    return r;
}

static void free_private(struct read_private *private)
{
    if (!private)
        return;
    for (uint32_t i = 0; private->string && i <= private->strings; i++)
        free(private->string[i]);
    free(private->string);
    free(private->node);
    free(private);
}

void read_close(struct read_capture *capture)
{
    if (!capture)
        return;
    for (size_t i = 0; i < capture->note_count; i++)
        free(capture->note[i].text);
    free(capture->note);
    free(capture->argv);
    free(capture->live);
    free(capture->other);
    free(capture->event);
    free(capture->oom);
    free(capture->module);
    free(capture->rule);
    free(capture->setting);
    free(capture->device);
    free(capture->coverage);
    free(capture->thread);
    free_private(capture->private);
    free(capture);
}

unsigned read_stack(const struct read_capture *capture, uint32_t stack,
        struct read_frame *ret_frames, unsigned max)
{
    const struct read_private *private = capture->private;
    unsigned count = 0;

    /* Numbers fall from node to parent, so this ends. */
    while (count < max && stack != 0 && stack <= private->nodes) {
        const struct node *node = &private->node[stack];

        ret_frames[count++] = (struct read_frame){
                .module = node->module ? &capture->module[node->module] : NULL,
                .module_number = node->module,
                .offset = node->offset,
        };
        stack = node->parent;
    }
    return count;
}

uint64_t read_site(const struct read_capture *capture, uint32_t stack)
{
    struct read_frame frames[SITE_FRAMES];
    uint64_t hashes[SITE_FRAMES];
    unsigned count = read_stack(capture, stack, frames, SITE_FRAMES);

    for (unsigned i = 0; i < count; i++)
        hashes[i] = frames[i].module ? site_frame(frames[i].module->hash, frames[i].offset)
                                     : site_frame(0, 0);
    return site_combine(hashes, count);
}

const char *read_string(const struct read_capture *capture, uint32_t number)
{
    return string_at(capture, number);
}

const struct read_live *read_live_at(const struct read_capture *capture, uint64_t addr)
{
    for (size_t i = 0; i < capture->live_count; i++)
        if (addr >= capture->live[i].addr && addr - capture->live[i].addr < capture->live[i].size)
            return &capture->live[i];
    return NULL;
}
