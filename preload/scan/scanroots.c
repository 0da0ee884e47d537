/* SPDX-License-Identifier: MIT */
#include "preload/scan/scanroots.h"

#include "tracker/stacks/modules.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void scanroots_globals_of(struct scan *scan, enum intern_module_kind kind)
{
    for (uint32_t i = 0; i < scan->read.objects; i++) {
        const struct scanread_object *object = &scan->read.object[i];
        uint64_t low = (object->low + 7) & ~UINT64_C(7);
        struct scan_from from = {.root_of_word = {.kind = SCAN_GLOBAL,
                                         .module = object->module,
                                         .offset = low - object->bias}};

        if (!object->is_code && object->kind == kind)
            scanwords_memory(scan, &from, low, object->high);
    }
}

void scanroots_driver(struct scan *scan)
{
    scan->is_driver = true;
    scanroots_globals_of(scan, INTERN_MODULE_CUDA);
    scanwords_heap(scan);
    scan->is_driver = false;
    scan->drivers = scan->chunks;
}

void scanroots_globals(struct scan *scan)
{
    scanroots_globals_of(scan, INTERN_MODULE_PROGRAM);
}

/* The thread-local memory of a file, by the thread's own data: 0 = none, or not used yet. */
static uint64_t scanroots_tls_at(const struct scanread_tls *tls, uint64_t data)
{
    uint64_t vector =
            scanread_word(data + 8); /* dtv: pairs of words, the length in the one before */
    uint64_t at;

    if (!vector || tls->number == 0 || tls->number > scanread_word(vector - 16))
        return 0;
    at = scanread_word(vector + 16 * tls->number);
    return at == UINT64_MAX ? 0 : at;
}

/* Whether this thread's is found where the loader says. */
static bool scanroots_knows_tls(const struct scan *scan)
{
    uint64_t data = scanread_own_data();
    uint32_t found = 0;

    for (uint32_t i = 0; i < scan->read.tlses; i++) {
        uint64_t at = scanroots_tls_at(&scan->read.tls[i], data);

        if (at && at != scan->read.tls[i].here)
            return false;
        found += at != 0;
    }
    return found > 0;
}

static void scanroots_tls(struct scan *scan, uint64_t data, uint32_t thread)
{
    for (uint32_t i = 0; data && i < scan->read.tlses; i++) {
        const struct scanread_tls *tls = &scan->read.tls[i];
        struct scan_from from = {
                .root_of_word = {.kind = SCAN_TLS, .module = tls->module, .thread = thread}};
        uint64_t at = tls->kind == INTERN_MODULE_PROGRAM ? scanroots_tls_at(tls, data) : 0;

        if (at && at % sizeof(uint64_t) == 0)
            scanwords_memory(scan, &from, at, at + tls->bytes);
    }
}

/* From the end of the frame before to that of this one; of no known function: all is one root. */
static void scanroots_frame(
        struct scan *scan, uint32_t thread, const struct scanstack_frame *frame, uint64_t at)
{
    const struct scanstack *stack = &scan->stack;
    uint32_t number = frame->ip ? modules_at(frame->ip - 1) : 0;
    const struct intern_module *module = number ? intern_module_at(number) : NULL;
    struct scan_from from = {.root_of_word = {.kind = SCAN_STACK, .thread = thread}};

    if (module) {
        from.root_of_word.module = number;
        from.root_of_word.offset = frame->ip - 1 - module->bias;
    } else {
        from.root = scanwords_root_of(scan, &from, 0);
    }
    for (; at < frame->end && at < stack->high; at += sizeof(uint64_t))
        scanwords_word(scan, &from, (frame->end - at) / sizeof(uint64_t),
                stack->word[(at - stack->low) / sizeof(uint64_t)]);
}

static void scanroots_frames(struct scan *scan, uint32_t thread)
{
    const struct scanstack *stack = &scan->stack;

    for (uint32_t i = 0; i < stack->frames; i++)
        if (stack->frame[i].is_wanted)
            scanroots_frame(
                    scan, thread, &stack->frame[i], i ? stack->frame[i - 1].end : stack->low);
}

void scanroots_threads(struct scan *scan, bool is_ours)
{
    uint32_t own = (uint32_t)syscall(SYS_gettid);
    uint32_t count = scanstack_threads(scan->thread, SCANSTACK_THREADS);
    bool has_tls = scanroots_knows_tls(scan);

    if (!has_tls)
        scan->flags |= FORMAT_WALK_TLS;
    if (count == SCANSTACK_THREADS)
        scan->flags |= FORMAT_WALK_THREADS;
    for (uint32_t i = 0; i < count && !scanwords_is_over(scan); i++) {
        struct scanstack *stack = &scan->stack;
        enum scanstack_result result = is_ours && scan->thread[i] == own
                ? SCANSTACK_OTHERS
                : scanstack_copy(&scan->read, scan->thread[i], stack);
        uint32_t name;

        if (result == SCANSTACK_RUNS)
            scan->flags |= FORMAT_WALK_THREADS;
        if (result != SCANSTACK_COPIED)
            continue;
        name = stack->is_first ? 0 : intern_string(stack->name, strlen(stack->name));
        scanroots_frames(scan, name);
        if (has_tls)
            scanroots_tls(scan, stack->data, name);
    }
}
