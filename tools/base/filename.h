/* SPDX-License-Identifier: MIT */
/* filename.h - parts of a path. Threads: any. No memory: results point into the path. */
#ifndef KEDGE_TOOLS_FILENAME_H
#define KEDGE_TOOLS_FILENAME_H

#include <string.h>

/* The name of a file without its folder. */
static inline const char *filename_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

#endif
