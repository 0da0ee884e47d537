/* SPDX-License-Identifier: MIT */
#include "tracker/stacks/intern.h"

#include "alloc/base/lock.h"
#include "alloc/base/meta.h"
#include "tracker/base/catalog.h"
#include "tracker/base/site.h"

#include <stdatomic.h>
#include <string.h>

/* A string in the arena. Callers keep pointers to texts, so it never moves. */
struct text {
    uint32_t number;
    uint32_t length;
    char bytes[];
};

struct node {
    uint32_t parent;
    uint32_t module;
    uint64_t offset;
};

/* The key of a new entry. */
struct text_key {
    const char *text;
    size_t length;
};

static struct lock lock = LOCK_INIT(LOCK_RANK_TRACKER);

/* guarded by lock for adding; any thread reads published records */
static struct span text_arena = SPAN_OF(INTERN_ARENA_MAX);
static size_t arena_used;

static bool same_text(uint32_t number, const void *key);
static bool same_module(uint32_t number, const void *key);
static bool intern_same_node(uint32_t number, const void *key);
static struct catalog texts =
        CATALOG_OF(uint32_t, INTERN_STRINGS_MAX, same_text); /* offset in the arena / 8 */
static struct catalog modules = CATALOG_OF(struct intern_module, INTERN_MODULES_MAX, same_module);
static struct catalog nodes = CATALOG_OF(struct node, INTERN_NODES_MAX, intern_same_node);

static _Atomic uint64_t refused;

static uint32_t count_refused(void)
{
    atomic_fetch_add_explicit(&refused, 1, memory_order_relaxed);
    return 0;
}

static struct text *text_at(uint32_t number)
{
    const uint32_t *offset = catalog_at(&texts, number);

    return (struct text *)(void *)(text_arena.base + (size_t)*offset * 8);
}

static bool same_text(uint32_t number, const void *key)
{
    const struct text_key *wanted = key;
    const struct text *text = text_at(number);

    return text->length == wanted->length && memcmp(text->bytes, wanted->text, wanted->length) == 0;
}

static uint32_t add_text_locked(const struct text_key *key, uint64_t hash)
{
    size_t bytes = (sizeof(struct text) + key->length + 1 + 7) / 8 * 8;
    uint32_t offset = (uint32_t)(arena_used / 8);
    struct text *text;
    uint32_t number;

    if (span_commit(&text_arena, arena_used + bytes) < 0)
        return count_refused();
    text = (struct text *)(void *)(text_arena.base + arena_used);
    text->number = catalog_count(&texts) + 1;
    text->length = (uint32_t)key->length;
    memcpy(text->bytes, key->text, key->length);
    text->bytes[key->length] = '\0';
    number = catalog_add(&texts, hash, &offset);
    if (number == 0)
        return count_refused();
    arena_used += bytes;
    return number;
}

uint32_t intern_string(const char *text, size_t length)
{
    struct text_key key = {
            text, length < INTERN_STRING_BYTES_MAX ? length : INTERN_STRING_BYTES_MAX};
    uint64_t hash;
    uint32_t number;

    if (length == 0)
        return 0;
    hash = site_hash(key.text, key.length, 0);
    number = catalog_find(&texts, hash, &key);
    if (number != 0)
        return number;

    lock_take(&lock);
    number = catalog_find(&texts, hash, &key);
    if (number == 0)
        number = add_text_locked(&key, hash);
    lock_drop(&lock);
    return number;
}

const char *intern_text(uint32_t string)
{
    return catalog_has(&texts, string) ? text_at(string)->bytes : "";
}

uint32_t intern_number(const char *text)
{
    bool any = catalog_count(&texts) > 0;
    uintptr_t low = any ? (uintptr_t)text_arena.base + sizeof(struct text) : 0;
    uint32_t number;

    /* Not an interned text (a caller's literal): no number. */
    if (!any || (uintptr_t)text < low || (uintptr_t)text >= low + INTERN_ARENA_MAX)
        return 0;
    memcpy(&number, text - sizeof(struct text), sizeof number);
    return number;
}

static bool same_module(uint32_t number, const void *key)
{
    const struct intern_module *wanted = key;
    const struct intern_module *have = catalog_at(&modules, number);

    return have->base == wanted->base && have->end == wanted->end && have->hash == wanted->hash
            && have->path == wanted->path;
}

uint32_t intern_module(const struct intern_module *module)
{
    uint64_t words[3] = {module->base, module->end, module->hash};
    uint32_t number =
            catalog_number(&modules, &lock, site_hash(words, sizeof words, module->path), module);

    return number ? number : count_refused();
}

const struct intern_module *intern_module_at(uint32_t module)
{
    return catalog_has(&modules, module) ? catalog_at(&modules, module) : NULL;
}

static bool intern_same_node(uint32_t number, const void *key)
{
    const struct node *wanted = key;
    const struct node *have = catalog_at(&nodes, number);

    return have->parent == wanted->parent && have->module == wanted->module
            && have->offset == wanted->offset;
}

uint32_t intern_stack(const struct intern_frame *frames, unsigned count)
{
    uint32_t leaf = 0;

    for (unsigned i = count; i-- > 0;) {
        struct node node = {leaf, frames[i].module, frames[i].offset};

        leaf = catalog_number(&nodes, &lock,
                site_frame((uint64_t)node.parent << 32 | node.module, node.offset), &node);
        if (leaf == 0)
            return count_refused(); /* a partial stack would be a wrong one */
    }
    return leaf;
}

bool intern_node_at(uint32_t node, uint32_t *ret_parent, struct intern_frame *ret_frame)
{
    const struct node *have;

    if (!catalog_has(&nodes, node))
        return false;
    have = catalog_at(&nodes, node);
    *ret_parent = have->parent;
    ret_frame->module = have->module;
    ret_frame->offset = have->offset;
    return true;
}

unsigned intern_frames(uint32_t leaf, struct intern_frame *ret_frames, unsigned max)
{
    unsigned count = 0;

    while (count < max && intern_node_at(leaf, &leaf, &ret_frames[count]))
        count++;
    return count;
}

void intern_counts(struct intern_counts *ret_counts)
{
    /* Nodes first: the entries that they name were added before, so the later counts cover them. */
    ret_counts->nodes = catalog_count(&nodes);
    ret_counts->modules = catalog_count(&modules);
    ret_counts->strings = catalog_count(&texts);
    ret_counts->refused = atomic_load_explicit(&refused, memory_order_relaxed);
}

void intern_fork_child(void)
{
    lock_init(&lock, LOCK_RANK_TRACKER);
}
