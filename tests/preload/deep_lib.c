/* SPDX-License-Identifier: MIT */
/*
 * A library that is opened with RTLD_DEEPBIND, so that it sees its own dependencies before the program's symbols. It looks a
 * symbol up, and opens a library that lies in a folder only it knows of (RUNPATH), by calls of its own.
 */
#include <dlfcn.h>

void *deep_ask(void *handle, const char *name);
void *deep_open(const char *file, int mode);
void *deep_dlsym(void);

void *deep_ask(void *handle, const char *name)
{
    void *volatile found = dlsym(handle, name); /* a call: the caller is looked at */

    return found;
}

void *deep_open(const char *file, int mode)
{
    void *volatile opened = dlopen(file, mode);

    return opened;
}

/* The dlsym that this library is bound to. */
void *deep_dlsym(void)
{
    return (void *)dlsym;
}
