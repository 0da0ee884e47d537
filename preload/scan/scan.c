/* SPDX-License-Identifier: MIT */
#include "preload/scan/scan.h"

#include "alloc/base/meta.h"
#include "preload/base/guard.h"
#include "preload/driver/session.h"
#include "preload/scan/scanroots.h"
#include "preload/scan/scanrows.h"
#include "preload/scan/scanwords.h"

#include <errno.h>
#include <stdatomic.h>
#include <time.h>

#define SCAN_BLOCKS_MAX (1u << 18) /* live blocks that a scan takes */
#define SCAN_WAIT_NS    1000000L   /* between two looks whether another scan has ended */

static uint64_t longest_ns; /* fixed by scan_start */
static uint32_t most_chunks;
static atomic_flag is_busy = ATOMIC_FLAG_INIT;

/* A heap from `at` on, the highest address first. */
static void scan_sift(struct capture_block *block, uint32_t at, uint32_t count)
{
    struct capture_block moved = block[at];

    for (uint32_t down = 2 * at + 1; down < count; down = 2 * at + 1) {
        if (down + 1 < count && block[down + 1].addr > block[down].addr)
            down++;
        if (block[down].addr <= moved.addr)
            break;
        block[at] = block[down];
        at = down;
    }
    block[at] = moved;
}

/* Not qsort, which may call malloc. */
static void scan_sort(struct capture_block *block, uint32_t count)
{
    for (uint32_t i = count / 2; i-- > 0;)
        scan_sift(block, i, count);
    for (uint32_t i = count; i-- > 1;) {
        struct capture_block last = block[i];

        block[i] = block[0];
        block[0] = last;
        scan_sift(block, 0, i);
    }
}

static bool scan_take_blocks(struct scan *scan, int device, struct format_def_walk *walk)
{
    uint32_t room = capture_live(device, NULL, 0, &walk->bytes);

    scan->room = room < SCAN_BLOCKS_MAX ? room + 1 : SCAN_BLOCKS_MAX;
    scan->block = meta_map(scan->room * sizeof *scan->block);
    scan->set = meta_map(scan->room * sizeof *scan->set);
    scan->root = meta_map((scan->most + 1u) * sizeof *scan->root);
    scan->chunk = meta_map((scan->most + 1u) * sizeof *scan->chunk);
    scan->hit = meta_map(scan->most * sizeof *scan->hit);
    if (!scan->block || !scan->set || !scan->root || !scan->chunk || !scan->hit)
        return false;
    walk->count = capture_live(device, scan->block, scan->room, &walk->bytes);
    scan->blocks = walk->count < scan->room ? (uint32_t)walk->count : scan->room;
    if (walk->count > scan->room)
        scan->flags |= FORMAT_WALK_BLOCKS;
    scan_sort(scan->block, scan->blocks);
    if (scan->blocks) {
        const struct capture_block *last = &scan->block[scan->blocks - 1];

        scan->low = scan->block[0].addr;
        scan->high = last->addr + last->size;
    }
    return true;
}

static void scan_put(struct scan *scan)
{
    meta_unmap(scan->block, scan->room * sizeof *scan->block);
    meta_unmap(scan->set, scan->room * sizeof *scan->set);
    meta_unmap(scan->root, (scan->most + 1u) * sizeof *scan->root);
    meta_unmap(scan->chunk, (scan->most + 1u) * sizeof *scan->chunk);
    meta_unmap(scan->hit, scan->most * sizeof *scan->hit);
    table_clear(&scan->known);
    table_clear(&scan->inner);
    scanrows_clear(scan);
    meta_unmap(scan, sizeof *scan);
}

static uint32_t scan_run(struct scan *scan, struct format_def_walk *walk)
{
    uint64_t begin = scanwords_clock();
    uint32_t number;

    scan->end_ns = begin + longest_ns;
    scan->most = most_chunks;
    scan->flags = FORMAT_WALK_SCAN;
    scan->known.bytes = sizeof(struct scan_known);
    scan->inner.bytes = sizeof(uint64_t);
    if (!scan_take_blocks(scan, walk->device, walk))
        return 0;
    scanread_begin(&scan->read);
    if (!scan->read.has_malloc)
        scan->flags |= FORMAT_WALK_HEAP;
    if (scan->read.is_cut)
        scan->flags |= FORMAT_WALK_PARTS;
    scanroots_driver(scan);
    scanroots_globals(scan);
    scanroots_threads(scan, walk->why == FORMAT_WALK_ASKED);
    scanwords_heap(scan);
    scanrows_make(scan);
    walk->flags = scan->flags;
    walk->objects = scan->chunks - scan->drivers;
    number = capture_walk_begin();
    scanrows_record(scan, number);
    walk->spent_ns = scanwords_clock() - begin;
    session_report(capture_walk(number, walk));
    return number;
}

void scan_start(double seconds, uint64_t most)
{
    longest_ns = (uint64_t)(seconds * 1e9);
    most_chunks = most < UINT32_MAX / 8 ? (uint32_t)most : UINT32_MAX / 8;
    scanstack_start();
}

uint32_t scan_walk(enum format_walk_why why, int device)
{
    struct format_def_walk walk = {.why = (uint32_t)why, .device = device};
    struct scan *scan = NULL;
    uint32_t number = 0;
    int saved = errno;

    while (atomic_flag_test_and_set_explicit(&is_busy, memory_order_acquire)) {
        if (why != FORMAT_WALK_ASKED)
            return 0;
        (void)nanosleep(&(struct timespec){0, SCAN_WAIT_NS}, NULL);
    }
    guard_push();
    if (!scanread_works())
        (void)capture_note(2, "memory was not scanned: the system refuses process_vm_readv");
    else if ((scan = meta_map(sizeof *scan)) != NULL) {
        number = scan_run(scan, &walk);
        scan_put(scan);
    }
    guard_pop();
    atomic_flag_clear_explicit(&is_busy, memory_order_release);
    errno = saved;
    return number;
}
