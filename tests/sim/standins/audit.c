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
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/sim/standins/audit_names.h"
#include "tests/sim/standins/audit_tls.h"

#define EXPORT __attribute__((visibility("default")))

static char folder[4096]; /* of this file, with the slash */

/* Keeps the folder of the object that has the address; 1: this was it. */
static int audit_keep_folder(struct dl_phdr_info *object, size_t size, void *address)
{
    const char *slash = strrchr(object->dlpi_name, '/');

    (void)size;
    for (size_t i = 0; slash && i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        size_t length = (size_t)(slash - object->dlpi_name) + 1;

        if (part->p_type == PT_LOAD && length < sizeof folder
                && (uintptr_t)address - object->dlpi_addr - part->p_vaddr < part->p_memsz) {
            memcpy(folder, object->dlpi_name, length);
            return 1;
        }
    }
    return 0;
}

EXPORT unsigned la_version(unsigned version);
/* Not by dladdr: that of glibc 2.31 crashes in an auditor. */
EXPORT unsigned la_version(unsigned version)
{
    if (dl_iterate_phdr(audit_keep_folder, (void *)&la_version) == 0)
        return 0; /* not wanted */
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

/* The path of the file beside this one, or NULL. */
static char *audit_beside(const char *base)
{
    static const char *const parts[] = {"", "nccl/", "standins/"};
    static char path[sizeof folder + 256];

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        int length = snprintf(path, sizeof path, "%s%s%s", folder, parts[i], base);

        if (length > 0 && length < (int)sizeof path && access(path, R_OK) == 0)
            return path;
    }
    return NULL;
}

/*
 * A name without a version, as Paddle and a toolkit of CUDA 11 have them, is a link beside the file
 * in a build; a wheel holds no links.
 */
static char *audit_unversioned(const char *base)
{
    static const char *const named[] = {"libcuda.so.1", "libnccl.so.2", "libcublas.so.11",
            "libcublasLt.so.11", "libcudnn.so.8", "libcufft.so.10", "libcurand.so.10",
            "libcusolver.so.11", "libcusparse.so.11"};
    size_t length = strlen(base);

    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (strncmp(named[i], base, length) == 0 && strncmp(base + length - 3, ".so", 3) == 0
                && named[i][length] == '.')
            return audit_beside(named[i]);
    return NULL;
}

EXPORT char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag);
EXPORT char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag)
{
    const char *base = strrchr(name, '/');
    char *path;

    (void)cookie;
    (void)flag;
    base = base ? base + 1 : name;
    if (!audit_is_ours(base) || audit_is_preloaded(name))
        return (char *)(uintptr_t)name;
    path = audit_beside(base);
    path = path ? path : audit_unversioned(base);
    return path ? path : (char *)(uintptr_t)name;
}

EXPORT unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie);
EXPORT unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie)
{
    *cookie = (uintptr_t)map;
    if (space == LM_ID_BASE) {
        audit_tls_add(map->l_name);
        audit_names_add(map, strncmp(map->l_name, folder, strlen(folder)) == 0);
    }
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

EXPORT void la_preinit(uintptr_t *cookie);
EXPORT void la_preinit(uintptr_t *cookie)
{
    (void)cookie;
    audit_tls_end();
}
