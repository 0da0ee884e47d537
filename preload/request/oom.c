/* SPDX-License-Identifier: MIT */
#include "preload/request/oom.h"

#include "preload/base/guard.h"
#include "preload/base/linked.h"
#include "preload/base/msg.h"
#include "preload/driver/backend.h"
#include "preload/driver/device_stats.h"
#include "preload/driver/life.h"
#include "preload/driver/resolve.h"
#include "preload/driver/session.h"
#include "tracker/capture/capture.h"
#include "tracker/python/pycode.h"
#include "tracker/stacks/intern.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
    PLACE_MAX = 128,
    OOM_FRAMES = 16, /* frames of a stack searched for the program's own */
};

static atomic_bool told;
static atomic_int last_device;
static _Atomic uint64_t times; /* stored after the device */
static void (*on_record)(int device, uint64_t count);

void oom_on_record(void (*recorded)(int device, uint64_t count))
{
    on_record = recorded;
}

uint64_t oom_count(int *ret_device)
{
    uint64_t count = atomic_load_explicit(&times, memory_order_acquire);

    if (count > 0)
        *ret_device = atomic_load_explicit(&last_device, memory_order_relaxed);
    return count;
}

/* ---- the figures of heaps and device -------------------------------------------------------- */

static void look_at_heaps(int device, struct capture_oom_info *info)
{
    struct pool_room room;

    if (!session_pool || device < 0)
        return;
    pool_room(session_pool, device, &room);
    info->free_elsewhere =
            info->flags & FORMAT_OOM_STREAM ? room.free_sync : room.stats.free - room.free_sync;
    info->hint_held = room.stats.held;
    info->flags |= FORMAT_OOM_HEAPS;
    info->heaps = (struct format_oom_heaps){
            .held = room.stats.reserved,
            .live = room.stats.live_requested,
            .used = room.stats.used,
            .held_high = room.stats.reserved_high,
            .live_high = room.stats.live_requested_high,
            .free = room.stats.free,
            .largest_free = room.largest_free,
            .remappable = room.remappable,
            .remappable_waiting = room.remappable_waiting,
            .cached = room.stats.cached,
            .waiting = room.stats.pending,
            .kept = room.stats.quarantined,
            .limbo = room.stats.limbo,
            .husk = room.stats.husk,
    };
}

static void look_at_device(int device, struct capture_oom_info *info)
{
    uint64_t total, available;

    if (device < 0 || !session_may_fence() || life_sticky()
            || backend_driver.memory(NULL, device, &total, &available) != 0)
        return;
    info->free_bytes = available;
    info->total_bytes = total;
}

/* ---- the line ------------------------------------------------------------------------------- */

const char *oom_bytes_text(char text[static OOM_BYTES_MAX], uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    uint64_t divisor = 1;
    uint64_t hundredths, rest;
    unsigned unit = 0;

    while (bytes / divisor >= 1024 && unit < 4) {
        divisor *= 1024;
        unit++;
    }
    hundredths = bytes / divisor * 100 + bytes % divisor * 100 / divisor;
    rest = bytes % divisor * 100 % divisor * 2; /* half rounds to even, as in %.2f */
    hundredths += rest > divisor || (rest == divisor && hundredths % 2);
    (void)snprintf(text, OOM_BYTES_MAX, "%lu.%u%u %s", (unsigned long)(hundredths / 100),
            (unsigned)(hundredths / 10 % 10), (unsigned)(hundredths % 10), units[unit]);
    return text;
}

/* Is the file the program's own, and not a package's that it calls? */
static bool is_programs_file(const char *file)
{
    return !strstr(file, "/site-packages/") && !strstr(file, "/dist-packages/")
            && !strstr(file, "/lib/python") && *file != '<';
}

/* "train train.py:31" of the innermost Python line that is the program's. */
static bool python_text(char text[static PLACE_MAX], uint32_t pystack)
{
    struct pycode_node node;
    struct pycode_frame frame;

    for (uint32_t at = pystack & ~FORMAT_PYSTACK_AMBIENT; at != 0 && pycode_node_at(at, &node);
            at = node.parent) {
        if (!pycode_frame_at(at, &frame) || !is_programs_file(frame.file))
            continue;
        (void)snprintf(
                text, PLACE_MAX, "%s %s:%u", frame.function, linked_base(frame.file), frame.line);
        return true;
    }
    return false;
}

/*
 * The call site: the program's line of Python, else "train+0x12ab" of the program's own code, as
 * addr2line takes it, else the frame that made the call. "" = unknown.
 */
static const char *place_text(char text[static PLACE_MAX], uint32_t stack, uint32_t pystack)
{
    struct intern_frame frames[OOM_FRAMES];
    unsigned count = intern_frames(stack, frames, OOM_FRAMES);
    const struct intern_module *module = NULL;
    unsigned which = 0;

    text[0] = '\0';
    if (python_text(text, pystack))
        return text;
    for (unsigned i = 0; i < count && !(module && module->is_main); i++) {
        const struct intern_module *at =
                frames[i].module ? intern_module_at(frames[i].module) : NULL;

        if (at && (i == 0 || at->is_main)) {
            module = at;
            which = i;
        }
    }
    if (module && *intern_text(module->path))
        (void)snprintf(text, PLACE_MAX, "%s+0x%x", linked_base(intern_text(module->path)),
                (unsigned)frames[which].offset);
    return text;
}

/* `hinted`: free bytes of it that hints hold, and that are not given up. */
static void tell_heaps(
        char *text, size_t size, const struct format_oom_heaps *heaps, uint64_t hinted)
{
    char held[OOM_BYTES_MAX], live[OOM_BYTES_MAX], largest[OOM_BYTES_MAX], kept[OOM_BYTES_MAX];
    unsigned e = heaps->held ? (unsigned)(heaps->used * 100 / heaps->held) : 100;

    (void)snprintf(text, size,
            "; kedge holds %s for %s live (utilisation %u.%u%u), largest free block %s%s%s%s",
            oom_bytes_text(held, heaps->held), oom_bytes_text(live, heaps->live), e / 100,
            e / 10 % 10, e % 10, oom_bytes_text(largest, heaps->largest_free), hinted ? ", " : "",
            hinted ? oom_bytes_text(kept, hinted) : "",
            hinted ? " held by hints after its free" : "");
}

static void oom_tell(const struct capture_oom_info *info, const struct format_oom_holder *top)
{
    char requested[OOM_BYTES_MAX], available[OOM_BYTES_MAX], most[OOM_BYTES_MAX];
    char heaps[256] = "";
    char holder[PLACE_MAX + 64] = "";
    char place[PLACE_MAX];

    if (info->flags & FORMAT_OOM_HEAPS)
        tell_heaps(heaps, sizeof heaps, &info->heaps, info->hint_held);
    if (top->bytes)
        (void)snprintf(holder, sizeof holder, "; most is held by %s: %s",
                *place_text(place, top->stack, top->pystack) ? place : "an unknown caller",
                oom_bytes_text(most, top->bytes));
    msg_warn("out of memory: %s requested by %s, %s free on device %d%s%s%s%s",
            info->tag->size ? oom_bytes_text(requested, info->tag->size) : "something", info->call,
            info->free_bytes == UINT64_MAX ? "unknown"
                                           : oom_bytes_text(available, info->free_bytes),
            info->tag->device, heaps, holder, *capture_path() ? "; see kedge report " : "",
            capture_path());
}

/* ---- the record ----------------------------------------------------------------------------- */

void oom_record(const struct dispatch_request *request, int result, bool native)
{
    device_stats_reserved(
            request->tag.device); /* storage of a growth that then failed was held, too */
    struct capture_oom_info info = {
            .tag = &request->tag,
            .seq = session_seq(),
            .free_bytes = UINT64_MAX,
            .total_bytes = UINT64_MAX,
            .call = resolve_symbol((enum resolve_slot)guard_thread.entry),
            .stream = stream_told(&request->stream),
            .flags = (request->api == API_STREAM ? FORMAT_OOM_STREAM : 0)
                    | (native ? FORMAT_OOM_NATIVE : 0)
                    | (request->capturing ? FORMAT_OOM_CAPTURE : 0),
            .ladder = {.trimmed_bytes = request->ladder.trimmed_bytes,
                    .moved_bytes = request->ladder.moved_bytes,
                    .waits = request->ladder.waits,
                    .trims = request->ladder.trims,
                    .attempts = request->ladder.attempts},
            .result = result,
    };
    struct format_oom_holder top = {.bytes = 0};
    uint64_t count;

    look_at_heaps(request->tag.device, &info);
    look_at_device(request->tag.device, &info);
    session_report(capture_oom(&info, &top));
    atomic_store_explicit(&last_device, request->tag.device, memory_order_relaxed);
    count = atomic_fetch_add_explicit(&times, 1, memory_order_release) + 1;
    if (!atomic_exchange(&told, true))
        oom_tell(&info, &top);
    if (on_record)
        on_record(request->tag.device, count);
}
