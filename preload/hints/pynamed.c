/* SPDX-License-Identifier: MIT */
#include "preload/hints/pynamed.h"

#include "alloc/base/lock.h"
#include "alloc/base/meta.h"
#include "tracker/format/format.h"
#include "tracker/hints/pysite.h"
#include "tracker/python/pycode.h"

#include <stdatomic.h>

/*
 * State of a stack, by its number: the call sites of its innermost frame that hints name, and the
 * list that begins there or further out: NULL = not looked up yet, &none = no site. Release: with
 * everything that it points to.
 */
struct known {
    struct pysite own[2]; /* fixed before `sites` */
    _Atomic(const struct pysite *) sites;
};

static const struct pysite none;
static struct lock lock = LOCK_INIT(LOCK_RANK_TRACKER);

/* guarded by lock when an entry is added: */
static struct span span = SPAN_OF(((size_t)PYCODE_NODES_MAX + 1) * sizeof(struct known));
static _Atomic uint32_t room; /* entries that may be read; release: with the span */

const struct hints *pynamed_hints;
static void (*pynamed_saw)(const char *file); /* fixed by pynamed_start */

void pynamed_start(const struct hints *hints, void (*saw)(const char *file))
{
    pynamed_hints = hints;
    pynamed_saw = saw;
}

static struct known *known_at(uint32_t number)
{
    return (struct known *)(void *)span.base + number;
}

/* NULL = not looked up yet. */
static const struct pysite *sites_of(uint32_t number)
{
    if (number >= atomic_load_explicit(&room, memory_order_acquire))
        return NULL;
    return atomic_load_explicit(&known_at(number)->sites, memory_order_acquire);
}

/* The keys of a frame: for any line, and for its own line; returns its file. */
static const char *keys_of(uint32_t number, uint64_t ret_keys[static 2])
{
    struct pycode_frame frame = {"", "", 0};

    (void)pycode_frame_at(number, &frame);
    ret_keys[0] = pysite_key(frame.file, frame.function, 0);
    ret_keys[1] = pysite_key(frame.file, frame.function, frame.line);
    return frame.file;
}

/* Stores the sites of a stack; NULL = no memory. */
static const struct pysite *learn_locked(
        uint32_t number, const uint64_t keys[static 2], const struct pysite *outer)
{
    const struct pysite *sites = sites_of(number);
    struct known *known;

    if (sites)
        return sites; /* another thread was faster */
    if (span_commit(&span, ((size_t)number + 1) * sizeof *known) < 0)
        return NULL;
    atomic_store_explicit(&room, (uint32_t)(span.committed / sizeof *known), memory_order_release);
    known = known_at(number);
    sites = outer == &none ? NULL : outer;
    for (unsigned i = 0; i < 2; i++)
        sites = hint_pysite(pynamed_hints, sites, keys[i], &known->own[i]);
    sites = sites ? sites : &none;
    atomic_store_explicit(&known->sites, sites, memory_order_release);
    return sites;
}

/* noinline: its array would otherwise be on the stack of every request. */
__attribute__((noinline)) static const struct pysite *learn(uint32_t number)
{
    uint32_t inner[PYFRAME_DEPTH_MAX];
    const struct pysite *sites = NULL;
    struct pycode_node node;
    unsigned count = 0;

    while (count < PYFRAME_DEPTH_MAX && !(sites = sites_of(number))
            && pycode_node_at(number, &node)) {
        inner[count++] = number;
        number = node.parent;
    }
    sites = sites ? sites : &none;
    while (sites && count > 0) {
        const struct pysite *outer = sites;
        uint64_t keys[2];
        const char *file = keys_of(inner[--count], keys);

        lock_take(&lock);
        sites = learn_locked(inner[count], keys, outer);
        lock_drop(&lock);
        if (pynamed_saw && sites && sites != outer)
            pynamed_saw(file);
    }
    return sites ? sites : &none;
}

const struct pysite *pynamed_find(uint32_t pystack)
{
    const struct pysite *sites;

    if (pystack == 0 || pystack & FORMAT_PYSTACK_AMBIENT)
        return NULL;
    sites = sites_of(pystack);
    if (__builtin_expect(!sites, 0))
        sites = learn(pystack);
    return sites == &none ? NULL : sites;
}
