/* SPDX-License-Identifier: MIT */
#include "tracker/capture/capdefs.h"

#include "tracker/format/formatsum.h"
#include "tracker/python/pycode.h"
#include "tracker/stacks/intern.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#define FIRST_EXTENT (256u << 10)

/* The interned kinds, in the order in which they refer to each other. */
enum kind {
    STRINGS,
    MODULES,
    NODES,
    CODES,
    PYNODES,
    KINDS,
};

static struct cappool pool;
static _Atomic(struct format_header *)
        header_at; /* for capdefs_tell, which may run in a signal handler */
static struct lock lock = LOCK_INIT(LOCK_RANK_CAPTURE);

/* guarded by lock: */
static char *block;
static uint32_t block_used;
static uint32_t written_locked[KINDS];

/* copies of the above for the fast check; stored with release after the records are in the file */
_Atomic uint32_t capdefs_strings, capdefs_stacks, capdefs_pystacks;
static _Atomic uint64_t missing; /* interned, but without space in the file */
static _Atomic uint64_t dropped; /* other records without space in the file */

void capdefs_init(struct capfile *file)
{
    cappool_init(&pool, file, FORMAT_EXTENT_DEFS, FORMAT_DEFS_BLOCK, FIRST_EXTENT);
    lock_init(&lock, LOCK_RANK_CAPTURE);
    block = NULL;
    block_used = 0;
    memset(written_locked, 0, sizeof written_locked);
    atomic_store(&capdefs_strings, 0);
    atomic_store(&capdefs_stacks, 0);
    atomic_store(&capdefs_pystacks, 0);
    atomic_store(&missing, 0);
    atomic_store(&header_at, file->header);
    capdefs_tell();
}

/* Counts each kind, and returns how many a bound refused. */
static uint64_t count_all(uint32_t ret_counts[KINDS])
{
    struct pycode_counts python;
    struct intern_counts counts;

    pycode_counts(&python); /* first: the strings that they name are older */
    intern_counts(&counts);
    ret_counts[STRINGS] = counts.strings;
    ret_counts[MODULES] = counts.modules;
    ret_counts[NODES] = counts.nodes;
    ret_counts[CODES] = python.codes;
    ret_counts[PYNODES] = python.nodes;
    return counts.refused + python.refused;
}

void capdefs_tell(void)
{
    struct format_header *header = atomic_load_explicit(&header_at, memory_order_acquire);
    uint32_t counts[KINDS];

    if (!header)
        return;
    __atomic_store_n(&header->lost.defs_dropped,
            atomic_load_explicit(&missing, memory_order_relaxed)
                    + atomic_load_explicit(&dropped, memory_order_relaxed) + count_all(counts),
            __ATOMIC_RELAXED);
}

void capdefs_lost(void)
{
    atomic_fetch_add_explicit(&dropped, 1, memory_order_relaxed);
    capdefs_tell();
}

void capdefs_fork_child(void)
{
    atomic_store(&header_at, NULL);
}

/* Bytes of a record in the file. */
static uint32_t record_bytes(size_t bytes, size_t length)
{
    return (uint32_t)((bytes + length + 7) / 8 * 8);
}

/* false = the block is full. */
static bool append_locked(struct format_def *def, size_t bytes, const char *text, size_t length)
{
    uint32_t total = record_bytes(bytes, length);
    struct format_def *at;

    if (!block || block_used + total > FORMAT_DEFS_BLOCK)
        return false;
    def->bytes = total;
    def->length = (uint32_t)length;
    at = (struct format_def *)(void *)(block + block_used);
    memcpy((char *)at + sizeof at->kind, (const char *)def + sizeof def->kind,
            bytes - sizeof def->kind);
    if (length > 0)
        memcpy((char *)at + bytes, text, length);
    /* release: a record with a nonzero kind is complete */
    __atomic_store_n(&at->kind, formatsum_def(def->kind, at), __ATOMIC_RELEASE);
    block_used += total;
    return true;
}

static bool put_string_locked(uint32_t number)
{
    const char *text = intern_text(number);
    struct format_def def = {.kind = FORMAT_DEF_STRING, .id = number};

    return append_locked(&def, sizeof def, text, strlen(text));
}

static bool put_module_locked(uint32_t number)
{
    const struct intern_module *module = intern_module_at(number);
    struct format_def_module def = {
            .def = {.kind = FORMAT_DEF_MODULE, .id = number},
            .base = module->base,
            .end = module->end,
            .bias = module->bias,
            .hash = module->hash,
            .path = module->path,
            .build_id_bytes = module->build_id_bytes,
            .is_main = module->is_main,
            .module_kind = (uint8_t)module->kind,
    };

    memcpy(def.build_id, module->build_id, module->build_id_bytes);
    return append_locked(&def.def, sizeof def, NULL, 0);
}

static bool capdefs_put_node_locked(uint32_t number)
{
    struct format_def_node def = {.def = {.kind = FORMAT_DEF_NODE, .id = number}};
    struct intern_frame frame = {0};

    if (!intern_node_at(number, &def.parent, &frame))
        return true;
    def.module = frame.module;
    def.offset = frame.offset;
    return append_locked(&def.def, sizeof def, NULL, 0);
}

static bool put_code_locked(uint32_t number)
{
    struct format_def_pycode def = {.def = {.kind = FORMAT_DEF_PYCODE, .id = number}};
    struct pycode code;
    const char *lines;

    if (!pycode_at(number, &code, &lines))
        return true;
    def.name = code.name;
    def.qualname = code.qualname;
    def.file = code.file;
    def.first_line = code.first_line;
    def.table = code.table;
    def.cut = code.is_cut;
    return append_locked(&def.def, sizeof def, lines, code.lines_bytes);
}

static bool put_pynode_locked(uint32_t number)
{
    struct format_def_pynode def = {.def = {.kind = FORMAT_DEF_PYNODE, .id = number}};
    struct pycode_node node;

    if (!pycode_node_at(number, &node))
        return true;
    def.parent = node.parent;
    def.code = node.code;
    def.lasti = node.lasti;
    def.entry = node.is_entry;
    return append_locked(&def.def, sizeof def, NULL, 0);
}

/* Writes everything interned so far. false = the block is full. */
static bool flush_locked(const uint32_t counts[KINDS])
{
    static bool (*const put_locked[KINDS])(uint32_t number) = {put_string_locked, put_module_locked,
            capdefs_put_node_locked, put_code_locked, put_pynode_locked};
    static _Atomic uint32_t *const shown[KINDS] = {
            [STRINGS] = &capdefs_strings, [NODES] = &capdefs_stacks, [PYNODES] = &capdefs_pystacks};

    for (unsigned kind = 0; kind < KINDS; kind++) {
        for (; written_locked[kind] < counts[kind]; written_locked[kind]++)
            if (!put_locked[kind](written_locked[kind] + 1))
                return false;
        if (shown[kind])
            atomic_store_explicit(shown[kind], written_locked[kind], memory_order_release);
    }
    return true;
}

/* Opens a new block, unless another thread has done it meanwhile (`seen` is the full one). */
static int next_block(const char *seen)
{
    uint32_t count = 0;
    int r = 0;
    char *fresh = cappool_take(&pool, 1, &count, &r);

    if (!fresh)
        return r < 0 ? r : -ENOBUFS;
    lock_take(&lock);
    if (block == seen) {
        block = fresh;
        block_used = 0;
    }
    lock_drop(&lock);
    return 0;
}

/* -ENOBUFS means that the error was reported before. */
static int told_before(int r)
{
    return r == -ENOBUFS ? 0 : r;
}

static void count_missing_locked(void)
{
    uint32_t counts[KINDS];
    uint64_t behind = 0;

    (void)count_all(counts);
    for (unsigned kind = 0; kind < KINDS; kind++)
        behind += counts[kind] > written_locked[kind] ? counts[kind] - written_locked[kind] : 0;
    atomic_store_explicit(&missing, behind, memory_order_relaxed);
}

/* Writes `def`, or without one everything interned so far. -errno: no space. */
static int write_out(struct format_def *def, size_t bytes, const char *text, size_t length)
{
    for (;;) {
        uint32_t counts[KINDS] = {0};
        const char *seen;
        bool done;
        int r;

        if (!def)
            (void)count_all(counts);
        lock_take(&lock);
        done = def ? append_locked(def, bytes, text, length) : flush_locked(counts);
        seen = block;
        lock_drop(&lock);
        r = done ? 0 : next_block(seen);
        if (done || r < 0)
            return r;
    }
}

int capdefs_sync_all(void)
{
    int r = write_out(NULL, 0, NULL, 0);

    if (r < 0) {
        lock_take(&lock);
        count_missing_locked();
        lock_drop(&lock);
        capdefs_tell();
    }
    return told_before(r);
}

int capdefs_put(struct format_def *def, size_t bytes, const char *text, size_t length)
{
    int r;

    if (record_bytes(bytes, length) > FORMAT_DEFS_BLOCK)
        return -E2BIG;
    r = write_out(def, bytes, text, length);
    if (r < 0)
        capdefs_lost();
    return told_before(r);
}
