/* SPDX-License-Identifier: MIT */
/* A library that keeps an address; scan_program.c loads it. */
void scan_keep(void *ptr);

static void *kept;

void scan_keep(void *ptr)
{
    kept = ptr;
}
