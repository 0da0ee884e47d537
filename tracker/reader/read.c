/* SPDX-License-Identifier: MIT */
#include "tracker/reader/readpart.h"

#include "tracker/base/errtext.h"
#include "tracker/base/site.h"
#include "tracker/format/formatsum.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXTENT_MAX (UINT64_C(1) << 30) /* the writer's are 256 MiB at most */
#define ARGS_MAX   1024u

/* A text field of the header: ended by a NUL or by its size. */
static const char *read_copy_text(char *to, const char *from, size_t size)
{
    size_t length = strnlen(from, size);

    memcpy(to, from, length);
    to[length] = '\0';
    return to;
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
        return reader_no_memory(reader);
    for (uint32_t i = 0; capture->argc < count; i += (uint32_t)strlen(args + i) + 1)
        capture->argv[capture->argc++] = args + i;
    return 0;
}

/* A writer may be sealing it just now: then its sums match a moment later. */
static bool has_its_sums(struct reader *reader)
{
    struct format_header *header = &reader->header;

    if (header->seal != 0 && header->seal != formatsum_seal(header))
        (void)reader_fetch(&reader->source, 0, header, sizeof *header);
    return header->sum == formatsum_header(header)
            && (header->seal == 0 || header->seal == formatsum_seal(header))
            && header->state >= FORMAT_STATE_OPEN && header->state <= FORMAT_STATE_SIGNAL;
}

static int read_header(struct reader *reader)
{
    struct format_header *header = &reader->header;
    struct read_capture *capture = reader->capture;
    struct read_private *private = capture->private;

    if (!reader_fetch(&reader->source, 0, header, sizeof *header)
            || memcmp(header->magic, FORMAT_MAGIC, sizeof header->magic) != 0)
        return reader_fail(reader, -EBADMSG, 0, "not a kedge capture");
    if (header->version != FORMAT_VERSION)
        return reader_fail(reader, -EPROTONOSUPPORT, 8,
                "written by another version of kedge: format %u, this kedge reads %u",
                header->version, FORMAT_VERSION);
    if (!has_its_sums(reader))
        capture->damaged[READ_AREA_HEADER]++;
    capture->exe = read_copy_text(private->exe, header->exe, sizeof header->exe);
    capture->host = read_copy_text(private->host, header->host, sizeof header->host);
    capture->rank = read_copy_text(private->rank, header->rank, sizeof header->rank);
    capture->program = read_copy_text(private->program, header->program, sizeof header->program);
    capture->is_sealed = header->seal != 0;
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
    capture->total = header->total;
    memcpy(capture->device_total, header->device, sizeof header->device);
    memcpy(capture->class_total, header->memclass, sizeof header->memclass);
    memcpy(capture->look, header->look, sizeof header->look);
    memcpy(capture->inside, header->inside, sizeof header->inside);
    capture->unseen = header->unseen;
    capture->lost = header->lost;
    capture->counted_late = header->counted_late;
    capture->peak_stored_512 = header->peak_stored_512_bytes == 0
                    && header->memclass[MEMCLASS_POOLED].allocated_count > 0
            ? UINT64_MAX
            : header->peak_stored_512_bytes;
    return read_args(reader);
}

static int by_offset(const void *left, const void *right)
{
    const struct format_extent *a = left;
    const struct format_extent *b = right;

    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

/* Reads the current directory. An entry that a first copy shows as published is complete in the
 * second. */
static int fetch_directory(struct reader *reader, uint32_t count)
{
    struct format_extent first[FORMAT_EXTENTS_MAX] = {0};
    uint64_t at = reader->header.directory_offset;
    struct stat status;

    if (!reader_fetch(&reader->source, at, first, count * sizeof first[0])
            || !reader_fetch(&reader->source, at, reader->extent, count * sizeof first[0]))
        return reader_fail(reader, -EBADMSG, at,
                "ends too early: its directory would be at byte %" PRIu64, at);
    for (uint32_t i = 0; i < count; i++)
        if (first[i].kind == FORMAT_EXTENT_NONE)
            reader->extent[i] = first[i];
    /* Published extents were allocated before, so the file is long enough for them by now. */
    if (reader->source.fd >= 0 && fstat(reader->source.fd, &status) == 0)
        reader->source.length = (uint64_t)status.st_size;
    reader->capture->file_bytes = reader->source.length;
    return 0;
}

/* Unclaimed entries are zero: a nonzero one after the last means that the count was changed. The
 * count rises before an entry is written, so it is read after the entries. */
static bool is_count_right(struct reader *reader)
{
    static const struct format_extent none;
    struct format_extent all[FORMAT_EXTENTS_MAX];
    uint32_t count = 0;

    if (!reader_fetch(&reader->source, reader->header.directory_offset, all, sizeof all)
            || !reader_fetch(&reader->source, offsetof(struct format_header, extent_count), &count,
                    sizeof count))
        return true; /* the file is too short for more entries */
    for (uint32_t i = count; i < FORMAT_EXTENTS_MAX; i++)
        if (memcmp(&all[i], &none, sizeof none) != 0)
            return false;
    return true;
}

/* Keeps extents that lie in the file without overlap, so that work is bounded by the file's
 * size. */
static int read_directory(struct reader *reader)
{
    uint32_t count = 0;
    uint64_t end = reader->header.header_bytes;
    uint32_t kept = 0;
    int r;

    (void)reader_fetch(
            &reader->source, offsetof(struct format_header, extent_count), &count, sizeof count);
    if (count > FORMAT_EXTENTS_MAX)
        count = FORMAT_EXTENTS_MAX;
    if (!reader->extent)
        reader->extent = calloc(FORMAT_EXTENTS_MAX, sizeof *reader->extent);
    if (!reader->extent)
        return reader_no_memory(reader);
    r = fetch_directory(reader, count);
    if (r < 0)
        return r;
    reader->bad_extents = !is_count_right(reader);
    qsort(reader->extent, count, sizeof *reader->extent, by_offset);
    for (uint32_t i = 0; i < count; i++) {
        struct format_extent extent = reader->extent[i];

        if (extent.kind == FORMAT_EXTENT_NONE) {
            reader->bad_extents += extent.sum != 0; /* the two are stored together */
            continue;                               /* claimed, not published */
        }
        if (extent.offset < end || extent.length > EXTENT_MAX || extent.length == 0
                || extent.offset % FORMAT_PAGE != 0 || extent.offset > reader->source.length
                || extent.length > reader->source.length - extent.offset
                || extent.sum != formatsum_extent(&extent)) {
            reader->bad_extents++;
            continue;
        }
        end = extent.offset + extent.length;
        reader->extent[kept++] = extent;
    }
    reader->extents = kept;
    return 0;
}

/* ---- entry points ---- */

/* Resolves numbers in records to texts; a number that the file does not define becomes "none". */
static void give_words(struct read_capture *capture)
{
    uint32_t nodes = capture->private->nodes;

    for (size_t i = 0; i < capture->live_count; i++)
        capture->live[i].path = reader_string(capture, capture->live[i].path_number);
    for (size_t i = 0; i < capture->other_count; i++)
        capture->other[i].path = reader_string(capture, capture->other[i].path_number);
    for (size_t i = 0; i < capture->oom_record_count; i++) {
        capture->oom[i].call = reader_string(capture, capture->oom[i].what.call);
        capture->oom[i].path = reader_string(capture, capture->oom[i].what.path);
    }
    for (size_t i = 0; i < capture->place_count; i++) {
        struct read_place *place = &capture->place[i];

        place->path = reader_string(capture, place->path_number);
        place->stack = place->stack <= nodes ? place->stack : 0;
    }
}

/* Checks the records without sums of their own. */
static void check_loose(struct reader *reader)
{
    const unsigned needed = READ_LIVE | READ_PLACES;
    struct read_capture *capture = reader->capture;
    uint64_t wanted = reader->header.seal ? reader->header.loose_sum : 0;

    if (wanted != 0 && (reader->parts & needed) == needed && wanted != capture->loose_sum
            && !read_is_damaged(capture))
        capture->damaged[READ_AREA_LIVE]++;
}

/* A definition is in the file before the first record that names it, so of a running process the
 * definitions are read last, by a directory that is newer than the records. */
static int read_areas(struct reader *reader)
{
    int r = read_header(reader);

    if (r == 0)
        r = read_directory(reader);
    if (r == 0 && (reader->parts & READ_LIVE))
        r = read_live_table(reader);
    if (r == 0)
        r = read_events(reader);
    if (r == 0 && (reader->parts & READ_FAILURES))
        r = read_failures(reader);
    if (r == 0 && (reader->parts & READ_PLACES))
        r = read_places(reader);
    if (r == 0 && (reader->parts & READ_RECORD))
        r = read_record(reader);
    if (r == 0)
        check_loose(reader);
    if (r == 0 && reader_is_moving(reader))
        r = read_directory(reader);
    if (r == 0)
        r = read_definitions(reader);
    if (r == 0)
        give_words(reader->capture);
    reader->capture->damaged[READ_AREA_HEADER] += reader->bad_extents;
    if (r == 0 && (reader->parts & READ_TALLY) && !read_is_damaged(reader->capture))
        read_tally(reader);
    return r;
}

static int read_source(const struct read_source *source, unsigned parts,
        struct read_capture **ret_capture, struct read_error *ret_error)
{
    struct reader reader = {.source = *source, .parts = parts, .error = ret_error};
    int r;

    if (ret_error)
        *ret_error = (struct read_error){{0}, 0};
    reader.capture = calloc(1, sizeof *reader.capture);
    if (!reader.capture)
        return reader_no_memory(&reader);
    reader.capture->hints_path = "";
    reader.capture->loose_sum = FORMATSUM_FACTOR;
    reader.capture->private = calloc(1, sizeof *reader.capture->private);
    r = reader.capture->private ? read_areas(&reader) : reader_no_memory(&reader);
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

/* For callers that open a capture with all its events. */
static int list_events(int r, struct read_capture **capture, struct read_error *ret_error)
{
    struct reader teller = {.error = ret_error};

    if (r == 0 && !read_list(*capture)) {
        read_close(*capture);
        *capture = NULL;
        return reader_no_memory(&teller);
    }
    return r;
}

int read_open_bytes(const void *bytes, size_t length, struct read_capture **ret_capture,
        struct read_error *ret_error)
{
    struct read_source source = {.fd = -1, .bytes = bytes, .length = length};

    return list_events(
            read_source(&source, READ_ALL, ret_capture, ret_error), ret_capture, ret_error);
}

static int read_file(const char *path, unsigned parts, struct read_capture **ret_capture,
        struct read_error *ret_error)
{
    struct reader teller = {.error = ret_error};
    struct read_source source = {0};
    struct stat status;
    int r;

    source.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* must not wait for a FIFO */
    if (source.fd < 0)
        return reader_fail(&teller, -errno, 0, "%s", errtext(errno));
    if (fstat(source.fd, &status) != 0) {
        r = reader_fail(&teller, -errno, 0, "%s", errtext(errno));
    } else if (!S_ISREG(status.st_mode)) {
        r = reader_fail(&teller, -EINVAL, 0, "not a regular file");
    } else {
        source.length = (uint64_t)status.st_size;
        r = read_source(&source, parts, ret_capture, ret_error);
    }
    (void)close(source.fd);
    return r;
}

int read_begin(const char *path, struct read_capture **ret_capture, struct read_error *ret_error)
{
    return read_file(path, READ_ALL | READ_TALLY, ret_capture, ret_error);
}

int read_open_parts(const char *path, unsigned parts, struct read_capture **ret_capture,
        struct read_error *ret_error)
{
    return list_events(read_file(path, parts, ret_capture, ret_error), ret_capture, ret_error);
}

bool read_is_damaged(const struct read_capture *capture)
{
    for (unsigned area = 0; area < READ_AREA_COUNT; area++)
        if (capture->damaged[area] > 0)
            return true;
    return false;
}

const char *read_area_name(enum read_area area)
{
    static const char *const names[READ_AREA_COUNT] = {
            [READ_AREA_HEADER] = "header",
            [READ_AREA_LIVE] = "live allocations",
            [READ_AREA_DEFS] = "names and stacks",
            [READ_AREA_EVENTS] = "events",
            [READ_AREA_FAILURES] = "failed allocations",
            [READ_AREA_PLACES] = "places",
            [READ_AREA_RECORD] = "the framework's own record",
            [READ_AREA_TOTALS] = "totals, which the records contradict",
    };

    return area < READ_AREA_COUNT ? names[area] : "";
}

static void free_private(struct read_private *private)
{
    if (!private)
        return;
    for (uint32_t i = 0; private->string && i <= private->strings; i++)
        free(private->string[i]);
    free(private->string);
    free(private->log);
    free(private->chunk);
    free(private->node);
    for (uint32_t i = 0; private->code && i <= private->codes; i++)
        free(private->code[i].lines);
    free(private->code);
    free(private->pynode);
    free(private);
}

void read_close(struct read_capture *capture)
{
    if (!capture)
        return;
    for (size_t i = 0; i < capture->note_count; i++)
        free(capture->note[i].text);
    free(capture->note);
    for (size_t i = 0; i < capture->held_count; i++)
        free(capture->held[i].text);
    free(capture->held);
    for (size_t i = 0; i < capture->held_at_count; i++)
        free(capture->held_at[i].address);
    free(capture->held_at);
    free(capture->walk);
    for (size_t i = 0; i < capture->data_count; i++)
        free(capture->data[i].text);
    free(capture->data);
    free(capture->record.bytes);
    free(capture->argv);
    free(capture->live);
    free(capture->other);
    free(capture->event);
    free(capture->oom);
    free(capture->place);
    free(capture->module);
    free(capture->rule);
    free(capture->evict);
    free(capture->kept);
    free(capture->shorts);
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

    /* A parent has a smaller number, so this ends. */
    while (count < max && stack != 0 && stack <= private->nodes) {
        const struct read_node *node = &private->node[stack];

        ret_frames[count++] = (struct read_frame){
                .module = node->module ? &capture->module[node->module] : NULL,
                .module_number = node->module,
                .offset = node->offset,
        };
        stack = node->parent;
    }
    return count;
}

uint32_t read_stack_count(const struct read_capture *capture)
{
    return capture->private->nodes;
}

static struct read_pyframe pyframe_of(
        const struct read_capture *capture, const struct read_pynode *node)
{
    const struct read_pycode *code = &capture->private->code[node->code];

    return (struct read_pyframe){
            .name = reader_string(capture, code->def.name),
            .qualname = reader_string(capture, code->def.qualname),
            .file = reader_string(capture, code->def.file),
            .lines = code->lines,
            .lines_bytes = code->lines ? code->def.def.length : 0,
            .table = code->def.table < FORMAT_PYTABLE_COUNT ? (enum format_pytable)code->def.table
                                                            : FORMAT_PYTABLE_NONE,
            .first_line = code->def.first_line,
            .lasti = node->lasti,
            .is_cut = code->def.cut != 0,
            .is_entry = node->is_entry,
    };
}

unsigned read_pystack(const struct read_capture *capture, uint32_t pystack,
        struct read_pyframe *ret_frames, unsigned max, bool *ret_ambient)
{
    const struct read_private *private = capture->private;
    uint32_t number = pystack & ~FORMAT_PYSTACK_AMBIENT;
    unsigned count = 0;

    *ret_ambient = (pystack & FORMAT_PYSTACK_AMBIENT) != 0;
    /* A parent has a smaller number, so this ends. A missing node has no code. */
    while (count < max && number != 0 && number <= private->pynodes
            && private->pynode[number].code != 0) {
        ret_frames[count++] = pyframe_of(capture, &private->pynode[number]);
        number = private->pynode[number].parent;
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
