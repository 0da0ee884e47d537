/* SPDX-License-Identifier: MIT */
#include "tracker/stacks/modules.h"

#include "alloc/base/lock.h"
#include "alloc/base/meta.h"
#include "alloc/base/wildcard.h"
#include "tracker/base/peek.h"
#include "tracker/base/script.h"
#include "tracker/base/site.h"
#include "tracker/stacks/fingerprint.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define OBJECTS_MAX 8192u
#define GONE_MAX    256u
#define KEPT_MAX    64u

struct range {
    uint64_t base, end;
    uint32_t module;
    uint32_t spare;
};

struct map {
    uint32_t count;
    uint32_t spare;
    _Atomic uint64_t adds, subs; /* the loader's counters when the map last matched */
    struct range range[];
};

/* Results of one walk over the loader's list. Filled under the loader's lock: copies only. */
struct object {
    struct intern_module module;
    uint64_t fingerprint; /* of an object without a build-id whose hash is not yet known */
    char path[PATH_MAX];
};

struct walk {
    struct object *object;
    const struct map *known; /* the previous map, NULL = none */
    uint32_t count;
    uint32_t max;
    uint64_t adds, subs;
    uint64_t known_adds, known_subs; /* stop at once if the loader's counters still equal these */
    bool is_unchanged;
    bool is_forced;
};

static struct lock lock = LOCK_INIT(LOCK_RANK_TRACKER);
static _Atomic(struct map *) current; /* replaced under lock; release, readers acquire */
static _Atomic uint32_t generation;
static _Atomic uint32_t without_build_id;
static _Atomic uint32_t main_module;
static uintptr_t own_address; /* fixed by modules_init */

/* Addresses of unloaded modules that walks went through. Guarded by lock; any thread reads the
 * count. */
static struct range gone[GONE_MAX];
static _Atomic uint32_t gone_count;
/* Earlier maps, which a reader may still use: a map that matches again is reused. Guarded by
 * lock. */
static struct map *kept[KEPT_MAX];
static uint32_t kept_count; /* in total */
static _Atomic uint32_t replaced;
static _Atomic bool walked[INTERN_MODULES_MAX + 1]; /* by module number */

enum intern_module_kind modules_kind_of(const char *path)
{
    static const struct {
        const char *glob;
        enum intern_module_kind kind;
    } known[] = {
            {"libcuda.so*", INTERN_MODULE_CUDA},
            {"libcudart.so*", INTERN_MODULE_CUDA},
            {"libcudart-*.so*", INTERN_MODULE_CUDA}, /* renamed in wheels */
            {"libc.so.6", INTERN_MODULE_LIBC},
            {"libc-2.*.so", INTERN_MODULE_LIBC},
            {"libpthread.so.0", INTERN_MODULE_LIBC},
            {"libpthread-2.*.so", INTERN_MODULE_LIBC},
            {"libdl.so.2", INTERN_MODULE_LIBC},
            {"ld-linux*.so.*", INTERN_MODULE_LIBC},
            {"ld-2.*.so", INTERN_MODULE_LIBC},
            {"linux-vdso.so.1", INTERN_MODULE_LIBC},
            {"libkedge.so*", INTERN_MODULE_KEDGE},
    };
    const char *name = script_base(path);

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (wildcard_match(known[i].glob, name))
            return known[i].kind;
    return INTERN_MODULE_PROGRAM;
}

/* Reads the build-id from a mapped note segment. Checks bounds first: notes are data of the
 * program. */
static void read_notes(struct intern_module *module, const char *notes, size_t size)
{
    while (size >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) note;
        size_t name_bytes, text_bytes;

        memcpy(&note, notes, sizeof note);
        name_bytes = ((size_t)note.n_namesz + 3) & ~(size_t)3;
        text_bytes = ((size_t)note.n_descsz + 3) & ~(size_t)3;
        notes += sizeof note;
        size -= sizeof note;
        if (name_bytes > size || text_bytes > size - name_bytes)
            return;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(notes, "GNU", 4) == 0
                && note.n_descsz > 0) {
            size_t bytes =
                    note.n_descsz < INTERN_BUILD_ID_MAX ? note.n_descsz : INTERN_BUILD_ID_MAX;

            memcpy(module->build_id, notes + name_bytes, bytes);
            module->build_id_bytes = (uint8_t)bytes;
            return;
        }
        notes += name_bytes + text_bytes;
        size -= name_bytes + text_bytes;
    }
}

/* Reads the program's memory; the program may have unmapped pages of its own code. */
static bool read_memory(void *data, uint64_t address, void *to, size_t bytes)
{
    const struct dl_phdr_info *info = data;

    /* NOLINTNEXTLINE(performance-no-int-to-ptr) */
    return peek_copy(to, (const void *)(info->dlpi_addr + address), bytes);
}

static void describe_object(struct object *object, const struct dl_phdr_info *info)
{
    struct intern_module *module = &object->module;

    memset(module, 0, sizeof *module);
    module->base = UINT64_MAX;
    module->bias = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uint64_t low = info->dlpi_addr + segment->p_vaddr;

        if (segment->p_type == PT_NOTE && module->build_id_bytes == 0
                && fingerprint_is_loaded(info->dlpi_phdr, info->dlpi_phnum, segment))
            read_notes(module, (const char *)low,
                    segment->p_memsz); // NOLINT(performance-no-int-to-ptr)
        if (segment->p_type != PT_LOAD)
            continue;
        if (low < module->base)
            module->base = low;
        if (low + segment->p_memsz > module->end)
            module->end = low + segment->p_memsz;
    }
}

static const struct range *range_holding_in(const struct map *map, uint64_t address)
{
    uint32_t low = 0;
    uint32_t high = map ? map->count : 0;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (address < map->range[middle].base)
            high = middle;
        else if (address >= map->range[middle].end)
            low = middle + 1;
        else
            return &map->range[middle];
    }
    return NULL;
}

/* Inside the callback, where the loader's lock keeps the object loaded; not repeated for objects
 * that stayed loaded. */
static void take_fingerprint(
        const struct walk *walk, struct object *object, struct dl_phdr_info *info)
{
    const struct range *range = range_holding_in(walk->known, object->module.base);
    const struct intern_module *before = range ? intern_module_at(range->module) : NULL;
    struct fingerprint_source source = {.segment = info->dlpi_phdr,
            .count = info->dlpi_phnum,
            .read = read_memory,
            .data = info};

    if (object->module.build_id_bytes > 0)
        return;
    object->module.hash = 0;
    if (before && walk->subs == walk->known_subs && before->base == object->module.base
            && before->end == object->module.end && before->build_id_bytes == 0)
        object->module.hash = before->hash;
    else
        object->fingerprint = fingerprint_take(&source);
}

static int collect_object(struct dl_phdr_info *info, size_t size, void *data)
{
    struct walk *walk = data;
    struct object *object;
    size_t length;

    if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs) {
        walk->adds = info->dlpi_adds;
        walk->subs = info->dlpi_subs;
        if (walk->count == 0 && !walk->is_forced && walk->adds == walk->known_adds
                && walk->subs == walk->known_subs) {
            walk->is_unchanged = true;
            return 1;
        }
    }
    if (walk->count == walk->max)
        return 1;
    object = &walk->object[walk->count];
    describe_object(object, info);
    if (object->module.base >= object->module.end)
        return 0;
    take_fingerprint(walk, object, info);
    length = info->dlpi_name ? strnlen(info->dlpi_name, sizeof object->path - 1) : 0;
    if (length > 0)
        memcpy(object->path, info->dlpi_name, length);
    object->path[length] = '\0';
    object->module.is_main = walk->count == 0; /* the loader lists the program first */
    walk->count++;
    return 0;
}

/* The path of a program whose file was deleted stays its identity. */
static void forget_deletion(char *path)
{
    static const char mark[] = " (deleted)";
    size_t length = strlen(path);

    if (length > sizeof mark - 1 && strcmp(path + length - (sizeof mark - 1), mark) == 0)
        path[length - (sizeof mark - 1)] = '\0';
}

/* Sets the identity: the build-id, or path and fingerprint without one. */
static void identify_object(struct object *object)
{
    struct intern_module *module = &object->module;

    if (module->is_main && object->path[0] == '\0') {
        ssize_t length = readlink("/proc/self/exe", object->path, sizeof object->path - 1);

        object->path[length > 0 ? length : 0] = '\0';
        forget_deletion(object->path);
    }
    module->kind = modules_kind_of(object->path);
    if (own_address >= module->base && own_address < module->end)
        module->kind = INTERN_MODULE_KEDGE;
    module->path = intern_string(object->path, strlen(object->path));
    if (module->build_id_bytes > 0) {
        module->hash = site_hash(module->build_id, module->build_id_bytes, 2);
        return;
    }
    if (module->hash == 0)
        module->hash = fingerprint_identity(object->path, object->fingerprint);
}

static void sort_ranges(struct map *map)
{
    /* Nearly sorted, a few hundred entries: insertion sort, since qsort may call malloc. */
    for (uint32_t i = 1; i < map->count; i++) {
        struct range range = map->range[i];
        uint32_t j = i;

        for (; j > 0 && map->range[j - 1].base > range.base; j--)
            map->range[j] = map->range[j - 1];
        map->range[j] = range;
    }
}

static bool same_maps(const struct map *a, const struct map *b)
{
    return a->count == b->count && memcmp(a->range, b->range, a->count * sizeof a->range[0]) == 0;
}

static struct map *build_map(struct walk *walk)
{
    size_t bytes = sizeof(struct map) + walk->count * sizeof(struct range);
    struct map *map = meta_map(bytes);
    uint32_t nameless = 0;

    if (!map)
        return NULL;
    for (uint32_t i = 0; i < walk->count; i++) {
        struct object *object = &walk->object[i];
        uint32_t module;

        identify_object(object);
        if (object->module.build_id_bytes == 0)
            nameless++;
        module = intern_module(&object->module);
        if (object->module.is_main && module != 0)
            atomic_store_explicit(&main_module, module, memory_order_release);
        map->range[map->count++] = (struct range){
                .base = object->module.base, .end = object->module.end, .module = module};
    }
    map->adds = walk->adds;
    map->subs = walk->subs;
    sort_ranges(map);
    atomic_store_explicit(&without_build_id, nameless, memory_order_relaxed);
    return map;
}

static bool modules_is_in(const struct map *map, const struct range *range)
{
    const struct range *there = range_holding_in(map, range->base);

    return there && memcmp(there, range, sizeof *there) == 0;
}

/* Does it overlap an unloaded module that walks went through? */
static bool takes_place_locked(const struct range *range)
{
    for (uint32_t i = 0; i < gone_count; i++)
        if (gone[i].base < range->end && range->base < gone[i].end
                && gone[i].module != range->module)
            return true;
    return false;
}

/* A module that is loaded and unloaded again has one entry. Beyond the bound one entry covers
 * all. */
static void add_gone_locked(const struct range *range)
{
    for (uint32_t i = 0; i < gone_count; i++)
        if (gone[i].base <= range->base && range->end <= gone[i].end
                && (gone[i].module == range->module || gone[i].module == 0))
            return;
    if (gone_count < GONE_MAX) {
        gone[gone_count] = *range;
        gone_count++;
    } else
        gone[GONE_MAX - 1] = (struct range){.end = UINT64_MAX};
}

static void compare_locked(const struct map *old, const struct map *map)
{
    for (uint32_t i = 0; i < old->count; i++) {
        const struct range *range = &old->range[i];

        if (modules_is_in(map, range)
                || !atomic_load_explicit(&walked[range->module], memory_order_relaxed))
            continue;
        add_gone_locked(range);
    }
    for (uint32_t i = 0; i < map->count; i++)
        if (!modules_is_in(old, &map->range[i]) && takes_place_locked(&map->range[i]))
            atomic_fetch_add_explicit(&replaced, 1, memory_order_release);
}

/* Returns the map itself, or an equal earlier one. Old maps stay mapped: a reader without a lock
 * may use them. */
static struct map *keep_locked(struct map *map)
{
    for (uint32_t i = 0; i < kept_count && i < KEPT_MAX; i++) {
        if (!same_maps(kept[i], map))
            continue;
        atomic_store_explicit(&kept[i]->adds, map->adds, memory_order_relaxed);
        atomic_store_explicit(&kept[i]->subs, map->subs, memory_order_relaxed);
        return kept[i];
    }
    kept[kept_count++ % KEPT_MAX] = map; /* the oldest is dropped, and stays mapped */
    return map;
}

/* The newest list wins; a map that was overtaken while it was built is freed, since no other thread
 * has seen it. */
static void publish_map(struct map *map)
{
    struct map *old;
    struct map *taken = NULL;

    lock_take(&lock);
    old = atomic_load_explicit(&current, memory_order_relaxed);
    if (!old || map->adds + map->subs >= old->adds + old->subs) {
        taken = keep_locked(map);
        if (old && taken != old)
            compare_locked(old, taken);
        atomic_store_explicit(&current, taken, memory_order_release);
        if (taken != old)
            atomic_fetch_add_explicit(&generation, 1, memory_order_release);
    }
    lock_drop(&lock);
    if (taken != map)
        meta_unmap(map, sizeof(struct map) + map->count * sizeof(struct range));
}

/* Do the loader's counters still match this map? Two numbers of its first object. */
static bool is_true_still(const struct map *map)
{
    struct walk walk = {.known_adds = map->adds, .known_subs = map->subs};

    (void)dl_iterate_phdr(collect_object, &walk);
    return walk.is_unchanged;
}

static int reload_map(bool is_forced)
{
    const struct map *known = atomic_load_explicit(&current, memory_order_acquire);
    struct walk walk = {.known = known, .max = OBJECTS_MAX, .is_forced = is_forced || !known};
    /* address space; only the used part is touched */
    size_t bytes = OBJECTS_MAX * sizeof(struct object);
    struct map *map = NULL;

    if (!walk.is_forced && is_true_still(known))
        return 0; /* usually generated code */
    if (known) {
        walk.known_adds = known->adds;
        walk.known_subs = known->subs;
    }
    walk.object = meta_map(bytes);
    if (!walk.object)
        return -ENOMEM;
    (void)dl_iterate_phdr(collect_object, &walk);
    if (!walk.is_unchanged)
        map = build_map(&walk);
    meta_unmap(walk.object, bytes);
    if (map)
        publish_map(map);
    return map || walk.is_unchanged ? 0 : -ENOMEM;
}

static const struct range *range_holding(uintptr_t address)
{
    return range_holding_in(atomic_load_explicit(&current, memory_order_acquire), address);
}

int modules_init(const void *self)
{
    own_address = (uintptr_t)self;
    return reload_map(true);
}

uint32_t modules_at(uintptr_t address)
{
    const struct range *range = range_holding(address);

    if (!range && reload_map(false) == 0)
        range = range_holding(address);
    return range ? range->module : 0;
}

void modules_reload(void)
{
    (void)reload_map(true);
}

uint32_t modules_generation(void)
{
    return atomic_load_explicit(&generation, memory_order_acquire);
}

void modules_walked(uint32_t module)
{
    if (module <= INTERN_MODULES_MAX
            && !atomic_load_explicit(&walked[module], memory_order_relaxed))
        atomic_store_explicit(&walked[module], true, memory_order_relaxed);
}

uint32_t modules_replaced(void)
{
    return atomic_load_explicit(&replaced, memory_order_acquire);
}

bool modules_has_gone(void)
{
    return atomic_load_explicit(&gone_count, memory_order_relaxed) > 0;
}

void modules_came(void)
{
    (void)reload_map(false);
}

uint32_t modules_without_build_id(void)
{
    return atomic_load_explicit(&without_build_id, memory_order_relaxed);
}

const struct intern_module *modules_main(void)
{
    return intern_module_at(atomic_load_explicit(&main_module, memory_order_acquire));
}

void modules_fork_child(void)
{
    lock_init(&lock, LOCK_RANK_TRACKER);
}
