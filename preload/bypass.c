/* SPDX-License-Identifier: MIT */
#include "preload/bypass.h"

#include "alloc/hint.h"
#include "preload/config.h"
#include "tracker/intern.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

enum {
    WALK_FRAMES = 16,
};

static const char default_names[] =
        "libnccl*,libnvshmem*,libucp*,libucs*,libuct*,libucm*,libgdrapi*";
static const char framework_names[] =
        "libtorch_cuda.so*,libc10_cuda.so*,libpaddle.so*,libphi_gpu.so*,libphi_core.so*,"
        "xla_extension.so*,xla_cuda_plugin.so*,libtensorflow_framework.so*,libtensorflow_cc.so*";

/* A framework, and the settings under which its allocations reach the driver one by one: any of them will do. */
static const struct framework {
    const char *name;
    const char *library;
    const char *advice;
    struct {
        const char *variable;
        const char *value; /* contained in it */
    } uncached[4];
} frameworks[] = {
        {"PyTorch", "libc10_cuda.so*", "PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync",
                {{"PYTORCH_CUDA_ALLOC_CONF", "cudaMallocAsync"},
                        {"PYTORCH_ALLOC_CONF", "cudaMallocAsync"},
                        {"PYTORCH_NO_CUDA_MEMORY_CACHING", "1"}}},
        {"PaddlePaddle", "libpaddle.so*", "FLAGS_use_system_allocator=1",
                {{"FLAGS_use_system_allocator", "1"}, {"FLAGS_use_system_allocator", "true"},
                        {"FLAGS_use_cuda_malloc_async_allocator", "1"},
                        {"FLAGS_use_cuda_malloc_async_allocator", "true"}}},
        {"JAX", "xla_cuda_plugin.so*", "XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async",
                {{"XLA_PYTHON_CLIENT_ALLOCATOR", "cuda_async"},
                        {"XLA_PYTHON_CLIENT_ALLOCATOR", "platform"}}},
        {"TensorFlow", "libtensorflow_framework.so*", "TF_GPU_ALLOCATOR=cuda_malloc_async",
                {{"TF_GPU_ALLOCATOR", "cuda_malloc"}}},
};

static const char *more_names = "";

/* Per module number: 0 not asked, 1 no, 2 yes. */
static atomic_uchar known[INTERN_MODULES_MAX];

void bypass_init(const char *names)
{
    more_names = names;
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static bool in_list(const char *list, const char *name)
{
    char glob[128];

    while (*list) {
        size_t n = strcspn(list, ",");

        if (n > 0 && n < sizeof glob) {
            memcpy(glob, list, n);
            glob[n] = '\0';
            if (hint_glob(glob, name))
                return true;
        }
        list += n + (list[n] == ',' ? 1 : 0);
    }
    return false;
}

bool bypass_names(const char *base_name)
{
    return in_list(default_names, base_name) || in_list(more_names, base_name);
}

static bool module_wants(uint32_t number)
{
    const struct intern_module *module = intern_module_at(number);
    unsigned char answer;

    if (!module || number >= INTERN_MODULES_MAX)
        return false;
    answer = atomic_load_explicit(&known[number], memory_order_relaxed);
    if (answer == 0) {
        answer = bypass_names(base_of(intern_text(module->path))) ? 2 : 1;
        atomic_store_explicit(&known[number], answer, memory_order_relaxed);
    }
    return answer == 2;
}

static int find_named(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    (void)data;
    return info->dlpi_name && bypass_names(base_of(info->dlpi_name)) ? 1 : 0;
}

/* What stands between a caller and us: the runtime, the driver, we ourselves, the C library. */
static bool is_between(const char *name)
{
    return in_list("libcuda.so*,libcudart.so*,libcudart-*.so*,libkedge*,libc.so*", name);
}

/* The first frame outside CUDA, by a short walk of our own: only where no stack was taken, the runtime is shared and a
 * library of the list is there at all. */
static bool walk_wants(void)
{
    void *ips[WALK_FRAMES];
    int n = backtrace(ips, WALK_FRAMES);
    Dl_info info;

    for (int i = 0; i < n; i++) {
        if (!dladdr(ips[i], &info) || !info.dli_fname || is_between(base_of(info.dli_fname)))
            continue;
        return bypass_names(base_of(info.dli_fname));
    }
    return false;
}

bool bypass_wants(const struct tag *tag, const void *caller)
{
    struct intern_frame frame;
    Dl_info info;

    if (tag->stack && intern_frames(tag->stack, &frame, 1) == 1)
        return module_wants(frame.module);
    if (!dladdr(caller, &info) || !info.dli_fname)
        return false;
    if (!is_between(base_of(info.dli_fname)))
        return bypass_names(base_of(info.dli_fname));
    return dl_iterate_phdr(find_named, NULL) && walk_wants();
}

struct search {
    const char *list;
};

static int find_library(struct dl_phdr_info *info, size_t size, void *data)
{
    const struct search *search = data;

    (void)size;
    return info->dlpi_name && in_list(search->list, base_of(info->dlpi_name)) ? 1 : 0;
}

static bool is_uncached(const struct framework *framework)
{
    for (size_t i = 0; i < 4 && framework->uncached[i].variable; i++) {
        const char *value = config_env(framework->uncached[i].variable);

        if (value && strstr(value, framework->uncached[i].value))
            return true;
    }
    return false;
}

const char *bypass_caching_framework(const char **ret_switch)
{
    for (size_t i = 0; i < sizeof frameworks / sizeof *frameworks; i++) {
        struct search search = {frameworks[i].library};

        if (!dl_iterate_phdr(find_library, &search) || is_uncached(&frameworks[i]))
            continue;
        *ret_switch = frameworks[i].advice;
        return frameworks[i].name;
    }
    return NULL;
}

bool bypass_framework_known(void)
{
    static atomic_uchar answer; /* 0 not asked, 1 no, 2 yes */
    unsigned char known_answer = atomic_load_explicit(&answer, memory_order_relaxed);

    if (known_answer == 0) {
        struct search search = {framework_names};

        known_answer = dl_iterate_phdr(find_library, &search) ? 2 : 1;
        atomic_store_explicit(&answer, known_answer, memory_order_relaxed);
    }
    return known_answer == 2;
}
