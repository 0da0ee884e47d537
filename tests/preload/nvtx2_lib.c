/* SPDX-License-Identifier: MIT */
/*
 * A libnvToolsExt: the functions of NVTX 2 that our test calls. Built twice: one knows no tool, the other (INJECTS) looks for an
 * injection library as NVTX 3 does and hands on to what that gave it.
 */
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

static int nvtx2_calls;
int nvtx2_count(void);

int nvtx2_count(void)
{
    return nvtx2_calls;
}

#ifdef INJECTS
#    define nvtxRangePushA  header_push
#    define nvtxRangePop    header_pop
#    define nvtxRangeStartA header_start
#    define nvtxRangeEnd    header_end
#    define nvtxMarkA       header_mark
#    include "tests/trainers/include/nvtx.h"
#    undef nvtxRangePushA
#    undef nvtxRangePop
#    undef nvtxRangeStartA
#    undef nvtxRangeEnd
#    undef nvtxMarkA
#    define HANDED(call, without) call
#else
#    define HANDED(call, without) without
#endif

int nvtxRangePushA(const char *name);
int nvtxRangePushW(const wchar_t *name);
int nvtxRangePop(void);
uint64_t nvtxRangeStartA(const char *name);
void nvtxRangeEnd(uint64_t id);
void nvtxMarkA(const char *name);

int nvtxRangePushA(const char *name)
{
    nvtx2_calls += name != NULL;
    return HANDED(header_push(name), -2);
}

int nvtxRangePushW(const wchar_t *name)
{
    nvtx2_calls += name != NULL;
    return -2;
}

int nvtxRangePop(void)
{
    nvtx2_calls++;
    return HANDED(header_pop(), -2);
}

uint64_t nvtxRangeStartA(const char *name)
{
    nvtx2_calls += name != NULL;
    return HANDED(header_start(name), 0);
}

void nvtxRangeEnd(uint64_t id)
{
    nvtx2_calls += id != 0;
    HANDED(header_end(id), (void)0);
}

void nvtxMarkA(const char *name)
{
    nvtx2_calls += name != NULL;
    HANDED(header_mark(name), (void)0);
}
