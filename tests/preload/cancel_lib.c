/* SPDX-License-Identifier: MIT */
/* What a C++ library does when its thread is cancelled: the unwinder runs the cleanups of each frame (-fexceptions). */
#include <unistd.h>

void cancel_here(int *cleaned, int depth);

static void clean(int **cleaned)
{
    ++**cleaned;
}

void cancel_here(int *cleaned, int depth)
{
    __attribute__((cleanup(clean))) int *frame = cleaned;

    if (depth > 0)
        cancel_here(frame, depth - 1);
    while (depth == 0)
        (void)pause(); /* until it is cancelled here */
}
