/* SPDX-License-Identifier: MIT */
/*
 * marks.c - a loop of steps that tells kedge where it is, and keeps a buffer for longer than it needs it.
 *
 *     cc marks.c $(pkg-config --cflags kedge) -I/usr/local/cuda/include -L/usr/local/cuda/lib64 -lcudart -o marks
 *     kedge run --capture marks.kcap -- ./marks         (--sim where there is no GPU)
 *     kedge report marks.kcap --by anchor
 *
 * Each step is an anchor, and so is its second part, "update". The workspace of 64 MiB is used in the first part alone, and
 * freed at the end of the step: in "update" it lies beside 96 MiB of other memory. release.yaml gives it back before that.
 * Without kedge the marks do nothing.
 */
#include <cuda_runtime_api.h>
#include <kedge.h>
#include <stdio.h>

#define MIB   ((size_t)1 << 20)
#define STEPS 3

static void *take(size_t bytes)
{
    void *ptr = NULL;

    if (cudaMalloc(&ptr, bytes) != cudaSuccess || cudaMemset(ptr, 0, bytes) != cudaSuccess)
        return NULL;
    return ptr;
}

/* The state grows into a new place, as an optimizer's does. */
static void *update(void *state)
{
    void *next;

    KEDGE_PUSH("update");
    next = take(96 * MIB);
    if (next)
        (void)cudaMemcpy(next, state, 32 * MIB, cudaMemcpyDeviceToDevice);
    KEDGE_POP();
    return next;
}

static int step(void *state)
{
    void *workspace;
    void *next;

    KEDGE_PUSH("step");
    workspace = take(64 * MIB);
    if (workspace)
        (void)cudaMemcpy(state, workspace, 32 * MIB, cudaMemcpyDeviceToDevice);
    KEDGE_MARK("workspace done");
    next = workspace ? update(state) : NULL;
    (void)cudaFree(next);
    (void)cudaFree(workspace);
    KEDGE_POP();
    return next != NULL;
}

int main(void)
{
    void *state = take(32 * MIB);
    int done = 0;

    while (state && done < STEPS && step(state))
        done++;
    (void)cudaFree(state);
    printf("%d steps\n", done);
    return done == STEPS ? 0 : 1;
}
