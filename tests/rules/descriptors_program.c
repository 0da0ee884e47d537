/* SPDX-License-Identifier: MIT */
/*
 * descriptors_program KIND ACTION MOMENT - a program that takes its descriptors for its own, as they are.
 *
 * KIND    sync, stream, graph, ipc, evict: how it uses the device. evict: of the blocks of MODEL a hint keeps some on the device
 * ACTION  close: all descriptors from 3 on; over: a file of its own over every number but 1; full: every number that it may have
 *         is taken, but for the one that the runtime needs to open the driver; none: it opens files before all else, and no more
 * MOMENT  0 before the first CUDA call, 1 after it, 2 between, 3 between in another thread, 4 in a child of a fork, 5 in a child
 *         that was forked before CUDA was used
 *
 * Afterwards it writes records to files and reads them back beside its work on the device. It prints which numbers it got and
 * what its files hold. Exit status 0: what it wrote, byte for byte, and the device's content is right.
 */
#include "preload/base/kedge.h"

#include <cuda_runtime_api.h>

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    STEPS = 8,
    RECORD = 8,  /* bytes of one */
    RECORDS = 4, /* of a step, for each file */
    FILES = 2,
    NUMBERS = 64,
    BLOCK = 1 << 20, /* bytes of the device's memory */
    WORDS = 64,      /* of them that are looked at */
    KEPT = 9,        /* blocks of MODEL; their sizes are those of the hints */
};

static const char *kind, *action;
static int moment;
static int file[FILES] = {-1, -1};
static unsigned written;
static int wrong;

static void must(int result, const char *what)
{
    if (result == 0)
        return;
    printf("%s: %d\n", what, result);
    (void)fflush(stdout);
    _exit(3);
}

static void open_files(void)
{
    for (int i = 0; i < FILES; i++) {
        char name[32];

        (void)snprintf(name, sizeof name, "records.%d", i);
        file[i] = open(name, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
        if (file[i] < 0)
            must(-1, name);
    }
    if (strcmp(kind, "ipc") != 0) /* an export has descriptors, whoever makes it */
        printf("files have %d and %d\n", file[0], file[1]);
}

static void act(void)
{
    struct rlimit limit;

    if (strcmp(action, "close") == 0)
        closefrom(3);
    open_files();
    if (strcmp(action, "over") == 0) {
        for (int number = 0; number < NUMBERS; number++)
            if (number != STDOUT_FILENO && number != file[0] && number != file[1]
                    && dup2(file[number % FILES], number) < 0)
                must(-1, "dup2");
    }
    if (strcmp(action, "full") == 0) {
        must(getrlimit(RLIMIT_NOFILE, &limit), "getrlimit");
        limit.rlim_cur = NUMBERS;
        must(setrlimit(RLIMIT_NOFILE, &limit), "setrlimit");
        while (dup(file[1]) >= 0) {}
        if (moment == 0 || moment == 5)
            must(close(NUMBERS - 1), "close");
    }
}

static void write_records(void)
{
    for (int i = 0; i < RECORDS && file[0] >= 0; i++, written++)
        for (int j = 0; j < FILES; j++) {
            char text[RECORD + 1], back[RECORD];

            (void)snprintf(text, sizeof text, "%c%06u\n", 'a' + j, written % 1000000);
            if (write(file[j], text, RECORD) != RECORD
                    || pread(file[j], back, RECORD, (off_t)written * RECORD) != RECORD
                    || memcmp(text, back, RECORD) != 0)
                wrong++;
        }
}

/* What the files hold in the end, under whatever number. */
static void check_files(void)
{
    for (int j = 0; j < FILES && file[0] >= 0; j++) {
        char name[32], text[RECORD + 1], back[RECORD];
        struct stat status;
        FILE *in;

        (void)snprintf(name, sizeof name, "records.%d", j);
        (void)close(STDIN_FILENO); /* a number for the next one */
        in = fopen(name, "re");
        if (!in || fstat(fileno(in), &status) || status.st_size != (off_t)written * RECORD) {
            printf("%s has %ld bytes, not %u\n", name, in ? (long)status.st_size : -1,
                    written * RECORD);
            wrong++;
        }
        for (unsigned i = 0; in && i < written; i++) {
            (void)snprintf(text, sizeof text, "%c%06u\n", 'a' + j, i % 1000000);
            wrong += fread(back, 1, RECORD, in) != RECORD || memcmp(text, back, RECORD) != 0;
        }
        if (in)
            (void)fclose(in);
    }
}

/* ---- the device ----------------------------------------------------------------------------- */

static void use(void *block, int step)
{
    unsigned char bytes[WORDS];

    must(cudaMemset(block, step + 1, BLOCK), "cudaMemset");
    must(cudaMemcpy(bytes, block, sizeof bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    for (int i = 0; i < WORDS; i++)
        wrong += bytes[i] != step + 1;
}

static void step_on_stream(int step)
{
    static cudaStream_t stream;
    void *blocks[3];

    if (!stream)
        must(cudaStreamCreate(&stream), "cudaStreamCreate");
    for (int i = 0; i < 3; i++)
        must(cudaMallocAsync(&blocks[i], (size_t)BLOCK << i, stream), "cudaMallocAsync");
    must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    use(blocks[0], step);
    for (int i = 0; i < 3; i++)
        must(cudaFreeAsync(blocks[i], stream), "cudaFreeAsync");
    must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

static void step_of_graph(void *block, int step)
{
    cudaGraphExec_t instance;
    cudaStream_t stream;
    cudaGraph_t graph;

    must(cudaStreamCreate(&stream), "cudaStreamCreate");
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin");
    must(cudaMemsetAsync(block, step + 1, BLOCK, stream), "cudaMemsetAsync");
    must(cudaStreamEndCapture(stream, &graph), "end");
    must(cudaGraphInstantiate(&instance, graph, 0), "cudaGraphInstantiate");
    must(cudaGraphLaunch(instance, stream), "cudaGraphLaunch");
    must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    must(cudaGraphExecDestroy(instance), "cudaGraphExecDestroy");
    must(cudaGraphDestroy(graph), "cudaGraphDestroy");
    must(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

/* ---- blocks that go out and come in --------------------------------------------------------- */

static void *model[KEPT];

static size_t model_bytes(int i)
{
    return (size_t)(1 + i % 3) * 2 * BLOCK;
}

static void make_model(void)
{
    KEDGE_PUSH("MODEL");
    for (int i = 0; i < KEPT; i++)
        must(cudaMalloc(&model[i], model_bytes(i)), "cudaMalloc");
    KEDGE_POP();
    for (int i = 0; i < KEPT; i++)
        must(cudaMemset(model[i], i + 1, model_bytes(i)), "cudaMemset");
}

/* Each holds what it held, at its end as at its begin. */
static void use_model(void)
{
    unsigned char bytes[WORDS];

    KEDGE_PUSH("step");
    for (int i = 0; i < KEPT; i++) {
        char *last = (char *)model[i] + model_bytes(i) - WORDS / 2;

        must(cudaMemcpy(bytes, model[i], WORDS / 2, cudaMemcpyDeviceToHost), "cudaMemcpy");
        must(cudaMemcpy(bytes + WORDS / 2, last, WORDS / 2, cudaMemcpyDeviceToHost), "cudaMemcpy");
        for (int j = 0; j < WORDS; j++)
            wrong += bytes[j] != i + 1;
    }
    KEDGE_POP();
}

/* Deeper each time, so that pages of the stack are new. */
static __attribute__((noinline)) void step_deeply(int step, int depth)
{
    volatile char room[1500];

    room[0] = (char)depth;
    if (depth > 0) {
        step_deeply(step, depth - 1);
    } else if (strcmp(kind, "stream") == 0) {
        step_on_stream(step);
    } else {
        void *block = NULL;

        must(cudaMalloc(&block, BLOCK), "cudaMalloc");
        if (strcmp(kind, "graph") == 0)
            step_of_graph(block, step);
        if (strcmp(kind, "ipc") == 0) {
            cudaIpcMemHandle_t handle;

            (void)cudaIpcGetMemHandle(&handle, block); /* it needs descriptors, and may fail */
        }
        use(block, step);
        if (strcmp(kind, "evict") == 0)
            use_model();
        must(cudaFree(block), "cudaFree");
    }
    room[1] = room[0];
}

static void *step_in_a_thread(void *argument)
{
    int step = *(int *)argument;

    if (moment == 3 && step == STEPS / 2)
        act();
    step_deeply(step, step);
    return NULL;
}

static void work(void)
{
    cudaIpcMemHandle_t handle;
    void *kept = NULL; /* its export is there when the descriptors go, and ends later */

    if (strcmp(kind, "ipc") == 0) {
        must(cudaMalloc(&kept, BLOCK), "cudaMalloc");
        (void)cudaIpcGetMemHandle(&handle, kept);
    }
    if (strcmp(kind, "evict") == 0)
        make_model();
    for (int step = 0; step < STEPS; step++) {
        pthread_t thread;

        step_deeply(step, 2 * step);
        must(pthread_create(&thread, NULL, step_in_a_thread, &step), "pthread_create");
        must(pthread_join(thread, NULL), "pthread_join");
        if ((moment == 1 && step == 0) || (moment == 2 && step == STEPS / 2))
            act();
        write_records();
    }
    for (int i = 0; i < KEPT; i++)
        must(cudaFree(model[i]), "cudaFree");
    must(cudaFree(kept), "cudaFree");
    if (kept)
        must(cudaDeviceReset(), "cudaDeviceReset");
    write_records();
    check_files();
}

static int end(void)
{
    printf("%u records, %d wrong\n", written, wrong);
    (void)fflush(stdout);
    return wrong ? 1 : 0;
}

/* A child that the program forks: after CUDA it may not use it. */
static int in_a_child(void)
{
    int status = 0;
    pid_t child;

    (void)fflush(stdout);
    child = fork();
    if (child == 0) {
        act();
        if (moment == 5)
            work();
        for (int i = 0; i < STEPS; i++)
            write_records();
        check_files();
        _exit(end());
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 3;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
    int status = 0;

    if (argc != 4)
        return 2;
    kind = argv[1];
    action = argv[2];
    moment = atoi(argv[3]);
    if (moment == 5)
        return in_a_child();
    if (moment == 0)
        act();
    work();
    if (moment == 4) {
        written = 0;
        status = in_a_child();
    } else {
        status = end();
    }
    return status;
}
