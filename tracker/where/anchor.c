/* SPDX-License-Identifier: MIT */
#include "tracker/where/anchor.h"

#include "alloc/base/lock.h"
#include "alloc/base/meta.h"
#include "tracker/base/catalog.h"
#include "tracker/base/site.h"
#include "tracker/stacks/intern.h"
#include "tracker/stacks/thread.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

/* A distinct path. Immutable except `entered`. */
struct path {
    uint32_t parent; /* path number, 0 = top */
    uint32_t name;   /* string number of "domain:name" */
    const char *text;
    uint32_t entered; /* guarded by lock: instances so far */
};

/* An open range. Its owner reads it without the lock, since only its owner closes it. */
struct range {
    uint32_t next, prev; /* list of all open ranges, in the order of entering */
    uint32_t anchor;
    uint32_t instance;
    uint32_t path;
    uint32_t domain;      /* string number, 0 = default */
    struct thread *owner; /* NULL for a range that was started by id */
};

static struct lock lock = LOCK_INIT(LOCK_RANK_TRACKER);

/* guarded by lock: */
static bool same_path(uint32_t number, const void *key);
static struct catalog paths = CATALOG_OF(struct path, ANCHOR_PATHS_MAX, same_path);
static struct slab ranges; /* struct range */
static uint32_t oldest_range;
static uint32_t last_anchor;
static bool is_ready;

/* guarded by lock for writing */
_Atomic uint32_t anchor_newest;

static _Atomic uint64_t lost; /* any thread, relaxed */

static void count_lost(void)
{
    atomic_fetch_add_explicit(&lost, 1, memory_order_relaxed);
}

static bool ready_locked(void)
{
    if (!is_ready)
        is_ready = slab_init(&ranges, sizeof(struct range), ANCHOR_OPEN_MAX) == 0;
    return is_ready;
}

static struct path *path_at(uint32_t number)
{
    return catalog_at(&paths, number);
}

static struct range *range_at(uint32_t number)
{
    return slab_at(&ranges, number);
}

static bool same_path(uint32_t number, const void *key)
{
    const struct path *wanted = key;

    return path_at(number)->parent == wanted->parent && path_at(number)->name == wanted->name;
}

static uint64_t path_hash(const struct path *path)
{
    const uint32_t words[] = {path->parent, path->name};

    return site_hash(words, sizeof words, 1);
}

/* ---- running numbers (anchor.h)
 * --------------------------------------------------------------- */

/* The end of the attribute at `text`, NULL if there is none. */
static const char *behind_attribute(const char *text)
{
    static const struct {
        const char *begins, *holds;
    } attributes[] = {
            {", seq = ", "0123456789"},
            {", op_id = ", "0123456789"},
            {", sizes = [", "0123456789-, []"},
            {", input_op_ids = [", "0123456789-, ()[]"},
    };

    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        size_t length = strlen(attributes[i].begins);
        const char *end;

        if (strncmp(text, attributes[i].begins, length) != 0)
            continue;
        text += length;
        end = text + strspn(text, attributes[i].holds);
        /* a list may include the comma and the blank before the next attribute */
        while (end > text && attributes[i].begins[length - 1] == '[' && end[-1] != ']')
            end--;
        return end > text ? end : NULL;
    }
    return NULL;
}

/* Bytes of a name without the running numbers after it. */
static size_t plain_bytes(const char *name)
{
    const char *comma = strchr(name, ',');

    for (; comma; comma = strchr(comma + 1, ',')) {
        const char *end = comma > name ? behind_attribute(comma) : NULL;

        while (end && *end)
            end = behind_attribute(end);
        if (end)
            return (size_t)(comma - name);
    }
    return strlen(name);
}

/* "domain:name" as a string number, cut if too long; 0 = no space. */
static uint32_t intern_name(const char *domain, const char *name)
{
    char text[ANCHOR_NAME_MAX + 2];
    size_t domain_bytes = domain ? strlen(domain) : 0;
    size_t name_bytes = plain_bytes(name);
    size_t used = 0;

    if (domain_bytes > 0) {
        if (domain_bytes > ANCHOR_NAME_MAX / 2)
            domain_bytes = ANCHOR_NAME_MAX / 2;
        memcpy(text, domain, domain_bytes);
        text[domain_bytes] = ':';
        used = domain_bytes + 1;
    }
    if (used + name_bytes > ANCHOR_NAME_MAX)
        name_bytes = ANCHOR_NAME_MAX - used;
    memcpy(text + used, name, name_bytes);
    return intern_string(text, used + name_bytes);
}

/* The path's full text as an interned string; NULL = too long or no space. */
static const char *intern_path(uint32_t parent, uint32_t name)
{
    char text[ANCHOR_PATH_MAX + 1];
    const char *outer = parent ? path_at(parent)->text : "";
    const char *inner = intern_text(name);
    size_t outer_bytes = strlen(outer);
    size_t inner_bytes = strlen(inner);
    size_t slash = outer_bytes > 0 ? 1 : 0;
    uint32_t number;

    if (outer_bytes + slash + inner_bytes > ANCHOR_PATH_MAX)
        return NULL;
    memcpy(text, outer, outer_bytes);
    if (slash)
        text[outer_bytes] = '/';
    memcpy(text + outer_bytes + slash, inner, inner_bytes);
    number = intern_string(text, outer_bytes + slash + inner_bytes);
    return number ? intern_text(number) : NULL;
}

/* The number of (parent, name). 0: counted as lost. */
static uint32_t anchor_path_number(uint32_t parent, uint32_t name)
{
    struct path path = {.parent = parent, .name = name};
    uint64_t hash = path_hash(&path);
    uint32_t number = catalog_find(&paths, hash, &path);

    if (number != 0)
        return number;
    path.text = intern_path(parent, name);
    if (!path.text) {
        count_lost();
        return 0;
    }
    number = catalog_number(&paths, &lock, hash, &path);
    if (number == 0)
        count_lost();
    return number;
}

static uint32_t next_anchor_locked(void)
{
    if (++last_anchor == 0)
        last_anchor = 1; /* 0 means none */
    return last_anchor;
}

/* Release: a child forked in between finds the range complete, or not at all
 * (anchor_fork_child). */
static void link_locked(uint32_t number)
{
    struct range *range = range_at(number);

    range->prev = anchor_newest;
    range->next = 0;
    __atomic_store_n(anchor_newest ? &range_at(anchor_newest)->next : &oldest_range, number,
            __ATOMIC_RELEASE);
    anchor_newest = number;
}

static void unlink_locked(uint32_t number)
{
    struct range *range = range_at(number);

    /* an exchange, since its acquire half keeps slab_put's write over the range's `next` after
     * it */
    (void)__atomic_exchange_n(range->prev ? &range_at(range->prev)->next : &oldest_range,
            range->next, __ATOMIC_ACQ_REL);
    if (range->next)
        range_at(range->next)->prev = range->prev;
    else
        anchor_newest = range->prev;
    slab_put(&ranges, number);
}

static void fill_edge(struct edge *ret_edge, enum edge_kind kind, const struct range *range)
{
    *ret_edge = (struct edge){
            .kind = kind,
            .anchor = range->anchor,
            .instance = range->instance,
            .path = path_at(range->path)->text,
    };
}

/* Opens a range of `path`; 0 = no space, counted. */
static uint32_t anchor_open_range(
        uint32_t path, uint32_t domain, struct thread *owner, struct edge *ret_edge)
{
    uint32_t number = 0;

    lock_take(&lock);
    if (ready_locked())
        number = slab_take(&ranges);
    if (number != 0) {
        struct range *range = range_at(number);

        range->anchor = next_anchor_locked();
        range->instance = path_at(path)->entered++;
        range->path = path;
        range->domain = domain;
        range->owner = owner;
        link_locked(number);
        fill_edge(ret_edge, EDGE_ENTER, range);
    }
    lock_drop(&lock);
    if (number == 0)
        count_lost();
    return number;
}

/* This thread's innermost range, 0 = none. */
static uint32_t own_range(const struct thread *thread)
{
    for (uint32_t i = thread->range_count; thread->range_real > 0 && i-- > 0;)
        if (thread->ranges[i].range != 0)
            return thread->ranges[i].range;
    return 0;
}

static uint32_t own_path(const struct thread *thread)
{
    uint32_t range = thread ? own_range(thread) : 0;

    return range ? range_at(range)->path : 0;
}

static uint32_t domain_number(const char *domain)
{
    return domain && domain[0] ? intern_string(domain, strlen(domain)) : 0;
}

/* Numbers that no string has. */
static uint32_t group_number(uint32_t group)
{
    return UINT32_MAX - group % ANCHOR_GROUPS;
}

static bool is_group(uint32_t domain_id)
{
    return domain_id > UINT32_MAX - ANCHOR_GROUPS;
}

static bool anchor_is_named(uint32_t range, const char *name)
{
    size_t bytes = plain_bytes(name);
    const char *own;

    if (range == 0)
        return true;
    if (bytes > ANCHOR_NAME_MAX)
        bytes = ANCHOR_NAME_MAX;
    own = intern_text(path_at(range_at(range)->path)->name);
    return strncmp(own, name, bytes) == 0 && own[bytes] == '\0';
}

/* A line of output and a range of the default domain with the same name, one right after the other,
 * are one range, which ends when the latter does. */
static bool is_said_already(struct thread *thread, uint32_t domain_id, const char *name)
{
    struct thread_range *top = thread->ranges + thread->range_count - 1;

    if (thread->range_count == 0 || top->range == 0
            || domain_id == group_number(ANCHOR_GROUP_PYTHON)
            || top->domain == group_number(ANCHOR_GROUP_PYTHON)
            || !anchor_is_named(top->range, name))
        return false;
    if (is_group(domain_id))
        return top->domain == 0;
    if (!is_group(top->domain) || domain_id != 0)
        return false;
    top->domain = 0;
    range_at(top->range)->domain = 0;
    return true;
}

/* The count of a domain's pushes that found the stack full. `adds`: the caller will add one. */
static struct thread_overflow *overflow_of(struct thread *thread, uint32_t domain_id, bool adds)
{
    struct thread_overflow *entry = thread->overflow;
    struct thread_overflow *empty = NULL;
    struct thread_overflow *others = &thread->overflow[THREAD_OVERFLOWS - 1];

    for (; entry < others; entry++) {
        if (entry->count > 0 && entry->domain == domain_id)
            return entry;
        if (entry->count == 0 && !empty)
            empty = entry;
    }
    if (!adds || !empty)
        return others;
    empty->domain = domain_id;
    return empty;
}

/* `parent`: the path that contains it, 0 = none. */
static int push_range(struct thread *thread, uint32_t parent, uint32_t domain_id,
        const char *domain, const char *name, struct edge *ret_edge)
{
    uint32_t range = 0;
    uint32_t path = 0;

    if (!name || !name[0])
        name = "(unnamed)"; /* its pop comes all the same */
    if (!thread)
        return -ENOBUFS;
    if (is_said_already(thread, domain_id, name))
        return -EALREADY;
    if (thread->range_count == THREAD_RANGES) {
        if (!is_group(domain_id)) /* its pop comes; a line that leaves need not */
            overflow_of(thread, domain_id, true)->count++;
        count_lost();
        return -ENOBUFS;
    }
    if (thread->range_real < ANCHOR_DEPTH_MAX)
        path = anchor_path_number(parent, intern_name(domain, name));
    else
        count_lost();
    if (path != 0)
        range = anchor_open_range(path, domain_id, thread, ret_edge);
    thread->ranges[thread->range_count++] = (struct thread_range){range, domain_id};
    if (range == 0)
        return -ENOBUFS;
    thread->range_real++;
    return 0;
}

int anchor_push(const char *domain, const char *name, struct edge *ret_edge)
{
    struct thread *thread = thread_self();

    return push_range(thread, own_path(thread), domain_number(domain), domain, name, ret_edge);
}

int anchor_push_group(uint32_t group, const char *name, struct edge *ret_edge)
{
    struct thread *thread = thread_self();

    return push_range(thread, own_path(thread), group_number(group), NULL, name, ret_edge);
}

int anchor_push_outermost(uint32_t group, const char *name, struct edge *ret_edge)
{
    return push_range(thread_self(), 0, group_number(group), NULL, name, ret_edge);
}

/* Removes entry `i` from the thread's stack; entries of other domains may be above it. */
static uint32_t anchor_take_entry(struct thread *thread, uint32_t i)
{
    uint32_t range = thread->ranges[i].range;

    memmove(&thread->ranges[i], &thread->ranges[i + 1],
            (thread->range_count - i - 1) * sizeof thread->ranges[0]);
    thread->range_count--;
    if (range)
        thread->range_real--;
    return range;
}

/* `name` NULL: any. */
static int pop_range(uint32_t domain_id, const char *name, struct edge *ret_edge)
{
    struct thread *thread = thread_self();
    struct thread_overflow *overflow;
    uint32_t range;
    uint32_t i;

    if (!thread)
        return -ENOENT;
    overflow = overflow_of(thread, domain_id, false);
    if (overflow->count > 0 && !is_group(domain_id)) {
        overflow->count--;
        return -ENOBUFS;
    }
    for (i = thread->range_count; i > 0 && thread->ranges[i - 1].domain != domain_id; i--)
        ;
    if (i == 0)
        return -ENOENT;
    if (name && !anchor_is_named(thread->ranges[i - 1].range, name))
        return -ENOENT;
    range = anchor_take_entry(thread, i - 1);
    if (range == 0)
        return -ENOBUFS;
    lock_take(&lock);
    fill_edge(ret_edge, EDGE_EXIT, range_at(range));
    unlink_locked(range);
    lock_drop(&lock);
    return 0;
}

int anchor_pop(const char *domain, struct edge *ret_edge)
{
    return pop_range(domain_number(domain), NULL, ret_edge);
}

int anchor_pop_group(uint32_t group, const char *name, struct edge *ret_edge)
{
    return pop_range(group_number(group), name, ret_edge);
}

int anchor_mark(const char *domain, const char *name, struct edge *ret_edge)
{
    struct thread *thread = thread_self();
    uint32_t path;

    if (!name || !name[0])
        return -EINVAL;
    if (!thread)
        return -ENOBUFS;
    path = anchor_path_number(own_path(thread), intern_name(domain, name));
    if (path == 0)
        return -ENOBUFS;
    lock_take(&lock);
    *ret_edge = (struct edge){
            .kind = EDGE_MARK,
            .anchor = next_anchor_locked(),
            .instance = path_at(path)->entered++,
            .path = path_at(path)->text,
    };
    lock_drop(&lock);
    return 0;
}

int anchor_start(const char *domain, const char *name, struct edge *ret_edge)
{
    uint32_t path;

    if (!name || !name[0])
        name = "(unnamed)";
    path = anchor_path_number(0, intern_name(domain, name));
    if (path == 0 || anchor_open_range(path, 0, NULL, ret_edge) == 0)
        return -ENOBUFS;
    return 0;
}

int anchor_end(uint32_t anchor, struct edge *ret_edge)
{
    int r = -ENOENT;

    lock_take(&lock);
    /* From the newest: ranges mostly end soon after their start. */
    for (uint32_t i = anchor_newest; i != 0; i = range_at(i)->prev) {
        if (range_at(i)->anchor != anchor || range_at(i)->owner)
            continue;
        fill_edge(ret_edge, EDGE_EXIT, range_at(i));
        unlink_locked(i);
        r = 0;
        break;
    }
    lock_drop(&lock);
    return r;
}

static void fill_place(struct anchor_place *ret_place, const struct range *range, bool inherited)
{
    *ret_place = (struct anchor_place){
            .anchor = range->anchor,
            .instance = range->instance,
            .path = path_at(range->path)->text,
            .inherited = inherited,
    };
}

void anchor_look(struct anchor_place *ret_place)
{
    struct thread *thread = thread_self();
    uint32_t own = thread ? own_range(thread) : 0;

    *ret_place = (struct anchor_place){.path = ""};
    if (own != 0) {
        fill_place(ret_place, range_at(own), false);
        return;
    }
    lock_take(&lock);
    if (anchor_newest != 0)
        fill_place(ret_place, range_at(anchor_newest), true);
    lock_drop(&lock);
}

size_t anchor_open_ranges(struct edge *ret_edges, size_t max)
{
    size_t count = 0;

    lock_take(&lock);
    for (uint32_t i = oldest_range; i != 0; i = range_at(i)->next) {
        if (count < max) {
            const struct range *range = range_at(i);

            fill_edge(&ret_edges[count], EDGE_ENTER, range);
            ret_edges[count].thread = range->owner ? range->owner->number : 0;
        }
        count++;
    }
    lock_drop(&lock);
    return count;
}

uint64_t anchor_lost(void)
{
    return atomic_load_explicit(&lost, memory_order_relaxed);
}

static void anchor_thread_exit(struct thread *thread)
{
    lock_take(&lock);
    for (uint32_t i = 0; i < thread->range_count; i++)
        if (thread->ranges[i].range != 0)
            unlink_locked(thread->ranges[i].range);
    lock_drop(&lock);
    thread->range_count = 0;
    thread->range_real = 0;
}

THREAD_AT_EXIT(anchor_thread_exit);

/* Another thread may have been linking or unlinking a range, so the list is rebuilt. Only the links
 * from the oldest range to newer ones were valid at any time (link_locked, unlink_locked): the
 * backward links and the newest were not. */
void anchor_fork_child(void)
{
    const struct thread *self =
            thread_current; /* none is created here: every child of every process runs this */
    uint32_t number = oldest_range;
    uint32_t next;

    lock_init(&lock, LOCK_RANK_TRACKER);
    oldest_range = 0;
    anchor_newest = 0;
    for (; number != 0; number = next) {
        next = range_at(number)->next;
        if (range_at(number)->owner && range_at(number)->owner != self)
            slab_put(&ranges, number);
        else
            link_locked(number);
    }
}
