/* SPDX-License-Identifier: MIT */
#include "preload/anchors/nvtx_chain.h"

#include "alloc/base/table.h"
#include "preload/base/forklock.h"
#include "preload/base/guard.h"
#include "preload/base/msg.h"
#include "preload/driver/resolve.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>

enum {
    LIBRARIES = 32, /* most libraries that emit ranges; later ones go to the tool alone */
    MODULES = 2,
};

/* Callback slots of one library, which the tool may write to at any time. */
struct shadow {
    nvtx_fn slots[MODULES][NVTX_SLOTS];
    nvtx_fn *table[MODULES][NVTX_SLOTS];
    nvtx_get_table get_table; /* the library's own */
    bool declined;            /* the tool declined this library */
};

static char tool_path[PATH_MAX];
static struct shadow shadows[LIBRARIES];
static atomic_uint shadow_count;
/* the library whose functions are called; NULL = no tool has answered */
static _Atomic(struct shadow *) first;

/*
 * The library that the tool is being asked about: the tool's functions get no argument that says
 * so.
 */
static __thread struct shadow *asked __attribute__((tls_model("initial-exec")));

FORKLOCK(lock);

/* The name or anchor of a handle or an id. */
struct entry {
    uint64_t key, value;
};

/* guarded by lock: */
static struct table names = TABLE_OF(struct entry);
static struct table ranges = TABLE_OF(struct entry);

void nvtx_chain_set(const char *path)
{
    size_t length = strlen(path);

    if (length < sizeof tool_path)
        memcpy(tool_path, path, length + 1);
}

bool nvtx_chain_is_set(void)
{
    return tool_path[0] != '\0';
}

bool nvtx_chain_is_open(void)
{
    return atomic_load_explicit(&first, memory_order_acquire) != NULL;
}

/*
 * Functions that get handles: all of CORE2, whose events have a domain, and those whose message may
 * be a registered string.
 */
static bool takes_handles(const struct shadow *shadow)
{
    enum {
        MARK_EX = 1,
        RANGE_START_EX = 4,
        RANGE_PUSH_EX = 8
    };
    const nvtx_fn *core = shadow->slots[0];

    for (unsigned i = 0; i < NVTX_SLOTS; i++)
        if (__atomic_load_n(&shadow->slots[1][i], __ATOMIC_RELAXED))
            return true;
    return core[MARK_EX] || core[RANGE_START_EX] || core[RANGE_PUSH_EX];
}

static bool is_empty(const struct shadow *shadow)
{
    static const struct shadow none;

    return memcmp(shadow->slots, none.slots, sizeof none.slots) == 0;
}

bool nvtx_chain_makes_handles(void)
{
    const struct shadow *shadow = atomic_load_explicit(&first, memory_order_acquire);

    if (!shadow || shadow->declined)
        return false;
    return takes_handles(shadow) || is_empty(shadow);
}

/* ---- the tool's view ------------------------------------------------------------------------ */

static int index_of(int module)
{
    return module == NVTX_MODULE_CORE ? 0 : module == NVTX_MODULE_CORE2 ? 1 : -1;
}

static int shadow_table(int module, nvtx_fn ***ret_table, unsigned *ret_size)
{
    const struct nvtx_callbacks *real = asked ? asked->get_table(NVTX_ETID_CALLBACKS) : NULL;
    nvtx_fn **table;
    unsigned size;
    int index = index_of(module);

    if (!real || !real->module_table(module, ret_table, ret_size))
        return 0;
    if (index < 0 || !*ret_table)
        return 1;
    table = *ret_table;
    size = *ret_size < NVTX_SLOTS ? *ret_size : NVTX_SLOTS;
    for (unsigned i = 0; i < size; i++)
        asked->table[index][i] = table[i] ? &asked->slots[index][i] : NULL;
    *ret_table = asked->table[index];
    *ret_size = size;
    return 1;
}

static const void *shadow_get_table(uint32_t id)
{
    static const struct nvtx_callbacks callbacks = {sizeof callbacks, shadow_table};

    if (!asked)
        return NULL;
    return id == NVTX_ETID_CALLBACKS ? &callbacks : asked->get_table(id);
}

static int (*find_init(void))(nvtx_get_table)
{
    void *library = dlopen(tool_path, RTLD_LAZY);
    void *init = library ? resolve_real_dlsym()(library, "InitializeInjectionNvtx2") : NULL;

    return (int (*)(nvtx_get_table))init;
}

/* ---- our view ------------------------------------------------------------------------------- */

static bool is_like_the_first(const struct shadow *shadow, const struct shadow *one)
{
    return shadow->declined == one->declined
            && memcmp(shadow->slots, one->slots, sizeof shadow->slots) == 0;
}

bool nvtx_chain_open(nvtx_get_table get_table)
{
    int (*init)(nvtx_get_table) = tool_path[0] ? find_init() : NULL;
    struct shadow *none = NULL;
    struct shadow *shadow;
    unsigned number;

    if (!init)
        return true; /* the tool does not exist: NVTX would have found the same */
    number = atomic_fetch_add(&shadow_count, 1);
    shadow = number < LIBRARIES ? &shadows[number] : NULL;
    if (shadow) {
        shadow->get_table = get_table;
        asked = shadow;
        shadow->declined = !init(shadow_get_table);
        if (shadow->declined)
            memset(shadow->slots, 0, sizeof shadow->slots);
        asked = NULL;
        if (atomic_compare_exchange_strong(&first, &none, shadow)
                || is_like_the_first(shadow, none))
            return true;
    }
    msg_warn("NVTX: %s has a library's ranges to itself", tool_path);
    (void)init(get_table);
    return false;
}

nvtx_fn nvtx_chain_next(int module, unsigned id)
{
    const struct shadow *shadow = atomic_load_explicit(&first, memory_order_acquire);

    if (__builtin_expect(!shadow, 1))
        return NULL;
    return __atomic_load_n(&shadow->slots[index_of(module)][id], __ATOMIC_RELAXED);
}

/* ---- handles and ids ------------------------------------------------------------------------ */

static void nvtx_chain_put(struct table *table, uint64_t key, uint64_t value)
{
    struct entry *entry;

    guard_push();
    lock_take(&lock);
    entry = table_add(table, key);
    if (entry)
        entry->value = value;
    lock_drop(&lock);
    guard_pop();
}

static uint64_t nvtx_chain_get(struct table *table, uint64_t key, bool remove)
{
    struct entry *entry;
    uint64_t value;

    guard_push();
    lock_take(&lock);
    entry = table_find(table, key);
    value = entry ? entry->value : 0;
    if (entry && remove)
        (void)table_remove(table, entry);
    lock_drop(&lock);
    guard_pop();
    return value;
}

void nvtx_chain_name(const void *handle, const char *text)
{
    nvtx_chain_put(&names, (uint64_t)(uintptr_t)handle, (uint64_t)(uintptr_t)text);
}

const char *nvtx_chain_text(const void *handle)
{
    return (const char *)(uintptr_t)nvtx_chain_get(&names, (uint64_t)(uintptr_t)handle, false);
}

void nvtx_chain_range(uint64_t id, uint64_t anchor)
{
    nvtx_chain_put(&ranges, id, anchor);
}

uint64_t nvtx_chain_anchor(uint64_t id)
{
    return nvtx_chain_get(&ranges, id, true);
}
