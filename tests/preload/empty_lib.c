/* SPDX-License-Identifier: MIT */
/* A library that has nothing of what anybody asks it for. */
int empty_lib(void);

int empty_lib(void)
{
    return 0;
}
