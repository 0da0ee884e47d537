/* SPDX-License-Identifier: MIT */
/* covers: nvtx.c */
/* The path of another NVTX tool. */
#include "preload/anchors/nvtx_chain.h"
#include "preload/base/msg.h"
#include "preload/driver/resolve.h"
#include "tests/check.h"

#include <limits.h>

void *(*resolve_real_dlsym(void))(void *, const char *)
{
    return NULL;
}

void msg_warn(const char *format, ...)
{
    (void)format;
}

static const void *no_table(uint32_t id)
{
    (void)id;
    return NULL;
}

/* A path with its end is PATH_MAX bytes at most: a longer one names no file. */
TEST(a_path_that_is_too_long_is_no_tool)
{
    static char path[PATH_MAX + 2];

    memset(path, '/', PATH_MAX + 1);
    nvtx_chain_set(path);
    CHECK(!nvtx_chain_is_set());
    path[PATH_MAX] = '\0';
    nvtx_chain_set(path);
    CHECK(!nvtx_chain_is_set());
    path[PATH_MAX - 1] = '\0';
    nvtx_chain_set(path);
    CHECK(nvtx_chain_is_set());
    CHECK(nvtx_chain_open(no_table)); /* as if it had not been named */
    CHECK(!nvtx_chain_is_open());
}
