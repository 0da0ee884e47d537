/* SPDX-License-Identifier: MIT */
#include "preload/scan/scanrows.h"

#include "preload/driver/session.h"

#include <stdio.h>
#include <string.h>

#define SCAN_UP_MAX 64 /* blocks of malloc between a root and a word, for further roots */

enum {
    SCAN_NAME = 96 /* bytes of a root's name */
};

struct scan_row {
    uint64_t key; /* of a table */
    uint64_t bytes, count;
    uint64_t block; /* one of them */
};

/* Ordered, so that equal sets are equal bytes. */
static void scanrows_add_id(struct scan_set *set, uint32_t id)
{
    uint32_t at;

    for (uint32_t i = 0; i < set->count; i++)
        if ((set->id[i] | SCAN_INSIDE) == (id | SCAN_INSIDE)) {
            set->id[i] &= id; /* a beginning counts for more */
            return;
        }
    if (set->count == SCAN_ROOTS_TOLD) {
        set->has_more = true;
        return;
    }
    for (at = set->count++; at > 0 && set->id[at - 1] > id; at--)
        set->id[at] = set->id[at - 1];
    set->id[at] = id;
}

static void scanrows_collect(struct scan *scan)
{
    for (uint32_t i = 0; i < scan->hits; i++) {
        const struct scan_hit *hit = &scan->hit[i];
        struct scan_set *set = &scan->set[hit->block];
        uint32_t bits = hit->is_inside ? SCAN_INSIDE : 0;
        uint32_t at = hit->chunk;

        if (hit->root)
            scanrows_add_id(set, hit->root << 2 | bits);
        for (int up = 0; at && up < SCAN_UP_MAX; up++, at = scan->chunk[at].parent) {
            const struct scan_chunk *chunk = &scan->chunk[at];

            scanrows_add_id(set, chunk->root << 2 | SCAN_HEAP | bits);
            for (int k = 0; k < SCAN_FURTHER && chunk->further[k]; k++)
                scanrows_add_id(set, chunk->further[k] << 2 | SCAN_HEAP | bits);
            set->has_more |= chunk->has_more;
        }
    }
}

static void scanrows_join(struct scan *scan)
{
    for (uint32_t i = 0; i < scan->blocks; i++) {
        const struct scan_set *set = &scan->set[i];
        const struct capture_block *block = &scan->block[i];
        uint64_t key = block->stack * UINT64_C(0x9e3779b97f4a7c15) ^ block->pystack << 32
                ^ set->count ^ (set->has_more ? 64 : 0);
        struct scan_row *row;

        for (uint32_t k = 0; k < set->count; k++)
            key = (key ^ key >> 29 ^ set->id[k]) * UINT64_C(0xbf58476d1ce4e5b9);
        key |= key == 0;
        row = table_find(&scan->rows, key);
        if (!row)
            row = table_add(&scan->rows, key);
        if (!row)
            return; /* no memory: these have no row */
        row->bytes += block->size;
        row->count++;
        row->block = i;
    }
}

void scanrows_make(struct scan *scan)
{
    scan->rows.bytes = sizeof(struct scan_row);
    scanrows_collect(scan);
    scanrows_join(scan);
}

void scanrows_clear(struct scan *scan)
{
    table_clear(&scan->rows);
}

/* A stack of one frame that stands for a root, 0: it has no name. */
static uint32_t scanrows_stack_of(const struct scan_root *root)
{
    struct intern_frame frame = {root->module, root->offset};

    if (root->module == 0 || root->offset >> FORMAT_FRAME_WORD_SHIFT)
        return 0;
    if (root->kind == SCAN_GLOBAL)
        frame.offset |= FORMAT_FRAME_DATA;
    else if (root->kind == SCAN_TLS)
        frame.offset |= FORMAT_FRAME_TLS;
    else
        frame.offset |= FORMAT_FRAME_STACK | (uint64_t)root->words << FORMAT_FRAME_WORD_SHIFT;
    return intern_stack(&frame, 1);
}

/* The name of a root, with the number of its stack. */
static void scanrows_tell_root(
        const struct scan_root *root, char *to, size_t room, uint32_t *io_stacks)
{
    static const char *const of[] = {
            [SCAN_GLOBAL] = "", [SCAN_TLS] = " of ", [SCAN_STACK] = " on the stack of "};
    uint32_t stack = scanrows_stack_of(root);
    char thread[SCANSTACK_NAME + 16] = "";
    char name[24] = "a word";

    if (root->kind != SCAN_GLOBAL)
        (void)snprintf(thread, sizeof thread, root->thread ? "thread '%s'" : "the main thread",
                intern_text(root->thread));
    if (stack)
        (void)snprintf(name, sizeof name, "#%u", stack);
    if (stack > *io_stacks)
        *io_stacks = stack;
    (void)snprintf(to, room, "%s%s%s", name, of[root->kind], thread);
}

static void scanrows_record_row(const struct scan *scan, uint32_t walk, const struct scan_row *row)
{
    const struct scan_set *set = &scan->set[row->block];
    struct capture_block sum = scan->block[row->block];
    char text[SCAN_ROOTS_TOLD * SCAN_NAME + 128] = "memory";
    size_t length = strlen(text);
    uint32_t stacks = 0;

    for (uint32_t i = 0; i < set->count; i++) {
        char root[SCAN_NAME];

        (void)scanrows_tell_root(&scan->root[set->id[i] >> 2], root, sizeof root, &stacks);
        length += (size_t)snprintf(text + length, sizeof text - length, "\n%s%s%s",
                set->id[i] & SCAN_HEAP ? "malloc'ed memory of " : "", root,
                set->id[i] & SCAN_INSIDE ? ", not its beginning" : "");
    }
    if (set->has_more)
        length += (size_t)snprintf(text + length, sizeof text - length, "\nothers");
    if (set->count == 0)
        length += (size_t)snprintf(text + length, sizeof text - length,
                "\nno pointer found in globals, stacks and the heap that they reach");
    sum.addr = stacks;
    sum.size = row->bytes;
    session_report(capture_held(walk, &sum, row->count, text, length));
}

/* Most bytes first: of many rows not all are on record. */
void scanrows_record(struct scan *scan, uint32_t walk)
{
    for (uint32_t i = 0; i < FORMAT_HELD_MAX; i++) {
        struct scan_row *most = NULL;

        for (struct scan_row *row = table_next(&scan->rows, NULL); row;
                row = table_next(&scan->rows, row))
            if (row->count && (!most || row->bytes > most->bytes))
                most = row;
        if (!most)
            return;
        scanrows_record_row(scan, walk, most);
        most->count = 0;
    }
}
