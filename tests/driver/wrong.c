/* SPDX-License-Identifier: MIT */
/* wrong.c - in the place of libkedge.so: changes what a program prints, so that `run --seen-red` has something to notice. */
#include <unistd.h>

__attribute__((constructor)) static void wrong_begin(void)
{
    (void)!write(STDOUT_FILENO, "wrong\n", 6);
}
