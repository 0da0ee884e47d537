/* SPDX-License-Identifier: MIT */
/* Lies beside deep_lib.c's library, in a folder of its own. */
int deep_sub(void);

int deep_sub(void)
{
    return 42;
}
