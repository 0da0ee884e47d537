/* SPDX-License-Identifier: MIT */
#include "tools/import/import.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/base/types.h"
#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tools/import/import_names.h"
#include "tools/import/import_ranges.h"
#include "tracker/reader/capmake.h"

#define PLACES_MAX         65536u     /* as in the library */
#define NTH_NONE           UINT32_MAX /* call sites are unknown: no block is the n-th at its site */
#define NOTE_MAX           256u       /* notes, as in the library */
#define NO_LIVE            UINT32_MAX
#define CUDA_OUT_OF_MEMORY 2
/* Added to a taken address to get one that may be free: no other block is between. */
#define ADDRESS_STEP ((UINT64_C(1) << 48) + 512)

/* Blocks from before the record are found late, when they are freed: they have a lower number. */
#define FIRST_SEQ 2u

/* The device of such blocks is unknown. */
#define DEVICE_BEFORE 0

/* A block that is live. */
struct live {
    struct import_block block;
    uint64_t seq, time_ns;
    uint64_t turn; /* number of the allocation within its thread */
    uint64_t told; /* its address in the capture */
    uint32_t place, path, instance;
    /* the next block at the same address, in another space; for a free entry, the next one */
    uint32_t next;
    bool is_live;
};

struct import {
    struct capmake *make;
    struct import_names names;
    struct import_ranges ranges;
    struct format_header header;
    struct import_counts counts;

    struct live *lives;
    size_t live_count, live_room;
    uint32_t free_live;
    struct keytable addresses; /* -> first of the blocks there, index in lives, NO_LIVE */
    struct keytable told;      /* addresses in the capture that are taken */
    uint32_t *joined;          /* by space: another space that it is one with, or itself */
    size_t joined_count, joined_room;
    bool has_processes; /* spaces are processes, and known from the beginning */
    /* Then: (address, space) that occurred; (address, 0, 1) for addresses of the capture. */
    struct keytable seen;

    struct format_place *places;
    size_t place_count, place_room;
    struct keytable place_numbers; /* (stack, path, device) -> index */

    uint64_t *turns; /* allocations by thread number */
    size_t turn_count, turn_room;
    uint64_t known_before; /* bytes of import_before */
    uint64_t seq, now_ns;
    uint32_t note_count;
    bool has_time;
};

struct import *import_new(int fd, const char *tool, const char *file, const char *rank)
{
    struct import *import = vec_new(1, sizeof *import);

    import->make = capmake_new(fd);
    if (!import->make)
        vec_out_of_memory();
    import->names.make = import->make;
    import->free_live = NO_LIVE;
    import->seq = FIRST_SEQ - 1;
    import->header.class_count = MEMCLASS_COUNT;
    import->header.state = FORMAT_STATE_CLEAN; /* the record is complete, as far as is known */
    (void)snprintf(import->header.rank, sizeof import->header.rank, "%s", rank ? rank : "");
    import_names_setting(&import->names, "mode", "imported");
    import_names_setting(&import->names, "imported_from", tool);
    import_names_setting(&import->names, "imported_file", file);
    return import;
}

void import_free_books(struct import *import)
{
    capmake_free(import->make);
    import_names_done(&import->names);
    import_ranges_done(&import->ranges);
    keytable_done(&import->addresses);
    keytable_done(&import->told);
    keytable_done(&import->seen);
    keytable_done(&import->place_numbers);
    free(import->joined);
    free(import->lives);
    free(import->places);
    free(import->turns);
    free(import);
}

void import_time(struct import *import, uint64_t ns)
{
    if (!import->has_time)
        import->header.start_real_ns = ns;
    import->has_time = true;
    /* of two threads, the later line may be the earlier by a little */
    if (ns > import->header.start_real_ns)
        import->now_ns = ns - import->header.start_real_ns;
}

uint32_t import_thread(struct import *import, uint64_t id)
{
    return import_names_thread(&import->names, id);
}

uint32_t import_stack(struct import *import, uint32_t outer, const struct import_frame *frame)
{
    return import_names_stack(&import->names, outer, frame);
}

/* ---- spaces ---- */

uint32_t import_space(const struct import *import, uint32_t space)
{
    while (space < import->joined_count && import->joined[space] != space)
        space = import->joined[space];
    return space;
}

void import_join(struct import *import, uint32_t one, uint32_t other)
{
    one = import_space(import, one);
    other = import_space(import, other);
    while (import->joined_count <= one || import->joined_count <= other) {
        uint32_t space = (uint32_t)import->joined_count;

        VEC_PUSH(import->joined, import->joined_count, import->joined_room) = space;
    }
    import->joined[one > other ? one : other] = one > other ? other : one;
}

static uint32_t first_at(const struct import *import, uint64_t address)
{
    return keytable_get(&import->addresses, (struct key){address, 0, 0}, NO_LIVE);
}

/* The first block at an address that is in the space, or that is not; NO_LIVE. */
static uint32_t live_at(
        const struct import *import, uint64_t address, uint32_t space, bool is_inside)
{
    uint32_t number = first_at(import, address);

    space = import_space(import, space);
    while (number != NO_LIVE
            && (import_space(import, import->lives[number].block.space) == space) != is_inside)
        number = import->lives[number].next;
    return number;
}

static uint32_t import_find_live(const struct import *import, uint64_t address, uint32_t space)
{
    return live_at(import, address, space, true);
}

bool import_is_live(const struct import *import, uint64_t address, uint32_t space)
{
    return import_find_live(import, address, space) != NO_LIVE;
}

void import_join_by_free(struct import *import, const struct import_block *block)
{
    uint32_t first = first_at(import, block->address);
    const struct live *live = first == NO_LIVE ? NULL : &import->lives[first];

    if (live && live->next == NO_LIVE && live->block.size <= block->size)
        import_join(import, live->block.space, block->space);
}

bool import_live_elsewhere(
        const struct import *import, const struct import_block *block, uint32_t *ret_space)
{
    uint32_t number = live_at(import, block->address, block->space, false);

    if (number != NO_LIVE)
        *ret_space = import->lives[number].block.space;
    return number != NO_LIVE;
}

uint64_t import_shared(const struct import *import)
{
    return import->counts.shared;
}

/* The address in the capture for an address, which no other block has now. */
static uint64_t free_address(const struct import *import, uint64_t address)
{
    while (keytable_find(&import->told, (struct key){address, 0, 0}))
        address += ADDRESS_STEP;
    return address;
}

/* ---- totals ---- */

static void total_grows(struct format_totals *total, uint64_t size)
{
    total->allocated_bytes += size;
    total->allocated_count++;
    total->live_bytes += size;
    total->peak_bytes = max_of(total->peak_bytes, total->live_bytes);
}

static void total_falls(struct format_totals *total, uint64_t size, bool is_counted)
{
    total->live_bytes -= size;
    total->freed_bytes += is_counted ? size : 0;
    total->freed_count += is_counted;
}

static bool has_totals(int device)
{
    return device >= 0 && device < (int)FORMAT_DEVICES_MAX;
}

static void totals_grow(struct import *import, int device, uint64_t size)
{
    struct format_class *class = &import->header.memclass[MEMCLASS_POOLED];

    total_grows(&import->header.total, size);
    if (has_totals(device))
        total_grows(&import->header.device[device], size);
    class->allocated_bytes += size;
    class->allocated_count++;
    class->live_bytes += size;
    class->live_count++;
    class->peak_bytes = max_of(class->peak_bytes, class->live_bytes);
}

static void totals_fall(struct import *import, int device, uint64_t size, bool is_counted)
{
    struct format_class *class = &import->header.memclass[MEMCLASS_POOLED];

    total_falls(&import->header.total, size, is_counted);
    if (has_totals(device))
        total_falls(&import->header.device[device], size, is_counted);
    class->live_bytes -= size;
    class->live_count--;
}

/* ---- places: area C (tracker/FORMAT.md) ---- */

static uint32_t import_add_place(
        struct import *import, const struct import_block *block, uint32_t path)
{
    uint32_t number = (uint32_t)import->place_count;

    VEC_PUSH(import->places, import->place_count, import->place_room) =
            (struct format_place){.state = ((uint64_t)number + 1) << 1 | 1,
                    .pystack = block->stack,
                    .path = path,
                    .device = (int16_t)block->device};
    return number;
}

static uint32_t place_number(struct import *import, const struct import_block *block, uint32_t path)
{
    struct key key = {(uint64_t)block->stack << 32 | path, (uint64_t)(int64_t)block->device, 0};
    uint32_t *known = keytable_find(&import->place_numbers, key);
    bool is_other = !known && keytable_count(&import->place_numbers) >= PLACES_MAX;

    if (known)
        return *known;
    if (is_other) {
        import->header.places_lost++;
        key = (struct key){0, key.b, 1};
    }
    known = keytable_at(&import->place_numbers, key, NO_LIVE);
    if (*known == NO_LIVE && is_other) {
        *known = import_add_place(import, &(struct import_block){.device = block->device}, 0);
        import->places[*known].flags = FORMAT_PLACE_OTHER;
    } else if (*known == NO_LIVE) {
        *known = import_add_place(import, block, path);
    }
    return *known;
}

/* A place's current bytes are its share in each peak since its last change. */
static void settle_place(struct format_place *place, const struct format_high *high)
{
    if (place->peak == high->number)
        return;
    place->at_peak_bytes = place->live_bytes;
    place->at_peak_count = place->live_count;
    place->peak = high->number;
}

static struct format_high *import_high_of(struct import *import, int device)
{
    return has_totals(device) ? &import->header.high[device] : NULL;
}

static void place_grows(struct import *import, uint32_t number, uint64_t size)
{
    struct format_place *place = &import->places[number];
    struct format_high *high = import_high_of(import, place->device);

    if (high) {
        settle_place(place, high);
        high->live_bytes += size;
        if (high->live_bytes > high->peak_bytes) {
            high->seq = import->seq;
            high->time_ns = import->now_ns;
        }
    }
    place->allocated_bytes += size;
    place->allocated_count++;
    place->live_bytes += size;
    place->live_count++;
    place->peak_bytes = max_of(place->peak_bytes, place->live_bytes);
    place->peak_count = max_of(place->peak_count, place->live_count);
}

static void place_falls(struct import *import, uint32_t number, uint64_t size)
{
    struct format_place *place = &import->places[number];
    struct format_high *high = import_high_of(import, place->device);

    if (high) {
        if (high->live_bytes > high->peak_bytes) {
            high->number++;
            high->peak_bytes = high->live_bytes;
        }
        settle_place(place, high);
        high->live_bytes -= size;
    }
    place->live_bytes -= size;
    place->live_count--;
}

const char *import_range(const struct import *import, uint32_t thread)
{
    const struct import_range *range = import_ranges_here(&import->ranges, thread);

    return range ? range->text : NULL;
}

/* ---- blocks ---- */

static uint32_t import_take_live(struct import *import)
{
    uint32_t number = import->free_live;

    if (number != NO_LIVE) {
        import->free_live = import->lives[number].next;
        return number;
    }
    VEC_PUSH(import->lives, import->live_count, import->live_room) = (struct live){0};
    return (uint32_t)import->live_count - 1;
}

static uint64_t *turn_of(struct import *import, uint32_t thread)
{
    while (import->turn_count <= thread)
        VEC_PUSH(import->turns, import->turn_count, import->turn_room) = 0;
    return &import->turns[thread];
}

/* Ends a live block; `counted` says whether as a free. */
static void end_live(struct import *import, uint32_t number, uint32_t thread, bool is_counted)
{
    struct live *live = &import->lives[number];
    uint32_t *at = keytable_find(&import->addresses, (struct key){live->block.address, 0, 0});
    struct format_place *place = &import->places[live->place];
    bool is_temporary = is_counted && live->block.thread == thread
            && *turn_of(import, thread) - live->turn <= 1;

    totals_fall(import, live->block.device, live->block.size, is_counted);
    place_falls(import, live->place, live->block.size);
    place->temporary_bytes += is_temporary ? live->block.size : 0;
    place->temporary_count += is_temporary;
    while (at && *at != number)
        at = &import->lives[*at].next;
    if (at)
        *at = live->next;
    keytable_remove(&import->told, (struct key){live->told, 0, 0});
    live->is_live = false;
    live->next = import->free_live;
    import->free_live = number;
}

static const struct live *begin_live(struct import *import, const struct import_block *block)
{
    const struct import_range *range = import_ranges_here(&import->ranges, block->thread);
    uint32_t number = import_find_live(import, block->address, block->space);
    uint32_t *first = keytable_at(&import->addresses, (struct key){block->address, 0, 0}, NO_LIVE);
    uint64_t told = free_address(import, block->address);
    struct live *live;

    /* its free is not recorded, and its address in the capture shows that */
    if (number != NO_LIVE) {
        import->header.lost.implied_frees++;
        told = import->lives[number].told;
        end_live(import, number, block->thread, false);
    }
    number = import_take_live(import);
    live = &import->lives[number];
    import->counts.shared += *first != NO_LIVE;
    *live = (struct live){.block = *block,
            .told = told,
            .next = *first,
            .seq = ++import->seq,
            .time_ns = import->now_ns,
            .turn = ++*turn_of(import, block->thread),
            .path = range ? range->path : 0,
            .instance = range ? range->instance : 0,
            .is_live = true};
    *first = number;
    (void)keytable_at(&import->told, (struct key){live->told, 0, 0}, 0);
    live->place = place_number(import, block, live->path);
    totals_grow(import, block->device, block->size);
    place_grows(import, live->place, block->size);
    return live;
}

/* An event with the number `seq`: by the thread of a block, about its device and API. */
static struct format_event import_event_of(const struct import *import, enum format_event_kind kind,
        const struct import_block *of, uint64_t seq)
{
    uint32_t flags = of->by_stream ? FORMAT_ALLOC_STREAM : 0;
    struct format_event event;

    memset(&event, 0, sizeof event); /* every member of the union */
    event.head = (uint32_t)kind | flags << 8 | (uint32_t)(uint16_t)of->device << 16;
    event.thread = of->thread;
    event.seq = seq;
    event.time_ns = import->now_ns;
    return event;
}

/* Whether the record has had no block there before. */
static bool is_new_address(const struct import *import, const struct import_block *freed)
{
    if (import->has_processes)
        return !keytable_find(&import->seen, (struct key){freed->address, freed->space, 0});
    return !keytable_find(&import->addresses, (struct key){freed->address, 0, 0});
}

static void note_address(struct import *import, const struct import_block *block, uint64_t told)
{
    if (!import->has_processes)
        return;
    (void)keytable_at(&import->seen, (struct key){block->address, block->space, 0}, 0);
    (void)keytable_at(&import->seen, (struct key){told, 0, 1}, 0);
}

/* For a block that lived from the beginning until now: an address that was never used. */
static uint64_t unused_address(const struct import *import, uint64_t address)
{
    while (keytable_find(&import->seen, (struct key){address, 0, 1})
            || keytable_find(&import->told, (struct key){address, 0, 0}))
        address += ADDRESS_STEP;
    return address;
}

void import_alloc(struct import *import, const struct import_block *block)
{
    const struct live *live = begin_live(import, block);
    struct format_event event = import_event_of(import, FORMAT_EVENT_ALLOC, block, live->seq);

    event.u.alloc.addr = live->told;
    event.u.alloc.size = block->size;
    event.u.alloc.stream = block->stream;
    event.u.alloc.path = live->path;
    event.u.alloc.instance = live->instance;
    event.u.alloc.nth = NTH_NONE;
    event.u.alloc.pystack = block->stack;
    note_address(import, block, live->told);
    import->counts.allocs++;
    (void)capmake_event(import->make, &event);
}

void import_before(struct import *import, const struct import_block *block)
{
    import_alloc(import, block);
    import->counts.allocs--;
    import->counts.before++;
    import->known_before += block->size;
}

static void total_had(struct format_totals *total, uint64_t size)
{
    total->allocated_bytes += size;
    total->allocated_count++;
    total->live_bytes += size;
    total->peak_bytes += size;
}

/* A block from before the record was live all the time: all figures up to now rise by its bytes. */
static void import_count_before(struct import *import, int device, uint32_t number, uint64_t size)
{
    struct format_class *class = &import->header.memclass[MEMCLASS_POOLED];
    struct format_high *high = &import->header.high[device];
    struct format_place *place = &import->places[number];

    total_had(&import->header.total, size);
    total_had(&import->header.device[device], size);
    class->allocated_bytes += size;
    class->allocated_count++;
    class->live_bytes += size;
    class->live_count++;
    class->peak_bytes += size;
    settle_place(place, high);
    high->live_bytes += size;
    high->peak_bytes += size;
    place->allocated_bytes += size;
    place->allocated_count++;
    place->live_bytes += size;
    place->live_count++;
    place->peak_bytes += size;
    place->peak_count++;
    place->at_peak_bytes += size;
    place->at_peak_count++;
}

/* Frees a block whose birth is not in the record. */
static void free_before(struct import *import, int device, uint64_t size)
{
    uint32_t place = place_number(import, &(struct import_block){.device = device}, 0);

    import_count_before(import, device, place, size);
    import->counts.before++;
    import->header.lost.events_recycled++;
    import->header.lost.recycled_seq = FIRST_SEQ - 1;
    totals_fall(import, device, size, true);
    place_falls(import, place, size);
}

void import_free(struct import *import, const struct import_block *freed)
{
    bool is_new = is_new_address(import, freed);
    int device = has_totals(freed->device) ? freed->device : DEVICE_BEFORE;
    uint32_t number = import_find_live(import, freed->address, freed->space);
    const struct import_range *range = import_ranges_here(&import->ranges, freed->thread);
    struct import_block block = {.size = freed->size, .device = device};
    uint64_t told = free_address(import, freed->address);

    if (number != NO_LIVE) {
        block = import->lives[number].block;
        told = import->lives[number].told;
        end_live(import, number, freed->thread, true);
    } else {
        (void)keytable_at(&import->addresses, (struct key){freed->address, 0, 0}, NO_LIVE);
        if (is_new && freed->size) {
            told = unused_address(import, told);
            free_before(import, device, freed->size);
        } else {
            import->header.lost.unknown_frees++;
            block.size = 0;
        }
        note_address(import, freed, told);
    }
    block.thread = freed->thread;
    struct format_event event = import_event_of(import, FORMAT_EVENT_FREE, &block, ++import->seq);

    event.u.free.addr = told;
    event.u.free.size = block.size;
    event.u.free.stream = freed->stream;
    event.u.free.path = range ? range->path : 0;
    event.u.free.instance = range ? range->instance : 0;
    import->counts.frees++;
    (void)capmake_event(import->make, &event);
}

static void total_holds(struct format_totals *total, uint64_t bytes)
{
    total->reserved_bytes = bytes;
    if (bytes > total->peak_reserved_bytes)
        total->peak_reserved_bytes = bytes;
}

void import_reserved(struct import *import, int device, uint64_t bytes)
{
    struct format_totals *total = &import->header.total;
    uint64_t grown;
    struct format_event event = import_event_of(
            import, FORMAT_EVENT_RESERVED, &(struct import_block){.device = device}, ++import->seq);

    event.u.reserved.heap = 1;
    event.u.reserved.bytes = bytes;
    if (!has_totals(device))
        return;
    grown = bytes - import->header.device[device].reserved_bytes;
    total_holds(&import->header.device[device], bytes);
    total_holds(total, total->reserved_bytes + grown);
    (void)capmake_event(import->make, &event);
}

/* ---- failures ---- */

/* The places that hold most on a device, largest first. */
static void import_find_holders(const struct import *import, struct format_oom *oom)
{
    for (size_t i = 0; i < import->place_count; i++) {
        const struct format_place *place = &import->places[i];
        unsigned at = oom->holder_count;

        if (place->device != oom->device || place->live_bytes == 0)
            continue;
        oom->other_bytes += place->live_bytes;
        while (at > 0 && oom->holder[at - 1].bytes < place->live_bytes)
            at--;
        if (at == FORMAT_OOM_HOLDERS)
            continue;
        if (oom->holder_count < FORMAT_OOM_HOLDERS)
            oom->holder_count++;
        memmove(&oom->holder[at + 1], &oom->holder[at],
                (oom->holder_count - at - 1) * sizeof oom->holder[0]);
        oom->holder[at] = (struct format_oom_holder){
                .bytes = place->live_bytes, .count = place->live_count, .pystack = place->pystack};
    }
    for (unsigned i = 0; i < oom->holder_count; i++)
        oom->other_bytes -= oom->holder[i].bytes;
}

void import_oom(struct import *import, const struct import_block *request, uint64_t free_bytes)
{
    const struct import_range *range = import_ranges_here(&import->ranges, request->thread);
    struct format_event event = import_event_of(import, FORMAT_EVENT_OOM, request, ++import->seq);
    struct format_oom oom = {.seq = event.seq,
            .time_ns = event.time_ns,
            .requested = request->size,
            .stream = request->stream,
            .path = range ? range->path : 0,
            .instance = range ? range->instance : 0,
            .device = request->device,
            .result = CUDA_OUT_OF_MEMORY,
            .flags = request->by_stream ? FORMAT_OOM_STREAM : 0,
            .free_bytes = free_bytes,
            .total_bytes = UINT64_MAX,
            .pystack = request->stack};

    event.u.oom.size = request->size;
    event.u.oom.free_bytes = free_bytes;
    event.u.oom.largest_free = UINT64_MAX;
    event.u.oom.path = oom.path;
    event.u.oom.instance = oom.instance;
    event.u.oom.result = CUDA_OUT_OF_MEMORY;
    event.u.oom.pystack = request->stack;
    import->counts.failed++;
    (void)capmake_event(import->make, &event);
    oom.state = ++import->header.oom_count << 1 | 1;
    if (import->header.oom_count > FORMAT_OOM_FIRST)
        return;
    import_find_holders(import, &oom);
    (void)capmake_oom(import->make, &oom);
}

/* ---- ranges ---- */

static void put_edge(struct import *import, enum edge_kind kind, const struct import_range *range)
{
    struct format_event event = import_event_of(import, FORMAT_EVENT_EDGE,
            &(struct import_block){.thread = range->thread}, ++import->seq);

    event.u.edge.kind = kind;
    event.u.edge.anchor = range->anchor;
    event.u.edge.path = range->path;
    event.u.edge.instance = range->instance;
    (void)capmake_event(import->make, &event);
}

void import_leave(
        struct import *import, uint32_t thread, uint32_t group, const struct import_text *name)
{
    uint32_t number = name ? import_names_text(&import->names, name->at, name->length) : 0;
    struct import_range range;

    if (import_ranges_leave(&import->ranges, thread, group, number, &range))
        put_edge(import, EDGE_EXIT, &range);
}

void import_enter(struct import *import, uint32_t thread, uint32_t group, bool is_single,
        struct import_text name)
{
    const struct import_range *range;

    if (is_single)
        import_leave(import, thread, group, NULL);
    range = import_ranges_enter(&import->ranges, &import->names, thread, group, name);
    if (!range)
        return;
    import->counts.anchors++;
    put_edge(import, EDGE_ENTER, range);
}

/* ---- notes, and the end ---- */

void import_note(struct import *import, unsigned severity, const char *format, ...)
{
    struct format_def def = {.kind = FORMAT_DEF_NOTE, .id = severity};
    char text[512];
    va_list args;

    if (import->note_count++ >= NOTE_MAX)
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)capmake_def(import->make, &def, sizeof def, text, strlen(text));
}

void import_cut_off(struct import *import)
{
    import->header.state = FORMAT_STATE_OPEN;
}

void import_bad(struct import *import)
{
    import->counts.bad++;
    import->header.lost.events_dropped++;
}

static void write_lives(struct import *import)
{
    for (size_t i = 0; i < import->live_count; i++) {
        const struct live *live = &import->lives[i];
        struct format_live slot = {.state = live->seq << 1 | 1,
                .addr = live->told,
                .size = live->block.size,
                .stream = live->block.stream,
                .time_ns = live->time_ns,
                .path = live->path,
                .instance = live->instance,
                .nth = NTH_NONE,
                .device = (int16_t)live->block.device,
                .flags = live->block.by_stream ? FORMAT_ALLOC_STREAM : 0,
                .rule = -1,
                .pystack = live->block.stack};

        if (live->is_live)
            (void)capmake_live(import->make, &slot);
    }
}

static void no_hints(struct format_totals *total)
{
    total->live_hinted_bytes = total->live_bytes;
    total->peak_hinted_bytes = total->peak_bytes;
}

static void finish_header(struct import *import)
{
    struct format_header *header = &import->header;

    no_hints(&header->total);
    for (unsigned device = 0; device < FORMAT_DEVICES_MAX; device++)
        no_hints(&header->device[device]);
    header->last_seq = import->seq;
    header->trace = header->lost.recycled_seq ? FORMAT_TRACE_RING : FORMAT_TRACE_FULL;
}

void import_has_processes(struct import *import)
{
    import->has_processes = true;
}

void import_device_bytes(
        const struct import *import, int device, uint64_t *ret_peak, uint64_t *ret_live)
{
    bool is_known = has_totals(device);

    *ret_peak = is_known ? import->header.device[device].peak_bytes : UINT64_MAX;
    *ret_live = is_known ? import->header.device[device].live_bytes : UINT64_MAX;
}

void import_processes_done(struct import_processes *processes)
{
    for (size_t i = 0; i < processes->count; i++)
        free(processes->list[i].name);
    free(processes->list);
    free(processes->of_space);
    *processes = (struct import_processes){0};
}

int import_done(struct import *import, struct import_counts *ret_counts)
{
    if (import->ranges.lost)
        import_note(import, 1, "%" PRIu64 " ranges are no anchors: too deep, or too many at once",
                import->ranges.lost);
    if (import->counts.shared)
        import_note(import, 1,
                "%" PRIu64 " blocks lay at an address that was live elsewhere, on another device "
                "or in another process: they have other addresses here",
                import->counts.shared);
    if (import->known_before)
        import_note(import, 0,
                "what lived before the record begins, %s, counts as allocated at its beginning",
                render_bytes(import->known_before).text);
    finish_header(import);
    write_lives(import);
    for (size_t i = 0; i < import->place_count; i++)
        (void)capmake_place(import->make, &import->places[i]);
    import->counts.live_bytes = import->header.total.live_bytes;
    import->counts.peak_bytes = import->header.total.peak_bytes;
    *ret_counts = import->counts;
    return capmake_done(import->make, &import->header);
}
