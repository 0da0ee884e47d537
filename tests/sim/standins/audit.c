/* SPDX-License-Identifier: MIT */
/*
 * audit.c - the loader finds the simulated device where a program asks for NVIDIA's libraries.
 *
 *     LD_AUDIT=sim/libsimaudit.so python train.py
 *
 *     DT_NEEDED and dlopen, by soname or by a path ─► la_objsearch ─► sim/, sim/nccl/, sim/standins/
 *
 * The published wheels have a DT_RPATH, which the loader follows before LD_LIBRARY_PATH, and
 * PyTorch opens some libraries by an absolute path: an auditor alone is asked first each time
 * (rtld-audit(7)). Only a file that is beside this one takes the place of what is asked for, and
 * never the place of a file that LD_PRELOAD names. NVRTC and nvJitLink need no device and stay
 * NVIDIA's own.
 *
 * The loader holds its lock around each call, and copies the answer: one buffer is enough, and no
 * thread-local memory is used, of which all libraries of a process under LD_AUDIT share little.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/sim/standins/audit_names.h"

#define EXPORT __attribute__((visibility("default")))

static char folder[4096]; /* of this file, with the slash */

EXPORT unsigned la_version(unsigned version);
EXPORT unsigned la_version(unsigned version)
{
    const char *slash;
    Dl_info own;

    if (dladdr((void *)&la_version, &own) == 0 || !own.dli_fname)
        return 0; /* not wanted */
    slash = strrchr(own.dli_fname, '/');
    if (!slash || (size_t)(slash - own.dli_fname) + 2 > sizeof folder)
        return 0;
    memcpy(folder, own.dli_fname, (size_t)(slash - own.dli_fname) + 1);
    return version < LAV_CURRENT ? version : LAV_CURRENT;
}

static bool audit_is_ours(const char *name)
{
    static const char *const ours[] = {"libcu", "libnvidia-ml.", "libnvshmem", "libnccl."};

    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (strncmp(name, ours[i], strlen(ours[i])) == 0)
            return true;
    return false;
}

/* Whether the user asks for just this file: LD_PRELOAD has it as a whole word. */
static bool audit_is_preloaded(const char *name)
{
    const char *list = getenv("LD_PRELOAD");
    size_t length;

    for (; list && *list; list += length + (list[length] != '\0')) {
        length = strcspn(list, ": ");
        if (strlen(name) == length && memcmp(list, name, length) == 0)
            return true;
    }
    return false;
}

EXPORT char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag);
EXPORT char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag)
{
    static const char *const parts[] = {"", "nccl/", "standins/"};
    static char path[sizeof folder + 256];
    const char *base = strrchr(name, '/');

    (void)cookie;
    (void)flag;
    base = base ? base + 1 : name;
    if (!audit_is_ours(base) || audit_is_preloaded(name))
        return (char *)(uintptr_t)name;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        int length = snprintf(path, sizeof path, "%s%s%s", folder, parts[i], base);

        if (length > 0 && length < (int)sizeof path && access(path, R_OK) == 0)
            return path;
    }
    return (char *)(uintptr_t)name;
}

EXPORT unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie);
EXPORT unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie)
{
    *cookie = (uintptr_t)map;
    if (space == LM_ID_BASE)
        audit_names_add(map, strncmp(map->l_name, folder, strlen(folder)) == 0);
    return 0; /* calls between objects are not looked at */
}

EXPORT unsigned la_objclose(uintptr_t *cookie);
EXPORT unsigned la_objclose(uintptr_t *cookie)
{
    audit_names_drop((const struct link_map *)*cookie);
    return 0;
}

EXPORT void la_activity(uintptr_t *cookie, unsigned flag);
EXPORT void la_activity(uintptr_t *cookie, unsigned flag)
{
    (void)cookie;
    if (flag == LA_ACT_CONSISTENT)
        audit_names_check();
}
