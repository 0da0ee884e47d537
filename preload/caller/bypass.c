/* SPDX-License-Identifier: MIT */
#include "preload/caller/bypass.h"

#include "preload/base/linked.h"

#include "alloc/base/wildcard.h"
#include "tracker/base/config.h"
#include "tracker/stacks/intern.h"
#include "tracker/stacks/modules.h"

#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

__thread const void *bypass_asker __attribute__((tls_model("initial-exec")));

enum {
    WALK_FRAMES = 16,
};

static const char default_names[] =
        "libnccl*,libnvshmem*,libucp*,libucs*,libuct*,libucm*,libgdrapi*";
static const char framework_names[] =
        "libtorch_cuda.so*,libc10_cuda.so*,libpaddle.so*,libphi.so*,libphi_gpu.so*,libphi_core.so*,"
        "xla_extension.so*,xla_cuda_plugin.so*,libtensorflow_framework.so*,libtensorflow_cc.so*";

/*
 * A framework, and the settings under which its allocations reach the driver one by one: any of
 * them is enough.
 */
static const struct framework {
    const char *name;
    const char *library;
    const char *advice;
    bool depends; /* the program decides: it cannot be told from outside */
    struct {
        const char *variable;
        const char *value; /* substring of the value; NULL = the variable need only be set */
        bool perhaps;      /* only in some versions of the framework */
    } uncached[5];
} frameworks[] = {
        {"PyTorch", "libc10_cuda.so*", "PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync", false,
                {{"PYTORCH_CUDA_ALLOC_CONF", "cudaMallocAsync", false},
                        {"PYTORCH_ALLOC_CONF", "cudaMallocAsync", false},
                        {"PYTORCH_NO_CUDA_MEMORY_CACHING", NULL, false}}},
        /* Paddle 2.6 has no asynchronous allocator, and ignores an unknown flag silently. */
        {"PaddlePaddle", "libpaddle.so*", "FLAGS_use_system_allocator=1", false,
                {{"FLAGS_use_system_allocator", "1", false},
                        {"FLAGS_use_system_allocator", "true", false},
                        {"FLAGS_use_cuda_malloc_async_allocator", "1", true},
                        {"FLAGS_use_cuda_malloc_async_allocator", "true", true}}},
        /* platform is a pool of physical handles in JAX 0.10. */
        {"JAX", "xla_cuda_plugin.so*,xla_extension.so*,libjax_common.so*",
                "XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async", false,
                {{"XLA_PYTHON_CLIENT_ALLOCATOR", "cuda_async", false},
                        {"XLA_PYTHON_CLIENT_ALLOCATOR", "platform", true}}},
        {"TensorFlow", "libtensorflow_framework.so*,libtensorflow_cc.so*",
                "TF_GPU_ALLOCATOR=cuda_malloc_async", false,
                {{"TF_GPU_ALLOCATOR", "cuda_malloc", false}}},
        {"CuPy", "*/cupy/cuda/memory.*so", "cupy.cuda.set_allocator(None) in the program", true,
                {{NULL, NULL, false}}},
        {"RMM", "librmm.so*", "a resource without a pool in the program", true,
                {{NULL, NULL, false}}},
};

static const char *more_names = "";

/* Per module number: 0 not asked, 1 no, 2 yes. */
static atomic_uchar module_known[INTERN_MODULES_MAX];

void bypass_init(const char *names)
{
    more_names = names;
}

/* Globs match the base name, or the end of the path if they contain a slash. */
static bool in_list(const char *list, const char *path)
{
    char glob[128];

    while (*list) {
        size_t n = strcspn(list, ",");

        if (n > 0 && n < sizeof glob) {
            memcpy(glob, list, n);
            glob[n] = '\0';
            if (wildcard_match(glob, strchr(glob, '/') ? path : linked_base(path)))
                return true;
        }
        list += n + (list[n] == ',' ? 1 : 0);
    }
    return false;
}

static bool module_wants(uint32_t number, const struct intern_module *module)
{
    unsigned char answer;
    const char *path;

    if (!module || number >= INTERN_MODULES_MAX)
        return false;
    answer = atomic_load_explicit(&module_known[number], memory_order_relaxed);
    if (answer == 0) {
        path = intern_text(module->path);
        answer = in_list(default_names, path) || in_list(more_names, path) ? 2 : 1;
        atomic_store_explicit(&module_known[number], answer, memory_order_relaxed);
    }
    return answer == 2;
}

/* ---- is a library of that name loaded? ---- */

/* The sum of the loader's counts as last reported; it only grows. */
static _Atomic(uint64_t) loader_changes;

void bypass_loader_says(uint64_t changes)
{
    uint64_t before = atomic_load_explicit(&loader_changes, memory_order_relaxed);

    while (before < changes
            && !atomic_compare_exchange_weak_explicit(&loader_changes, &before, changes,
                    memory_order_release, memory_order_relaxed)) {}
}

/* Search for a library that is on one of the lists. */
struct search {
    const char *list, *more;
    uint64_t changes; /* the loader's counts for the objects that were walked */
};

static int bypass_find_library(struct dl_phdr_info *info, size_t size, void *data)
{
    struct search *search = data;

    if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs)
        search->changes = info->dlpi_adds + info->dlpi_subs;
    return info->dlpi_name
            && (in_list(search->list, info->dlpi_name) || in_list(search->more, info->dlpi_name));
}

/*
 * `known`: the answer, with the sum of counts that it is valid for above it; 0: none yet. The
 * counts are those of the objects that were walked, so an outdated answer is not taken for a later
 * one.
 */
static bool is_present(const char *list, const char *more, _Atomic(uint64_t) *known)
{
    uint64_t answer = atomic_load_explicit(known, memory_order_acquire);
    struct search search = {list, more, 0};

    if (answer == 0 || answer >> 1 < atomic_load_explicit(&loader_changes, memory_order_acquire)) {
        answer = dl_iterate_phdr(bypass_find_library, &search) != 0;
        answer |= search.changes << 1;
        atomic_store_explicit(known, answer, memory_order_release);
    }
    return answer & 1;
}

static bool list_is_there(void)
{
    static _Atomic(uint64_t) known;

    return is_present(default_names, more_names, &known);
}

/* ---- the module that asks for memory ---- */

/*
 * The module that contains an address. Not by dladdr: a thread that opens a library holds the lock
 * that dladdr takes, and may wait for us.
 */
static const struct intern_module *bypass_module_of(const void *address, uint32_t *ret_number)
{
    *ret_number = modules_at((uintptr_t)address);
    return intern_module_at(*ret_number);
}

/* Modules between a caller and the driver: the runtime, the driver, libkedge.so, the C library. */
static bool is_between(const struct intern_module *module)
{
    return module->kind != INTERN_MODULE_PROGRAM;
}

/*
 * Finds the first frame outside CUDA by a short walk of our own: only where no stack was taken, the
 * runtime is shared and a library of the list is loaded.
 */
static bool walk_wants(void)
{
    void *ips[WALK_FRAMES];
    int n = backtrace(ips, WALK_FRAMES);

    for (int i = 0; i < n; i++) {
        uint32_t number;
        const struct intern_module *module = bypass_module_of(ips[i], &number);

        if (module && !is_between(module))
            return module_wants(number, module);
    }
    return false;
}

/* The calling module; if that is the runtime, the module that called the runtime, where known. */
static const struct intern_module *module_behind(
        const void *caller, const void *asker, uint32_t *ret_number)
{
    const struct intern_module *module = bypass_module_of(caller, ret_number);

    return module && is_between(module) && asker ? bypass_module_of(asker, ret_number) : module;
}

bool bypass_wants(const struct tag *tag, const void *caller, const void *asker)
{
    const struct intern_module *module;
    struct intern_frame frame;
    uint32_t number;

    if (tag->stack && intern_frames(tag->stack, &frame, 1) == 1)
        return module_wants(frame.module, intern_module_at(frame.module));
    module = module_behind(caller, asker, &number);
    if (!module)
        return false;
    if (!is_between(module))
        return module_wants(number, module);
    return list_is_there() && walk_wants();
}

bool bypass_spares(const void *caller, const void *asker)
{
    uint32_t number;
    const struct intern_module *module = module_behind(caller, asker, &number);

    if (!module)
        return false;
    return is_between(module) ? !list_is_there() : !module_wants(number, module);
}

/* ---- frameworks ---- */

enum uncached {
    UNCACHED_NO,
    UNCACHED_PERHAPS,
    UNCACHED_YES,
};

static enum uncached how_uncached(const struct framework *framework)
{
    const size_t most = sizeof framework->uncached / sizeof *framework->uncached;
    enum uncached answer = framework->depends ? UNCACHED_PERHAPS : UNCACHED_NO;

    for (size_t i = 0; i < most && framework->uncached[i].variable; i++) {
        const char *value = config_env(environ, framework->uncached[i].variable);

        if (!value
                || (framework->uncached[i].value && !strstr(value, framework->uncached[i].value)))
            continue;
        if (!framework->uncached[i].perhaps)
            return UNCACHED_YES;
        answer = UNCACHED_PERHAPS;
    }
    return answer;
}

int bypass_caching_framework(unsigned which, struct bypass_caching *ret_caching)
{
    const struct framework *framework = &frameworks[which];
    struct search search = {.more = ""};
    enum uncached uncached;

    if (which >= sizeof frameworks / sizeof *frameworks)
        return -ENOENT;
    search.list = framework->library;
    uncached = how_uncached(framework);
    *ret_caching = (struct bypass_caching){
            .name = framework->name,
            .library = framework->library,
            .advice = framework->advice,
            .is_on = dl_iterate_phdr(bypass_find_library, &search) && uncached != UNCACHED_YES,
            .is_certain = uncached == UNCACHED_NO,
    };
    return 0;
}

bool bypass_framework_known(void)
{
    static _Atomic(uint64_t) known;

    return is_present(framework_names, "", &known);
}
