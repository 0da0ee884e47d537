/* SPDX-License-Identifier: MIT */
#include "common.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTEXTS      64
#define NOTES         64
#define UNKNOWN_ERROR 999 /* of the driver */
#define RELAXED       2   /* capture mode */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void *standin_new(size_t bytes)
{
    return calloc(1, bytes);
}

void standin_note(const char *name, const char *what)
{
    static const char *noted[NOTES];
    static unsigned count;
    bool known = false;

    (void)pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < count && !known; i++)
        known = strcmp(noted[i], name) == 0;
    if (!known && count < NOTES)
        noted[count++] = name;
    (void)pthread_mutex_unlock(&lock);
    if (!known)
        (void)fprintf(stderr, "stand-in: %s %s\n", name, what);
}

/* ---- the driver ---- */

enum kernel {
    DIGEST,
    PRODUCT,
    KERNELS
};
static const char *const kernel_names[KERNELS] = {"kedge_digest", "kedge_product"};
static const char ptx[] =
        ".version 7.0\n.target sm_80\n.address_size 64\n"
        ".visible .entry kedge_digest(.param .u64 out, .param .u64 bytes, .param .u64 a,"
        " .param .u64 a_bytes, .param .u64 b, .param .u64 b_bytes, .param .u64 seed) { ret; }\n"
        ".visible .entry kedge_product(.param .align 8 .b8 product[216]) { ret; }\n";
_Static_assert(sizeof(struct value_product) == 216, "as the text says");

static struct {
    void *context, *kernel[KERNELS];
} contexts[CONTEXTS];
static unsigned contexts_count;

/* The functions of the driver that are used here, as they are called. */
typedef int (*current_fn)(void **);
typedef int (*mode_fn)(int *);
typedef int (*load_fn)(void **, const void *);
typedef int (*get_fn)(void **, void *, const char *);
typedef int (*launch_fn)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
        unsigned, void *, void **, void **);

typedef int (*copy_fn)(uint64_t, uint64_t, size_t, void *);
typedef int (*set_fn)(uint64_t, unsigned, size_t, void *);
typedef int (*alloc_fn)(uint64_t *, size_t);
typedef int (*free_fn)(uint64_t);

static void *driver(const char *name)
{
    static void *handle;

    if (!handle)
        handle = dlopen("libcuda.so.1", RTLD_LAZY);
    return handle ? dlsym(handle, name) : NULL;
}

/* With the lock. A module may be loaded while a stream is captured, in relaxed mode. */
static bool load(void *ret_kernels[KERNELS])
{
    mode_fn exchange = (mode_fn)driver("cuThreadExchangeStreamCaptureMode");
    load_fn load_data = (load_fn)driver("cuModuleLoadData");
    get_fn get = (get_fn)driver("cuModuleGetFunction");
    int mode = RELAXED;
    bool is_loaded = true;
    void *module = NULL;

    if (!exchange || !load_data || !get || exchange(&mode) != 0)
        return false;
    is_loaded = load_data(&module, ptx) == 0;
    for (unsigned i = 0; i < KERNELS && is_loaded; i++)
        is_loaded = get(&ret_kernels[i], module, kernel_names[i]) == 0;
    (void)exchange(&mode);
    return is_loaded;
}

/* A kernel of the calling thread's context, or NULL. */
static void *kernel_here(enum kernel which)
{
    current_fn current = (current_fn)driver("cuCtxGetCurrent");
    void *context = NULL, *kernel = NULL;

    if (!current || current(&context) != 0 || !context)
        return NULL;
    (void)pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < contexts_count && !kernel; i++)
        if (contexts[i].context == context)
            kernel = contexts[i].kernel[which];
    if (!kernel && contexts_count < CONTEXTS && load(contexts[contexts_count].kernel)) {
        contexts[contexts_count].context = context;
        kernel = contexts[contexts_count++].kernel[which];
    }
    (void)pthread_mutex_unlock(&lock);
    return kernel;
}

void standin_begin(void)
{
    (void)kernel_here(DIGEST);
}

/* ---- what is computed ---- */

uint64_t standin_seed(const char *name, const int64_t *numbers, unsigned count)
{
    uint64_t hash = 0xcbf29ce484222325U;

    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3U;
    for (unsigned i = 0; i < count; i++)
        hash = (hash ^ (uint64_t)numbers[i]) * 0x100000001b3U;
    return hash;
}

uint64_t standin_extent(int64_t rows, int64_t columns, int64_t leading, uint64_t element)
{
    return rows > 0 && columns > 0 ? (uint64_t)((columns - 1) * leading + rows) * element : 0;
}

int standin_compute(void *stream, uint64_t seed, void *out, uint64_t bytes, bool adds,
        const struct operand *operands, unsigned count)
{
    launch_fn launch = (launch_fn)driver("cuLaunchKernel");
    void *kernel = kernel_here(DIGEST);
    struct operand pair[2] = {{out, adds ? bytes : 0}, {NULL, 0}};
    unsigned taken = adds ? 1 : 0, next = 0;
    int error = 0;

    if (!out || bytes == 0)
        return 0;
    if (!kernel || !launch)
        return UNKNOWN_ERROR;
    /* Two at a time; from the second launch on, the result so far is the first of them. */
    do {
        for (; next < count && taken < 2; next++)
            if (operands[next].at && operands[next].bytes)
                pair[taken++] = operands[next];
        error = launch(kernel, 1, 1, 1, 1, 1, 1, 0, stream,
                (void *[]){&out, &bytes, &pair[0].at, &pair[0].bytes, &pair[1].at, &pair[1].bytes,
                        &seed},
                NULL);
        pair[0] = (struct operand){out, bytes};
        pair[1] = (struct operand){NULL, 0};
        taken = 1;
    } while (next < count && error == 0);
    if (error != 0)
        (void)fprintf(stderr, "stand-in: a launch failed with %d\n", error);
    return error;
}

int standin_write(void *stream, const char *name, const struct operand *outs, unsigned out_count,
        const struct operand *reads, unsigned read_count)
{
    uint64_t seed = standin_seed(name, NULL, 0);
    int error = 0;

    for (unsigned i = 0; i < out_count && error == 0; i++)
        error = standin_compute(stream, seed + i, (void *)(uintptr_t)outs[i].at, outs[i].bytes,
                false, reads, read_count);
    return error;
}

int standin_set(void *stream, int *at, int value, uint64_t count)
{
    set_fn set = (set_fn)driver("cuMemsetD32Async");

    if (!at || count == 0)
        return 0;
    return set ? set((uint64_t)(uintptr_t)at, (unsigned)value, count, stream) : UNKNOWN_ERROR;
}

void *standin_device_new(size_t bytes)
{
    alloc_fn alloc = (alloc_fn)driver("cuMemAlloc_v2");
    uint64_t at = 0;

    return alloc && alloc(&at, bytes) == 0 ? (void *)(uintptr_t)at : NULL;
}

void standin_device_delete(void *at)
{
    free_fn release = (free_fn)driver("cuMemFree_v2");

    if (at && release)
        (void)release((uint64_t)(uintptr_t)at);
}

static bool is_computed(int64_t type)
{
    return type == PRODUCT_FLOAT || type == PRODUCT_DOUBLE || type == PRODUCT_HALF
            || type == PRODUCT_BFLOAT;
}

bool standin_multiplies(const struct value_product *p)
{
    double most = PRODUCT_MOST;

    return is_computed(p->a.type) && is_computed(p->b.type) && is_computed(p->c.type) && p->rows > 0
            && p->columns > 0 && p->depth > 0 && p->count > 0
            && (double)p->rows * (double)p->columns * (double)p->depth * (double)p->count <= most;
}

int standin_product(void *stream, struct value_product *product)
{
    launch_fn launch = (launch_fn)driver("cuLaunchKernel");
    void *kernel = kernel_here(PRODUCT);

    if (!kernel || !launch)
        return UNKNOWN_ERROR;
    return launch(kernel, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){product}, NULL);
}

int standin_copy(void *stream, void *to, const void *from, uint64_t bytes)
{
    copy_fn copy = (copy_fn)driver("cuMemcpyDtoDAsync_v2");

    if (to == from || bytes == 0)
        return 0;
    return copy ? copy((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, bytes, stream)
                : UNKNOWN_ERROR;
}
