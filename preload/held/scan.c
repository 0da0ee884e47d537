/* SPDX-License-Identifier: MIT */
#include "preload/held/scan.h"

#include "alloc/base/meta.h"
#include "alloc/base/table.h"
#include "preload/base/guard.h"
#include "preload/driver/session.h"
#include "preload/held/scanread.h"
#include "preload/held/scanstack.h"
#include "tracker/capture/capture.h"
#include "tracker/stacks/modules.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SCAN_BLOCKS_MAX (1u << 18)  /* live blocks that a scan takes */
#define SCAN_CHUNK_MAX  (16u << 20) /* bytes of a block of malloc */
#define SCAN_PIECE      (64u << 10) /* bytes that are read at once */
#define SCAN_WAIT_NS    1000000L    /* between two looks whether another scan has ended */
#define SCAN_INNER_MAX  (UINT64_C(1) << 30)
#define SCAN_TRIES      2  /* addresses that may be looked at, for each block of malloc */
#define SCAN_UP_MAX     64 /* blocks of malloc between a root and a word, for further roots */

enum {
    SCAN_ROOTS_TOLD = 12, /* of a row, */
    SCAN_NAME = 96,       /* each as long */
    SCAN_FURTHER = 6,     /* of a block of malloc: a std::deque has four words with one address */
    SCAN_HEAP = 2,        /* bits of an id in a set: through malloc's memory, */
    SCAN_INSIDE = 1,      /* and not at the beginning */
};

enum scan_kind {
    SCAN_GLOBAL,
    SCAN_TLS,
    SCAN_STACK,
};

struct scan_root {
    uint64_t offset; /* ELF address; of thread-local memory: in it */
    uint32_t module; /* 0: of no known function */
    uint32_t thread; /* string number of its name, 0: the first one */
    uint32_t words;  /* of a stack: from the end of the frame, 0 = too far */
    enum scan_kind kind;
};

/* A block of malloc. */
struct scan_chunk {
    uint64_t address, size;
    uint32_t root, parent;          /* what it was reached from; parent 0: the root itself */
    uint32_t further[SCAN_FURTHER]; /* other roots, 0: none */
    bool has_more;                  /* and more of them */
};

struct scan_known { /* of `known` */
    uint64_t address;
    uint64_t chunk; /* 0: there is none */
};

struct scan_hit {
    uint32_t block;
    uint32_t root;  /* or, if it is 0, */
    uint32_t chunk; /* the block of malloc that has the word */
    bool is_inside;
};

/* Where words are taken from. root 0: each word is a root of its own; chunk not 0: they are its. */
struct scan_from {
    struct scan_root root_of_word; /* its offset is added to */
    uint32_t root, chunk;
};

/* The roots of a block: number, SCAN_HEAP and SCAN_INSIDE. */
struct scan_set {
    uint32_t id[SCAN_ROOTS_TOLD];
    uint8_t count;
    bool has_more;
};

struct scan_row {
    uint64_t key; /* of a table */
    uint64_t bytes, count;
    uint64_t block; /* one of them */
};

struct scan {
    struct scanread read;
    struct scanstack stack;
    uint64_t piece[SCAN_PIECE / sizeof(uint64_t)];
    uint32_t thread[SCANSTACK_THREADS];
    struct capture_block *block; /* by address */
    struct scan_set *set;
    uint32_t blocks, room;
    uint64_t low, high; /* of all blocks */
    struct scan_root *root;
    struct scan_chunk *chunk; /* from 1, as they were reached */
    struct scan_hit *hit;
    struct table known, rows;
    struct table inner; /* pages that are inside of a block of malloc: none begins there */
    uint32_t roots, chunks, hits, most;
    uint32_t drivers; /* blocks of malloc up to this one are the driver's */
    bool is_driver;   /* these are looked for */
    uint64_t end_ns;
    uint32_t flags; /* FORMAT_WALK_* */
};

static uint64_t longest_ns; /* fixed by scan_start */
static uint32_t most_chunks;
static atomic_flag is_busy = ATOMIC_FLAG_INIT;

static uint64_t scan_clock(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool scan_is_over(struct scan *scan)
{
    if (scan_clock() >= scan->end_ns)
        scan->flags |= FORMAT_WALK_CUT;
    return (scan->flags & FORMAT_WALK_CUT) != 0;
}

/* ---- blocks --------------------------------------------------------------------------------- */

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

/* The number of the block that contains an address, UINT32_MAX: none. */
static uint32_t scan_block_of(const struct scan *scan, uint64_t address)
{
    uint32_t low = 0;
    uint32_t high = scan->blocks;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (scan->block[middle].addr + scan->block[middle].size <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < scan->blocks && scan->block[low].addr <= address ? low : UINT32_MAX;
}

/* ---- words ---------------------------------------------------------------------------------- */

/* The number of the root of a word at `at` of its segment or frame; 0: no room. */
static uint32_t scan_root_of(struct scan *scan, const struct scan_from *from, uint64_t at)
{
    if (from->chunk)
        return scan->chunk[from->chunk].root;
    if (from->root)
        return from->root;
    if (scan->roots >= scan->most) {
        scan->flags |= FORMAT_WALK_CUT;
        return 0;
    }
    scan->root[++scan->roots] = from->root_of_word;
    if (from->root_of_word.kind == SCAN_STACK)
        scan->root[scan->roots].words = at <= FORMAT_FRAME_WORDS_MAX ? (uint32_t)at : 0;
    else
        scan->root[scan->roots].offset += at;
    return scan->roots;
}

static void scan_reach_again(
        struct scan *scan, struct scan_chunk *chunk, const struct scan_from *from, uint64_t at)
{
    uint32_t root = from->chunk ? scan->chunk[from->chunk].root : from->root;

    if (chunk->has_more || root == chunk->root)
        return;
    for (int i = 0; i < SCAN_FURTHER; i++) {
        if (root && chunk->further[i] == root)
            return;
        if (chunk->further[i] == 0) {
            chunk->further[i] = scan_root_of(scan, from, at);
            return;
        }
    }
    chunk->has_more = true;
}

/* Memory that was never written has what earlier blocks left there, heads too: such overlap others. */
static void scan_mark_inner(struct scan *scan, uint64_t address, uint64_t size)
{
    uint64_t end = address + (size < SCAN_INNER_MAX ? size : SCAN_INNER_MAX);

    for (uint64_t page = (address + SCANREAD_PAGE - 1) / SCANREAD_PAGE;
            (page + 1) * SCANREAD_PAGE <= end; page++)
        (void)table_add(&scan->inner, page);
}

/* Keeps the block of malloc that a word is the address of. */
static void scan_follow(struct scan *scan, const struct scan_from *from, uint64_t at, uint64_t word)
{
    uint64_t address, size;
    struct scan_known *known;
    uint32_t root;

    if (word % 8 != 0 || !scanread_map_of(&scan->read, word))
        return;
    known = table_find(&scan->known, word & ~UINT64_C(15));
    if (known) {
        if (known->chunk > scan->drivers)
            scan_reach_again(scan, &scan->chunk[known->chunk], from, at);
        return;
    }
    if (table_find(&scan->inner, word / SCANREAD_PAGE))
        return;
    root = scan->chunks < scan->most && scan->known.count < SCAN_TRIES * (uint64_t)scan->most
            ? scan_root_of(scan, from, at)
            : 0;
    known = root ? table_add(&scan->known, word & ~UINT64_C(15)) : NULL;
    if (!known) {
        scan->flags |= FORMAT_WALK_CUT;
        return;
    }
    if (!scanread_chunk(&scan->read, word, &address, &size))
        return;
    known->chunk = ++scan->chunks;
    scan->chunk[scan->chunks] = (struct scan_chunk){
            .address = address, .size = size, .root = root, .parent = from->chunk};
    scan_mark_inner(scan, address, size);
}

static void scan_word(struct scan *scan, const struct scan_from *from, uint64_t at, uint64_t word)
{
    uint32_t block =
            word >= scan->low && word < scan->high ? scan_block_of(scan, word) : UINT32_MAX;

    if (block == UINT32_MAX) {
        scan_follow(scan, from, at, word);
        return;
    }
    if (scan->is_driver)
        return;
    if (scan->hits >= scan->most) {
        scan->flags |= FORMAT_WALK_CUT;
        return;
    }
    scan->hit[scan->hits++] = (struct scan_hit){.block = block,
            .root = from->chunk ? 0 : scan_root_of(scan, from, at),
            .chunk = from->chunk,
            .is_inside = word != scan->block[block].addr};
}

/* The words of [low, high) of a few pages, of which the one may have other blocks. */
static void scan_pages(struct scan *scan, const struct scan_from *from, uint64_t low, uint64_t high)
{
    for (uint64_t at = low; at + sizeof(uint64_t) <= high; at += sizeof(uint64_t)) {
        const uint64_t *page = scanread_page(&scan->read, at / SCANREAD_PAGE);
        uint64_t word = page ? page[at % SCANREAD_PAGE / sizeof *page] : 0;

        if (word > UINT16_MAX)
            scan_word(scan, from, at - low, word);
    }
}

/* The words of [low, high), as far as they can be read. */
static void scan_memory(
        struct scan *scan, const struct scan_from *from, uint64_t low, uint64_t high)
{
    if (high - low <= SCANREAD_PAGE) {
        scan_pages(scan, from, low, high);
        return;
    }
    for (uint64_t at = low; at < high && !scan_is_over(scan); at += SCAN_PIECE) {
        size_t got = scanread_some(scan->piece, at, high - at < SCAN_PIECE ? high - at : SCAN_PIECE)
                / sizeof(uint64_t);

        for (size_t i = 0; i < got; i++)
            if (scan->piece[i] > UINT16_MAX)
                scan_word(scan, from, at - low + i * sizeof(uint64_t), scan->piece[i]);
    }
}

/* ---- roots ---------------------------------------------------------------------------------- */

static void scan_globals(struct scan *scan, enum intern_module_kind kind)
{
    for (uint32_t i = 0; i < scan->read.objects; i++) {
        const struct scanread_object *object = &scan->read.object[i];
        uint64_t low = (object->low + 7) & ~UINT64_C(7);
        struct scan_from from = {.root_of_word = {.kind = SCAN_GLOBAL,
                                         .module = object->module,
                                         .offset = low - object->bias}};

        if (!object->is_code && object->kind == kind)
            scan_memory(scan, &from, low, object->high);
    }
}

/* The thread-local memory of a file, by the thread's own data: 0 = none, or not used yet. */
static uint64_t scan_tls_at(const struct scanread_tls *tls, uint64_t data)
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
static bool scan_knows_tls(const struct scan *scan)
{
    uint64_t data = scanread_own_data();
    uint32_t found = 0;

    for (uint32_t i = 0; i < scan->read.tlses; i++) {
        uint64_t at = scan_tls_at(&scan->read.tls[i], data);

        if (at && at != scan->read.tls[i].here)
            return false;
        found += at != 0;
    }
    return found > 0;
}

static void scan_tls(struct scan *scan, uint64_t data, uint32_t thread)
{
    for (uint32_t i = 0; data && i < scan->read.tlses; i++) {
        const struct scanread_tls *tls = &scan->read.tls[i];
        struct scan_from from = {
                .root_of_word = {.kind = SCAN_TLS, .module = tls->module, .thread = thread}};
        uint64_t at = tls->kind == INTERN_MODULE_PROGRAM ? scan_tls_at(tls, data) : 0;

        if (at && at % sizeof(uint64_t) == 0)
            scan_memory(scan, &from, at, at + tls->bytes);
    }
}

/* From the end of the frame before to that of this one; of no known function: all is one root. */
static void scan_frame(
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
        from.root = scan_root_of(scan, &from, 0);
    }
    for (; at < frame->end && at < stack->high; at += sizeof(uint64_t))
        scan_word(scan, &from, (frame->end - at) / sizeof(uint64_t),
                stack->word[(at - stack->low) / sizeof(uint64_t)]);
}

static void scan_frames(struct scan *scan, uint32_t thread)
{
    const struct scanstack *stack = &scan->stack;

    for (uint32_t i = 0; i < stack->frames; i++)
        if (stack->frame[i].is_wanted)
            scan_frame(scan, thread, &stack->frame[i], i ? stack->frame[i - 1].end : stack->low);
}

/* `is_ours`: this thread is kedge's. */
static void scan_threads(struct scan *scan, bool is_ours)
{
    uint32_t own = (uint32_t)syscall(SYS_gettid);
    uint32_t count = scanstack_threads(scan->thread, SCANSTACK_THREADS);
    bool has_tls = scan_knows_tls(scan);

    if (!has_tls)
        scan->flags |= FORMAT_WALK_TLS;
    if (count == SCANSTACK_THREADS)
        scan->flags |= FORMAT_WALK_THREADS;
    for (uint32_t i = 0; i < count && !scan_is_over(scan); i++) {
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
        scan_frames(scan, name);
        if (has_tls)
            scan_tls(scan, stack->data, name);
    }
}

static void scan_heap(struct scan *scan)
{
    for (uint32_t i = scan->drivers + 1; i <= scan->chunks && !scan_is_over(scan); i++) {
        const struct scan_chunk *chunk = &scan->chunk[i];
        struct scan_from from = {.chunk = i};

        if (chunk->size > SCAN_CHUNK_MAX)
            scan->flags |= FORMAT_WALK_PARTS;
        scan_memory(scan, &from, chunk->address,
                chunk->address + (chunk->size < SCAN_CHUNK_MAX ? chunk->size : SCAN_CHUNK_MAX));
    }
}

/* A program's handle of a stream is an address in the driver's memory, where all addresses are. */
static void scan_driver(struct scan *scan)
{
    scan->is_driver = true;
    scan_globals(scan, INTERN_MODULE_CUDA);
    scan_heap(scan);
    scan->is_driver = false;
    scan->drivers = scan->chunks;
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* Ordered, so that equal sets are equal bytes. */
static void scan_add_id(struct scan_set *set, uint32_t id)
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

static void scan_collect(struct scan *scan)
{
    for (uint32_t i = 0; i < scan->hits; i++) {
        const struct scan_hit *hit = &scan->hit[i];
        struct scan_set *set = &scan->set[hit->block];
        uint32_t bits = hit->is_inside ? SCAN_INSIDE : 0;
        uint32_t at = hit->chunk;

        if (hit->root)
            scan_add_id(set, hit->root << 2 | bits);
        for (int up = 0; at && up < SCAN_UP_MAX; up++, at = scan->chunk[at].parent) {
            const struct scan_chunk *chunk = &scan->chunk[at];

            scan_add_id(set, chunk->root << 2 | SCAN_HEAP | bits);
            for (int k = 0; k < SCAN_FURTHER && chunk->further[k]; k++)
                scan_add_id(set, chunk->further[k] << 2 | SCAN_HEAP | bits);
            set->has_more |= chunk->has_more;
        }
    }
}

static void scan_make_rows(struct scan *scan)
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

/* A stack of one frame that stands for a root, 0: it has no name. */
static uint32_t scan_stack_of(const struct scan_root *root)
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
static void scan_tell_root(const struct scan_root *root, char *to, size_t room, uint32_t *io_stacks)
{
    static const char *const of[] = {
            [SCAN_GLOBAL] = "", [SCAN_TLS] = " of ", [SCAN_STACK] = " on the stack of "};
    uint32_t stack = scan_stack_of(root);
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

static void scan_record_row(const struct scan *scan, uint32_t walk, const struct scan_row *row)
{
    const struct scan_set *set = &scan->set[row->block];
    struct capture_block sum = scan->block[row->block];
    char text[SCAN_ROOTS_TOLD * SCAN_NAME + 128] = "memory";
    size_t length = strlen(text);
    uint32_t stacks = 0;

    for (uint32_t i = 0; i < set->count; i++) {
        char root[SCAN_NAME];

        (void)scan_tell_root(&scan->root[set->id[i] >> 2], root, sizeof root, &stacks);
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
static void scan_record(struct scan *scan, uint32_t walk)
{
    for (uint32_t i = 0; i < FORMAT_HELD_MAX; i++) {
        struct scan_row *most = NULL;

        for (struct scan_row *row = table_next(&scan->rows, NULL); row;
                row = table_next(&scan->rows, row))
            if (row->count && (!most || row->bytes > most->bytes))
                most = row;
        if (!most)
            return;
        scan_record_row(scan, walk, most);
        most->count = 0;
    }
}

/* ---- the scan ------------------------------------------------------------------------------- */

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
    table_clear(&scan->rows);
    meta_unmap(scan, sizeof *scan);
}

static uint32_t scan_run(struct scan *scan, struct format_def_walk *walk)
{
    uint64_t begin = scan_clock();
    uint32_t number;

    scan->end_ns = begin + longest_ns;
    scan->most = most_chunks;
    scan->flags = FORMAT_WALK_SCAN;
    scan->known.bytes = sizeof(struct scan_known);
    scan->inner.bytes = sizeof(uint64_t);
    scan->rows.bytes = sizeof(struct scan_row);
    if (!scan_take_blocks(scan, walk->device, walk))
        return 0;
    scanread_begin(&scan->read);
    if (!scan->read.has_malloc)
        scan->flags |= FORMAT_WALK_HEAP;
    if (scan->read.is_cut)
        scan->flags |= FORMAT_WALK_PARTS;
    scan_driver(scan);
    scan_globals(scan, INTERN_MODULE_PROGRAM);
    scan_threads(scan, walk->why == FORMAT_WALK_ASKED);
    scan_heap(scan);
    scan_collect(scan);
    scan_make_rows(scan);
    walk->flags = scan->flags;
    walk->objects = scan->chunks - scan->drivers;
    number = capture_walk_begin();
    scan_record(scan, number);
    walk->spent_ns = scan_clock() - begin;
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
