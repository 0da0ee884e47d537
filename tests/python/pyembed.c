/* SPDX-License-Identifier: MIT */
/*
 * pyembed.c - a C program that loads an interpreter late, ends it, starts it again, and asks for memory all the while.
 *
 *     pyembed LIBPYTHON HOME TIMES [TEXT]      TIMES: 1, or 2 to start it again; TEXT: what it runs instead
 *
 * Sizes: 1000 before, 1500 with the library there and not started, 2001 and 2002 from within, 3001 and 3002 between and behind. 0 = all of it worked.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int (*cuda_alloc)(uint64_t *ret_ptr, size_t size);

static int take(size_t size)
{
    uint64_t ptr;

    return cuda_alloc(&ptr, size);
}

static int start_device(void)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned flags);
    int (*retain)(void **ret_context, int device);
    int (*current)(void *context);
    void *context;

    if (!cuda)
        return -1;
    *(void **)&init = dlsym(cuda, "cuInit");
    *(void **)&retain = dlsym(cuda, "cuDevicePrimaryCtxRetain");
    *(void **)&current = dlsym(cuda, "cuCtxSetCurrent");
    *(void **)&cuda_alloc = dlsym(cuda, "cuMemAlloc_v2");
    return init(0) || retain(&context, 0) || current(context);
}

static int with_python(void *python, unsigned time, const char *given)
{
    void (*initialize)(int signals);
    int (*run)(const char *text);
    int (*finish)(void);
    char text[512];

    *(void **)&initialize = dlsym(python, "Py_InitializeEx");
    *(void **)&run = dlsym(python, "PyRun_SimpleString");
    *(void **)&finish = dlsym(python, "Py_FinalizeEx");
    if (!initialize || !run || !finish)
        return -1;
    initialize(0);
    (void)snprintf(text, sizeof text,
            "import ctypes\n"
            "def inside():\n"
            "    if ctypes.CDLL('libcuda.so.1').cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), "
            "ctypes.c_size_t(200%u)):\n"
            "        raise MemoryError\n"
            "inside()\n",
            time);
    return run(given ? given : text) || finish() || take(3000 + time);
}

int main(int argc, char **argv)
{
    void *python;

    if (argc < 4 || setenv("PYTHONHOME", argv[2], 1) != 0 || start_device() || take(1000))
        return 2;
    python = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    if (!python) {
        (void)fprintf(stderr, "%s\n", dlerror());
        return 3;
    }
    return take(1500) || with_python(python, 1, argv[4])
            || (*argv[3] == '2' && with_python(python, 2, argv[4]));
}
