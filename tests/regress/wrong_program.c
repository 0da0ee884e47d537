/* SPDX-License-Identifier: MIT */
/*
 * A program that uses memory after the anchor in which a hint says that its life ends, and hides what comes of it.
 *
 *     wrong_program USE HIDE
 *
 *     USE   right    nothing is used later: the hint is right
 *           named    a kernel is given the address
 *           table    a kernel reads the address in device memory, which no call names
 *           copy     copied to the host
 *           written  a kernel writes there
 *     HIDE  ignored  no code is looked at; the sum of all that was read is printed
 *           silent   the same, and nothing is printed
 *           caught   a failed call makes the program go on with what it has; it prints that it has ended
 *           digest   one bit of the sum is printed
 *           thread   the work is done by another thread, whose end nobody asks for
 *           child    by a process whose status nobody looks at
 *           leaves   by a process that ends by _exit
 *           killed   by a process that ends by a signal if a call has failed
 *           dies     by a process that ends by a signal in any case
 *           daemon   by a process of a session of its own that outlives the program; nothing is printed
 *           unseen   by a process that is started anew without LD_PRELOAD
 *           execs    the process becomes another program afterwards
 *           closed   every descriptor is closed before
 *           turns    two threads ask for the blocks of a step, one after the other; the first one's is as USE says
 */
#include "tests/sim/base/program_abi.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES ((size_t)4 << 20)
#define STEPS 3

static const char module_text[] = ".version 6.0\n.target sm_70\n.address_size 64\n"
                                  ".visible .entry kedge_fill(.param .u64 dst, .param .u64 bytes, "
                                  ".param .u32 seed)\n{\n    ret;\n}\n"
                                  ".visible .entry kedge_sum(.param .u64 sum, .param .u64 src, "
                                  ".param .u64 bytes)\n{\n    ret;\n}\n"
                                  ".visible .entry kedge_sum_at(.param .u64 sum, .param .u64 at, "
                                  ".param .u64 bytes)\n{\n    ret;\n}\n";

static void *driver;
static const char *use, *hide;
static void (*push)(const char *), (*pop)(void);
static CUfunction fill, sum, sum_at;
static CUdeviceptr result, table;
static int failures;

#define DRIVER(symbol) ((__typeof__(&(symbol)))dlsym(driver, #symbol))

static bool is(const char *word, const char *name)
{
    return strcmp(word, name) == 0;
}

/* Nobody looks at it; but a process that is to be killed for it counts. */
static void lax(CUresult code)
{
    failures += code != CUDA_SUCCESS;
}

static void launch(CUfunction kernel, void **params)
{
    lax(DRIVER(cuLaunchKernel)(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
}

static void enter(const char *name)
{
    if (push)
        push(name);
}

static void leave(void)
{
    if (pop)
        pop();
}

static void use_late(CUdeviceptr block)
{
    uint64_t bytes = BYTES;
    uint32_t seed = 9;
    static char host[BYTES];

    if (is(use, "named"))
        launch(sum, (void *[]){&result, &block, &bytes});
    else if (is(use, "table"))
        launch(sum_at, (void *[]){&result, &table, &bytes});
    else if (is(use, "copy"))
        lax(DRIVER(cuMemcpyDtoH_v2)(host, block, BYTES));
    else if (is(use, "written"))
        launch(fill, (void *[]){&block, &bytes, &seed});
    for (size_t i = 0; is(use, "copy") && i < BYTES; i += 4096)
        failures += host[i] == 77; /* so that it is read */
}

static CUcontext context;

static void *take(void *ret_block)
{
    lax(DRIVER(cuCtxSetCurrent)(context));
    lax(DRIVER(cuMemAlloc_v2)(ret_block, BYTES));
    return NULL;
}

static void take_by_thread(CUdeviceptr *ret_block)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, take, ret_block) == 0)
        (void)pthread_join(thread, NULL);
}

static void step(void)
{
    uint64_t bytes = BYTES;
    uint32_t seed = 7;
    CUdeviceptr block = 0, other = 0;

    enter("step");
    enter("forward");
    if (is(hide, "turns")) {
        take_by_thread(&block);
        take_by_thread(&other);
    } else {
        (void)take(&block);
    }
    launch(fill, (void *[]){&block, &bytes, &seed});
    lax(DRIVER(cuMemcpyHtoD_v2)(table, &block, sizeof block));
    launch(sum, (void *[]){&result, &block, &bytes});
    lax(DRIVER(cuCtxSynchronize)());
    leave();
    enter("backward");
    usleep(2000); /* what is released has gone */
    use_late(block);
    lax(DRIVER(cuCtxSynchronize)());
    lax(DRIVER(cuMemFree_v2)(block));
    if (other)
        lax(DRIVER(cuMemFree_v2)(other));
    leave();
    leave();
}

static void *work(void *unused)
{
    CUmodule module;
    uint64_t total = 0;

    lax(DRIVER(cuInit)(0));
    lax(DRIVER(cuDevicePrimaryCtxRetain)(&context, 0));
    lax(DRIVER(cuCtxSetCurrent)(context));
    lax(DRIVER(cuModuleLoadData)(&module, module_text));
    lax(DRIVER(cuModuleGetFunction)(&fill, module, "kedge_fill"));
    lax(DRIVER(cuModuleGetFunction)(&sum, module, "kedge_sum"));
    lax(DRIVER(cuModuleGetFunction)(&sum_at, module, "kedge_sum_at"));
    lax(DRIVER(cuMemAlloc_v2)(&result, 4096));
    lax(DRIVER(cuMemAlloc_v2)(&table, 4096));
    lax(DRIVER(cuMemsetD8_v2)(result, 0, 4096));
    for (int i = 0; i < STEPS && (failures == 0 || !is(hide, "caught")); i++)
        step();
    lax(DRIVER(cuMemcpyDtoH_v2)(&total, result, sizeof total));
    if (is(hide, "dies") || (is(hide, "killed") && failures > 0))
        (void)raise(SIGKILL);
    if (is(hide, "digest"))
        (void)printf("%d\n", (int)(total & 1));
    else if (is(hide, "caught"))
        (void)puts("done");
    else if (!is(hide, "silent") && !is(hide, "daemon"))
        (void)printf("sum %" PRIx64 "\n", total);
    (void)fflush(stdout);
    return unused;
}

/* The processes that the program starts, or becomes. */
static int in_process(char **argv)
{
    pid_t child = fork();

    if (child == 0 && is(hide, "unseen")) {
        (void)execlp("env", "env", "-u", "LD_PRELOAD", argv[0], use, "ignored", (char *)NULL);
        _exit(4);
    }
    if (child == 0 && is(hide, "daemon") && (setsid() < 0 || fork() > 0))
        _exit(0);
    if (child == 0) {
        if (is(hide, "daemon"))
            usleep(300000); /* the program has ended */
        (void)work(NULL);
        if (is(hide, "leaves"))
            _exit(0);
        return failures ? 9 : 0;
    }
    (void)waitpid(child, NULL, 0);
    return 0;
}

int main(int argc, char **argv)
{
    static const char *const processes[] = {
            "child", "leaves", "killed", "dies", "daemon", "unseen"};
    pthread_t thread;

    if (argc < 3)
        return 2;
    use = argv[1];
    hide = argv[2];
    push = (__typeof__(push))dlsym(RTLD_DEFAULT, "kedge_push");
    pop = (__typeof__(pop))dlsym(RTLD_DEFAULT, "kedge_pop");
    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver)
        return 3;
    if (is(hide, "thread"))
        return pthread_create(&thread, NULL, work, NULL) || pthread_join(thread, NULL);
    for (size_t i = 0; i < sizeof processes / sizeof *processes; i++)
        if (is(hide, processes[i]))
            return in_process(argv);
    for (int fd = 0; fd < 1024 && is(hide, "closed"); fd++)
        (void)close(fd);
    (void)work(NULL);
    if (is(hide, "execs"))
        (void)execl("/bin/true", "true", (char *)NULL);
    return 0;
}
