/* SPDX-License-Identifier: MIT */
/* A libunwind.so.8 that has nothing of what kedge asks it for. */
int empty_lib(void);

int empty_lib(void)
{
    return 0;
}
