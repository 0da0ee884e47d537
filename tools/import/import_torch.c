/* SPDX-License-Identifier: MIT */
/*
 * Snapshots of PyTorch: torch.cuda.memory._dump_snapshot, or pickle.dump of
 * torch.cuda.memory._snapshot(), or of torch.cuda.memory_snapshot(), which is the list of segments
 * alone.
 *
 * `segments` is the state at the end, `device_traces` has the events before, as far as the ring had
 * room; a snapshot may lack it. A block that is live at the end, or freed in the trace, without an
 * allocation in the trace was live before. Figures are those of tensors: an allocation is `alloc`,
 * with the size that was asked for, a free is `free_requested`; `free_completed`, when the last
 * stream has passed, adds nothing for such a block, and is the free of a block without
 * `free_requested`.
 *
 * Up to PyTorch 2.0 a block has its stack and the size that was asked for in history[0].
 */
#include "tools/import/import.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/cmdexit.h"
#include "tools/base/keytable.h"
#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tools/import/import_frames.h"
#include "tools/import/pickle.h"
#include "tracker/format/format.h"

#define DEVICES_MAX 64u /* larger numbers are no devices */
#define THREAD      1u  /* a snapshot does not name threads */
#define GROUP       0u  /* of external_annotations */
#define EDGES       1u  /* the group of the job's edges */
#define EDGE_THREAD 2u  /* threads of edges begin here */
#define STACK_MAX   128u
#define TIME_MAX    (INT64_MAX / 1000) /* us: the latest possible moment */

/* Last state of an address in the trace. */
#define MARK_DEAD 0u
#define MARK_LIVE 1u
#define MARK_NEW  2u /* no event yet */

/* The records of one list, in the order of time, and the next of them. */
struct line {
    const struct pickle_value *at;
    size_t count, next;
};

/* A block that was live before the trace begins. */
struct early {
    struct import_block block;
    const struct pickle_value *frames;
};

struct snapshot {
    struct import_job *job;
    struct pickle pickle;
    unsigned char *bytes;
    size_t length;
    const struct pickle_value *segments;
    struct line notes; /* external_annotations */
    size_t next_edge;
    struct line devices[DEVICES_MAX];
    uint64_t reserved[DEVICES_MAX];
    unsigned device_count;
    struct keytable live;    /* (address, device) -> MARK_* */
    struct keytable stacks;  /* number of a list of frames -> stack */
    struct keytable streams; /* (device, handle) -> number within the device */
    struct early *early;
    size_t early_count, early_room;
    uint64_t unknown; /* records of unknown actions */
};

static int wrong(const struct snapshot *s, const char *what)
{
    (void)fprintf(stderr, "kedge import: %s: no snapshot of PyTorch: %s\n", s->job->path, what);
    return CMD_BAD;
}

/* ---- values ---- */

static const struct pickle_value *import_torch_get(
        const struct snapshot *s, const struct pickle_value *dict, const char *key)
{
    return pickle_get(&s->pickle, dict, key);
}

static uint64_t import_torch_number_of(const struct snapshot *s, const struct pickle_value *dict,
        const char *key, uint64_t without)
{
    const struct pickle_value *value = import_torch_get(s, dict, key);

    return value && value->kind == PICKLE_INT ? (uint64_t)value->u.number : without;
}

static struct import_text import_torch_text_of(
        const struct snapshot *s, const struct pickle_value *dict, const char *key)
{
    const struct pickle_value *value = import_torch_get(s, dict, key);

    if (!value || value->kind != PICKLE_TEXT)
        return (struct import_text){"", 0};
    return (struct import_text){value->u.text, value->length};
}

static bool is_action(
        const struct snapshot *s, const struct pickle_value *record, const char *action)
{
    return pickle_is(import_torch_get(s, record, "action"), action);
}

/* ---- parts of a record ---- */

/* Outermost first, so that equal outer parts are shared. */
static uint32_t import_torch_stack_of(struct snapshot *s, const struct pickle_value *frames)
{
    size_t count;
    const struct pickle_value *items = pickle_items(&s->pickle, frames, &count);
    size_t kept = 0;
    uint32_t stack = 0;

    if (count == 0)
        return 0;
    uint32_t *known = keytable_at(&s->stacks, (struct key){frames->u.list, 0, 0}, UINT32_MAX);
    if (*known != UINT32_MAX)
        return *known;
    struct import_frame *list = vec_new(STACK_MAX, sizeof *list);
    for (size_t i = 0; i < count && kept < STACK_MAX; i++) {
        struct import_frame frame = import_frames_make(import_torch_text_of(s, &items[i], "name"),
                import_torch_text_of(s, &items[i], "filename"),
                import_torch_number_of(s, &items[i], "line", 0));

        if (!import_frames_leave_out(&frame))
            list[kept++] = frame;
    }
    while (kept > 0)
        stack = import_stack(s->job->import, stack, &list[--kept]);
    free(list);
    return *known = stack;
}

/* The default stream is the first of its device, the others are numbered in order of appearance. */
static uint64_t import_torch_stream_of(
        struct snapshot *s, const struct pickle_value *record, unsigned device)
{
    uint64_t handle = import_torch_number_of(s, record, "stream", 0);
    uint32_t *number;

    (void)keytable_at(&s->streams, (struct key){device, 0, 1}, 1);
    number = keytable_at(&s->streams, (struct key){device, handle, handle == 0}, 0);
    if (*number == 0) {
        uint32_t *count = keytable_at(&s->streams, (struct key){device, 0, 2}, 1);

        *number = ++*count;
    }
    return format_stream(handle, (uint16_t)(*number < UINT16_MAX ? *number : 0));
}

static struct import_block import_torch_block_of(
        struct snapshot *s, const struct pickle_value *record, unsigned device)
{
    return (struct import_block){.address = import_torch_number_of(s, record, "addr", 0),
            .size = import_torch_number_of(s, record, "size", 0),
            .stream = import_torch_stream_of(s, record, device),
            .thread = THREAD,
            .space = device,
            .device = (int)device,
            .by_stream = true};
}

static bool is_size(uint64_t size)
{
    return size <= INT64_MAX;
}

/* ---- blocks from before the trace ---- */

static void add_early(
        struct snapshot *s, const struct import_block *block, const struct pickle_value *frames)
{
    if (is_size(block->size))
        VEC_PUSH(s->early, s->early_count, s->early_room) = (struct early){*block, frames};
}

/* Whether the device's trace has requests of frees, as PyTorch's have. */
static bool has_requests(const struct snapshot *s, unsigned device)
{
    const struct line *line = &s->devices[device];

    for (size_t i = 0; i < line->count; i++)
        if (is_action(s, &line->at[i], "free_requested"))
            return true;
    return false;
}

/*
 * Allocations and frees set a mark; a free without one is of a block that lived before. If requests
 * of frees are recorded, a completed free without a recorded request was requested before.
 */
static void look_at_trace(struct snapshot *s, unsigned device)
{
    const struct line *line = &s->devices[device];
    bool is_asked = has_requests(s, device);

    for (size_t i = 0; i < line->count; i++) {
        const struct pickle_value *record = &line->at[i];
        bool is_alloc = is_action(s, record, "alloc");
        bool is_completed = is_action(s, record, "free_completed");
        struct import_block block;
        uint32_t *live;

        if (!is_alloc && !is_completed && !is_action(s, record, "free_requested"))
            continue;
        block = import_torch_block_of(s, record, device);
        live = keytable_at(&s->live, (struct key){block.address, device, 0}, MARK_NEW);
        if (!is_alloc && *live == MARK_NEW && block.size && !(is_completed && is_asked))
            add_early(s, &block, NULL);
        *live = is_alloc ? MARK_LIVE : MARK_DEAD;
    }
}

/* The newest entry of the history that blocks had up to PyTorch 2.0, NULL. */
static const struct pickle_value *newest_of(
        const struct snapshot *s, const struct pickle_value *block)
{
    size_t count;
    const struct pickle_value *items =
            pickle_items(&s->pickle, import_torch_get(s, block, "history"), &count);

    return count > 0 ? &items[0] : NULL;
}

static void look_at_block(struct snapshot *s, const struct pickle_value *value,
        const struct import_block *block, uint64_t size)
{
    const struct pickle_value *state = import_torch_get(s, value, "state");
    const struct pickle_value *newest = newest_of(s, value);
    const struct pickle_value *frames = import_torch_get(s, value, "frames");
    const uint32_t *mark =
            keytable_find(&s->live, (struct key){block->address, (uint64_t)block->device, 0});
    struct import_block early = *block;

    if (!state || size == UINT64_MAX) {
        import_bad(s->job->import);
        return;
    }
    if (!pickle_is(state, "active_allocated") || (mark && *mark != MARK_NEW))
        return;
    early.size = import_torch_number_of(
            s, value, "requested_size", import_torch_number_of(s, newest, "real_size", size));
    add_early(s, &early, frames || !newest ? frames : import_torch_get(s, newest, "frames"));
}

static void look_at_segment(struct snapshot *s, const struct pickle_value *segment, unsigned device)
{
    size_t count;
    const struct pickle_value *blocks =
            pickle_items(&s->pickle, import_torch_get(s, segment, "blocks"), &count);
    struct import_block block = import_torch_block_of(s, segment, device);
    uint64_t address = import_torch_number_of(s, segment, "address", 0);

    if (!import_torch_get(s, segment, "blocks"))
        import_bad(s->job->import);
    for (size_t i = 0; i < count; i++) {
        uint64_t size = import_torch_number_of(s, &blocks[i], "size", UINT64_MAX);

        block.address = import_torch_number_of(s, &blocks[i], "address", address);
        look_at_block(s, &blocks[i], &block, size);
        address = block.address + size;
    }
}

static int by_segment_address(const void *a, const void *b)
{
    const struct early *x = a;
    const struct early *y = b;

    return vec_order(x->block.address, y->block.address, 0);
}

static void tell_early(struct snapshot *s)
{
    VEC_SORT(s->early, s->early_count, by_segment_address);
    for (size_t i = 0; i < s->early_count; i++) {
        struct early *early = &s->early[i];

        early->block.stack = import_torch_stack_of(s, early->frames);
        if (!import_is_live(s->job->import, early->block.address, early->block.space))
            import_before(s->job->import, &early->block);
    }
}

/* ---- memory held by the allocator ---- */

/* The change of held memory by a record, as a number that may be below 0. */
static uint64_t grown_by(const struct snapshot *s, const struct pickle_value *record)
{
    uint64_t size = import_torch_number_of(s, record, "size", 0);

    if (is_action(s, record, "segment_alloc") || is_action(s, record, "segment_map"))
        return size;
    if (is_action(s, record, "segment_free") || is_action(s, record, "segment_unmap"))
        return 0 - size;
    return 0;
}

/* Bytes held at the end, less the changes in the trace. */
static void tell_reserved_before(struct snapshot *s)
{
    for (unsigned device = 0; device < s->device_count; device++) {
        for (size_t i = 0; i < s->devices[device].count; i++)
            s->reserved[device] -= grown_by(s, &s->devices[device].at[i]);
        if (!is_size(s->reserved[device])) /* the trace does not match the segments */
            s->reserved[device] = 0;
        if (s->reserved[device])
            import_reserved(s->job->import, (int)device, s->reserved[device]);
    }
}

/* ---- the trace ---- */

static void tell_oom(struct snapshot *s, const struct pickle_value *record, unsigned device)
{
    struct import_block request = import_torch_block_of(s, record, device);

    request.stack = import_torch_stack_of(s, import_torch_get(s, record, "frames"));
    import_oom(
            s->job->import, &request, import_torch_number_of(s, record, "device_free", UINT64_MAX));
}

static void tell_held(struct snapshot *s, const struct pickle_value *record, unsigned device)
{
    uint64_t held = s->reserved[device] + grown_by(s, record);

    s->reserved[device] = is_size(held) ? held : 0;
    import_reserved(s->job->import, (int)device, s->reserved[device]);
}

/*
 * For what a thread without Python asks for, as the backward pass does: the range that the program
 * was in, if the run's are known; else no stack.
 */
static uint32_t stack_of_range(struct snapshot *s)
{
    const char *path = s->job->edge_count ? import_range(s->job->import, THREAD) : NULL;
    char *text = path ? vec_format("(%s, no Python)", path) : NULL;
    struct import_frame frame = {.is_native = true};
    uint32_t stack = 0;

    if (text) {
        frame.function = (struct import_text){text, strlen(text)};
        stack = import_stack(s->job->import, 0, &frame);
    }
    free(text);
    return stack;
}

static void tell_block(struct snapshot *s, const struct pickle_value *record, unsigned device)
{
    struct import_block block = import_torch_block_of(s, record, device);
    bool is_alloc = is_action(s, record, "alloc");

    if (!is_size(block.size) || block.address == 0) {
        import_bad(s->job->import);
        return;
    }
    if (is_alloc) {
        block.stack = import_torch_stack_of(s, import_torch_get(s, record, "frames"));
        if (block.stack == 0)
            block.stack = stack_of_range(s);
        import_alloc(s->job->import, &block);
    } else if (import_is_live(s->job->import, block.address, block.space)) {
        import_free(s->job->import, &block);
    } else if (is_action(s, record, "free_requested")) {
        import_bad(s->job->import); /* once more, for the free bytes */
    }
}

static void tell_record(struct snapshot *s, const struct pickle_value *record, unsigned device)
{
    static const struct {
        const char *action;
        void (*tell)(struct snapshot *s, const struct pickle_value *record, unsigned device);
    } actions[] = {{"alloc", tell_block}, {"free_requested", tell_block},
            {"free_completed", tell_block}, {"segment_alloc", tell_held},
            {"segment_free", tell_held}, {"segment_map", tell_held}, {"segment_unmap", tell_held},
            {"oom", tell_oom}, {"snapshot", NULL}};

    if (!import_torch_get(s, record, "action")) {
        import_bad(s->job->import);
        return;
    }
    for (size_t i = 0; i < CMD_COUNT(actions); i++) {
        if (!is_action(s, record, actions[i].action))
            continue;
        if (actions[i].tell)
            actions[i].tell(s, record, device);
        return;
    }
    s->unknown++;
}

static bool is_start(const struct snapshot *s, const struct pickle_value *note)
{
    return pickle_is(import_torch_get(s, note, "stage"), "START");
}

static void tell_note(struct snapshot *s, const struct pickle_value *note)
{
    struct import_text name = import_torch_text_of(s, note, "name");

    if (is_start(s, note))
        import_enter(s->job->import, THREAD, GROUP, false, name);
    else if (pickle_is(import_torch_get(s, note, "stage"), "END"))
        import_leave(s->job->import, THREAD, GROUP, &name);
}

static uint64_t import_torch_time_of(const struct snapshot *s, const struct line *line)
{
    uint64_t time;

    if (line->next == line->count)
        return UINT64_MAX;
    time = import_torch_number_of(s, &line->at[line->next], "time_us", 0);
    return time < TIME_MAX ? time : TIME_MAX;
}

/* The device whose next record is the earliest; device_count: there is none. */
static unsigned earliest(const struct snapshot *s)
{
    unsigned best = s->device_count;
    uint64_t least = UINT64_MAX;

    for (unsigned device = 0; device < s->device_count; device++) {
        uint64_t time = import_torch_time_of(s, &s->devices[device]);

        if (time < least) {
            best = device;
            least = time;
        }
    }
    return best;
}

/* A range includes records with the time of its beginning or of its end. */
static bool is_note_next(const struct snapshot *s, unsigned device)
{
    uint64_t note = import_torch_time_of(s, &s->notes);
    uint64_t record =
            device < s->device_count ? import_torch_time_of(s, &s->devices[device]) : UINT64_MAX;

    if (note == UINT64_MAX)
        return false;
    return note < record || (note == record && is_start(s, &s->notes.at[s->notes.next]));
}

static uint64_t edge_time(const struct snapshot *s)
{
    return s->next_edge < s->job->edge_count ? s->job->edges[s->next_edge].ns : UINT64_MAX;
}

static bool is_range_of(const struct import_edge *enter, const struct import_edge *leave)
{
    return enter->thread == leave->thread && enter->name.length == leave->name.length
            && memcmp(enter->name.at, leave->name.at, enter->name.length) == 0;
}

static void tell_edge(struct snapshot *s)
{
    const struct import_edge *edge = &s->job->edges[s->next_edge++];
    uint32_t thread = import_thread(s->job->import, EDGE_THREAD + edge->thread);

    import_time(s->job->import, edge->ns);
    if (edge->is_enter)
        import_enter(s->job->import, thread, EDGES, false, edge->name);
    else
        import_leave(s->job->import, thread, EDGES, &edge->name);
}

/* Passes over edges from before the first record, but for those of ranges that are still open. */
static void pass_edges(struct snapshot *s, uint64_t until)
{
    size_t *open = vec_new(s->job->edge_count + 1, sizeof(*open));
    size_t count = 0;

    for (; s->next_edge < s->job->edge_count && edge_time(s) < until; s->next_edge++) {
        const struct import_edge *edge = &s->job->edges[s->next_edge];
        size_t at = count;

        if (edge->is_enter) {
            open[count++] = s->next_edge;
            continue;
        }
        while (at > 0 && !is_range_of(&s->job->edges[open[at - 1]], edge))
            at--;
        if (at > 0)
            memmove(&open[at - 1], &open[at], (count-- - at) * sizeof *open);
    }
    for (size_t i = 0, next = s->next_edge; i < count; s->next_edge = next, i++) {
        s->next_edge = open[i];
        tell_edge(s);
    }
    free(open);
}

static size_t record_count(const struct snapshot *s)
{
    size_t count = s->notes.count + s->job->edge_count;

    for (unsigned device = 0; device < s->device_count; device++)
        count += s->devices[device].count;
    return count;
}

static void tell_trace(struct snapshot *s)
{
    size_t total = record_count(s);

    for (size_t done = 0; done < total; done++) {
        unsigned device = earliest(s);
        bool is_note = is_note_next(s, device);

        if (!is_note && device == s->device_count && s->next_edge == s->job->edge_count)
            return;
        struct line *line = is_note || device == s->device_count ? &s->notes : &s->devices[device];
        uint64_t time = import_torch_time_of(s, line);
        if (edge_time(s) <= (time < TIME_MAX ? time * 1000 : UINT64_MAX - 1)) {
            tell_edge(s);
            continue;
        }
        const struct pickle_value *record = &line->at[line->next];

        import_time(s->job->import, import_torch_time_of(s, line) * 1000);
        line->next++;
        if (is_note)
            tell_note(s, record);
        else
            tell_record(s, record, device);
        progress_step(done, total);
    }
}

/* ---- the file ---- */

/* The list of segments, the final state: the snapshot itself, or a part of it; NULL: neither. */
static const struct pickle_value *find_segments(const struct snapshot *s)
{
    const struct pickle_value *root = &s->pickle.root;
    size_t count;
    const struct pickle_value *items = pickle_items(&s->pickle, root, &count);

    if (root->kind == PICKLE_DICT)
        return import_torch_get(s, root, "segments");
    return count > 0 && import_torch_get(s, &items[0], "blocks") ? root : NULL;
}

static int find_lines(struct snapshot *s)
{
    const struct pickle_value *traces = import_torch_get(s, &s->pickle.root, "device_traces");
    size_t count;
    const struct pickle_value *items = pickle_items(&s->pickle, traces, &count);

    s->segments = find_segments(s);
    if (!s->segments)
        return wrong(s,
                "it is neither a dict with 'segments' and 'device_traces', as "
                "torch.cuda.memory._dump_snapshot writes it, nor a list of segments");
    if (count > DEVICES_MAX)
        return wrong(s, "it has more than 64 devices");
    if (!traces)
        import_note(s->job->import, 1,
                "the snapshot does not say what happened, it has no device_traces: all that is "
                "known is what was live at its end "
                "(torch.cuda.memory._record_memory_history before, _dump_snapshot after)");
    s->device_count = (unsigned)count;
    for (unsigned device = 0; device < count; device++) {
        s->devices[device].at = pickle_items(&s->pickle, &items[device], &s->devices[device].count);
        if (!s->devices[device].at && items[device].kind != PICKLE_LIST)
            import_bad(s->job->import);
    }
    s->notes.at = pickle_items(&s->pickle,
            import_torch_get(s, &s->pickle.root, "external_annotations"), &s->notes.count);
    return CMD_DONE;
}

static int look_at_segments(struct snapshot *s)
{
    size_t count;
    const struct pickle_value *segments = pickle_items(&s->pickle, s->segments, &count);

    if (s->segments->kind != PICKLE_LIST)
        import_bad(s->job->import);
    for (size_t i = 0; i < count; i++) {
        uint64_t device = import_torch_number_of(s, &segments[i], "device", 0);

        if (device >= DEVICES_MAX)
            return wrong(s, "a segment is on a device beyond 63");
        if (device >= s->device_count)
            s->device_count = (unsigned)device + 1;
        s->reserved[device] += import_torch_number_of(s, &segments[i], "total_size", 0);
        look_at_segment(s, &segments[i], (unsigned)device);
    }
    return CMD_DONE;
}

static void import_torch_begin(struct snapshot *s)
{
    unsigned device = earliest(s);

    if (device == s->device_count)
        return;
    import_time(s->job->import, import_torch_time_of(s, &s->devices[device]) * 1000);
    pass_edges(s, import_torch_time_of(s, &s->devices[device]) * 1000);
}

static int import_torch_tell(struct snapshot *s)
{
    int r = find_lines(s);

    if (r)
        return r;
    (void)import_thread(s->job->import, THREAD);
    for (unsigned device = 0; device < s->device_count; device++)
        look_at_trace(s, device);
    r = look_at_segments(s);
    if (r)
        return r;
    import_torch_begin(s);
    tell_early(s);
    tell_reserved_before(s);
    tell_trace(s);
    if (s->unknown)
        import_note(s->job->import, 1,
                "%" PRIu64 " records of the snapshot are of kinds that are not known here",
                s->unknown);
    return CMD_DONE;
}

static int import_torch_read_whole(struct snapshot *s)
{
    size_t room = 0;
    size_t got = 1;

    while (got > 0 && s->length <= UINT32_MAX && (room == 0 || import_is_torch(s->bytes, room))) {
        if (s->length == room)
            s->bytes = vec_grow(s->bytes, room ? 2 * room : 1u << 16, 1, &room);
        got = fread(s->bytes + s->length, 1, room - s->length, s->job->in);
        s->length += got;
    }
    if (!ferror(s->job->in))
        return CMD_DONE;
    (void)fprintf(stderr, "kedge import: %s: %s\n", s->job->path, strerror(errno));
    return CMD_BAD;
}

bool import_is_torch(const unsigned char *head, size_t length)
{
    return length > 1 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5;
}

int import_torch(struct import_job *job)
{
    struct snapshot s = {.job = job};
    struct pickle_error error;
    int r = import_torch_read_whole(&s);

    if (r == CMD_DONE && pickle_read(s.bytes, s.length, &s.pickle, &error) < 0) {
        progress_end();
        if (job->what && error.offset == 0)
            (void)fprintf(stderr, "kedge import: %s: %s\n", job->path, job->what);
        else
            (void)fprintf(stderr, "kedge import: %s: byte %zu: %s\n", job->path, error.offset,
                    error.text);
        r = CMD_BAD;
    }
    if (r == CMD_DONE)
        r = import_torch_tell(&s);
    pickle_done(&s.pickle);
    keytable_done(&s.live);
    keytable_done(&s.stacks);
    keytable_done(&s.streams);
    free(s.early);
    free(s.bytes);
    return r;
}
