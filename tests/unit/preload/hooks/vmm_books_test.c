/* SPDX-License-Identifier: MIT */
/* covers: hooks_vmm.c */
/*
 * The books of the program's own physical memory, with a driver that says yes to everything: references under one number
 * and under several, mappings, tiles of arrays, imports.
 */
#include "preload/base/vmm.h"
#include "preload/driver/contexts.h"
#include "preload/driver/life.h"
#include "preload/driver/resolve.h"
#include "preload/hints/pins.h"
#include "preload/request/dispatch.h"
#include "tests/check.h"

#include <limits.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#define MB ((size_t)1 << 20)

/* ---- what hooks_vmm.c calls ----------------------------------------------------------------- */

void *resolve_real[SLOT_COUNT];
atomic_uint stream_news;
atomic_bool hostwait_is_on;

struct hostwait hostwait_begin_slowly(enum hostwait_kind kind, CUstream stream, bool per_thread)
{
    (void)kind;
    (void)stream;
    (void)per_thread;
    return (struct hostwait){.stream = 0};
}

void hostwait_end_slowly(uint64_t stream, bool own)
{
    (void)stream;
    (void)own;
}

void hostwait_follow(CUstream stream, bool per_thread)
{
    (void)stream;
    (void)per_thread;
}

void stream_first(unsigned news)
{
    (void)news;
}

static struct {
    unsigned made, gone;
    enum memclass memclass; /* of the last that was made */
    uint64_t size, key, gone_key;
} book;

bool life_enter(int slot)
{
    (void)slot;
    return true;
}

void life_leave(void)
{
}

bool dispatch_more_room(struct pool_ladder *ladder)
{
    (void)ladder;
    return false;
}

bool dispatch_make_room(int result, uint64_t size, int device, struct pool_ladder *ladder)
{
    (void)result;
    (void)size;
    (void)device;
    (void)ladder;
    return false;
}

void dispatch_refused(int result, uint64_t size, int device, const struct pool_ladder *ladder)
{
    (void)result;
    (void)size;
    (void)device;
    (void)ladder;
}

int dispatch_device(void)
{
    return 0;
}

void dispatch_made(enum memclass memclass, uint64_t key, uint64_t size, int device)
{
    (void)device;
    book.made++;
    book.memclass = memclass;
    book.key = key;
    book.size = size;
}

static struct {
    unsigned mapped, unmapped;
    uint64_t key, size; /* of the last */
    devptr_t at;
} uses;

void dispatch_mapped(uint64_t key, devptr_t ptr, uint64_t size)
{
    if (size == 0) {
        uses.unmapped++;
    } else {
        uses.mapped++;
        uses.size = size;
    }
    uses.key = key;
    uses.at = ptr;
}

struct dispatch_end dispatch_end(uint64_t key)
{
    return (struct dispatch_end){.key = key};
}

void dispatch_ended(const struct dispatch_end *end, int result)
{
    if (!end->key || result)
        return;
    book.gone++;
    book.gone_key = end->key;
}

/* No block of the pool's is retained here. */
void pins_take_one(struct pins *pins, enum pins_owner owner, uint64_t id)
{
    (void)pins;
    (void)owner;
    (void)id;
}

void pins_undo(struct pins *pins)
{
    (void)pins;
}

void pins_give_back(struct pins *pins, enum pins_owner owner, uint64_t id)
{
    (void)pins;
    (void)owner;
    (void)id;
}

/* ---- a driver ------------------------------------------------------------------------------- */

static CUmemGenericAllocationHandle next_handle = 100;

static CUresult create(CUmemGenericAllocationHandle *ret_handle, size_t size,
        const CUmemAllocationProp *prop, unsigned long long flags)
{
    (void)size;
    (void)prop;
    (void)flags;
    *ret_handle = next_handle;
    return CUDA_SUCCESS;
}

static CUresult import(
        CUmemGenericAllocationHandle *ret_handle, void *os_handle, CUmemAllocationHandleType type)
{
    (void)os_handle;
    (void)type;
    *ret_handle = next_handle;
    return CUDA_SUCCESS;
}

/* What an end comes to, and what another thread does while it is on its way back. */
static CUresult answer;
static void (*meanwhile)(void);

static CUresult ends(void)
{
    void (*now)(void) = meanwhile;

    meanwhile = NULL;
    if (now)
        now();
    return answer;
}

static CUresult release(CUmemGenericAllocationHandle handle)
{
    (void)handle;
    return ends();
}

static CUresult map(CUdeviceptr ptr, size_t size, size_t offset,
        CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    (void)ptr;
    (void)size;
    (void)offset;
    (void)handle;
    (void)flags;
    return CUDA_SUCCESS;
}

static CUresult unmap(CUdeviceptr ptr, size_t size)
{
    (void)ptr;
    (void)size;
    return ends();
}

static CUresult map_array(CUarrayMapInfo *infos, unsigned count, CUstream stream)
{
    (void)infos;
    (void)count;
    (void)stream;
    return ends();
}

static void begin(void)
{
    answer = CUDA_SUCCESS;
    meanwhile = NULL;
    memset(&book, 0, sizeof book);
    resolve_real[SLOT_cuMemCreate] = (void *)create;
    resolve_real[SLOT_cuMemImportFromShareableHandle] = (void *)import;
    resolve_real[SLOT_cuMemRelease] = (void *)release;
    resolve_real[SLOT_cuMemMap] = (void *)map;
    resolve_real[SLOT_cuMemUnmap] = (void *)unmap;
    resolve_real[SLOT_cuMemMapArrayAsync] = (void *)map_array;
}

static CUmemGenericAllocationHandle new_handle(size_t size)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    CUmemGenericAllocationHandle handle = 0;

    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    REQUIRE_EQ(cuMemCreate(&handle, size, &prop, 0), CUDA_SUCCESS);
    return handle;
}

/* ---- handles -------------------------------------------------------------------------------- */

TEST(a_number_that_is_retained_anew_stands_for_the_first)
{
    CUmemGenericAllocationHandle handle;

    begin();
    handle = new_handle(4 * MB);
    CHECK_EQ(book.memclass, MEMCLASS_VMM);
    CHECK_EQ(cuMemMap(0x10000000, 4 * MB, 0, handle, 0), CUDA_SUCCESS);
    vmm_retained(777, 0x10000000 + 5000); /* the driver's own choice of a number */
    vmm_retained(777, 0x10000000);
    CHECK_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    CHECK_EQ(cuMemUnmap(0x10000000, 4 * MB), CUDA_SUCCESS);
    CHECK_EQ(book.gone, 0);
    CHECK_EQ(cuMemMap(0x20000000, 4 * MB, 0, 777, 0), CUDA_SUCCESS); /* under either number */
    CHECK_EQ(cuMemRelease(777), CUDA_SUCCESS);
    CHECK_EQ(cuMemRelease(777), CUDA_SUCCESS);
    CHECK_EQ(book.gone, 0);
    CHECK_EQ(cuMemUnmap(0x20000000, 4 * MB), CUDA_SUCCESS);
    CHECK_EQ(book.gone, 1);
    CHECK_EQ(book.gone_key, book.key);
    CHECK_EQ(cuMemRelease(777), CUDA_SUCCESS); /* it means nothing any more */
    CHECK_EQ(book.gone, 1);
}

TEST(one_unmap_may_take_several_mappings)
{
    CUmemGenericAllocationHandle a, b;

    begin();
    a = new_handle(2 * MB);
    next_handle++;
    b = new_handle(2 * MB);
    for (unsigned i = 0; i < 4; i++)
        CHECK_EQ(cuMemMap(0x10000000 + i * 2 * MB, 2 * MB, 0, i % 2 ? b : a, 0), CUDA_SUCCESS);
    CHECK_EQ(cuMemRelease(a), CUDA_SUCCESS);
    CHECK_EQ(cuMemRelease(b), CUDA_SUCCESS);
    CHECK_EQ(cuMemUnmap(0x10000000, 6 * MB), CUDA_SUCCESS);
    CHECK_EQ(book.gone, 1);
    CHECK_EQ(cuMemUnmap(0x10000000 + 6 * MB, 2 * MB), CUDA_SUCCESS);
    CHECK_EQ(book.gone, 2);
}

TEST(uses_are_told_what_is_mapped_where)
{
    CUmemGenericAllocationHandle handle;

    begin();
    uses = (__typeof__(uses)){0};
    handle = new_handle(4 * MB);
    CHECK_EQ(cuMemMap(0x10000000, 2 * MB, 0, handle, 0), CUDA_SUCCESS);
    CHECK_EQ(uses.key, book.key);
    CHECK_EQ(uses.at, 0x10000000);
    CHECK_EQ(uses.size, 2 * MB);
    CHECK_EQ(cuMemMap(0x10000000 + 2 * MB, 2 * MB, 2 * MB, handle, 0), CUDA_SUCCESS);
    CHECK_EQ(uses.mapped, 2);
    CHECK_EQ(cuMemUnmap(0x10000000, 4 * MB), CUDA_SUCCESS);
    CHECK_EQ(uses.unmapped, 2);
    CHECK_EQ(uses.key, book.key);
    CHECK_EQ(cuMemRelease(handle), CUDA_SUCCESS);
}

TEST(an_import_that_is_never_mapped_is_on_no_record)
{
    CUmemGenericAllocationHandle handle = 0;

    begin();
    CHECK_EQ(cuMemImportFromShareableHandle(&handle, NULL, 1), CUDA_SUCCESS);
    CHECK_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    CHECK_EQ(book.made, 0);
    CHECK_EQ(book.gone, 0);
    CHECK_EQ(cuMemImportFromShareableHandle(&handle, NULL, 1), CUDA_SUCCESS);
    CHECK_EQ(cuMemMap(0x10000000, 2 * MB, 2 * MB, handle, 0), CUDA_SUCCESS);
    CHECK_EQ(book.memclass, MEMCLASS_IMPORTED);
    CHECK_EQ(book.size, 4 * MB); /* it is at least that large */
    CHECK_EQ(cuMemMap(0x20000000, 2 * MB, 0, handle, 0), CUDA_SUCCESS);
    CHECK_EQ(book.made, 1);
    CHECK_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    CHECK_EQ(cuMemUnmap(0x10000000, 2 * MB), CUDA_SUCCESS);
    CHECK_EQ(cuMemUnmap(0x20000000, 2 * MB), CUDA_SUCCESS);
    CHECK_EQ(book.gone, 1);
}

/* ---- numbers and addresses that come again --------------------------------------------------- */

static void makes_eight_mib(void)
{
    (void)new_handle(8 * MB);
}

static void maps_eight_mib(void)
{
    CHECK_EQ(cuMemMap(0x10000000, 8 * MB, 0, new_handle(8 * MB), 0), CUDA_SUCCESS);
}

/* Two blocks were made, one is gone, and the other is known by its own size until it goes. */
static void check_second(uint64_t ptr)
{
    CHECK_EQ(book.made, 2);
    CHECK_EQ(book.size, 8 * MB);
    CHECK_EQ(book.gone, 1);
    CHECK_EQ(cuMemRelease(next_handle), CUDA_SUCCESS);
    CHECK_EQ(book.gone, ptr ? 1 : 2);
    if (ptr)
        CHECK_EQ(cuMemUnmap(ptr, 8 * MB), CUDA_SUCCESS);
    CHECK_EQ(book.gone, 2);
}

TEST(a_handle_that_ends_with_its_mapping_may_be_anothers_at_once)
{
    CUmemGenericAllocationHandle handle;

    begin();
    handle = new_handle(2 * MB);
    CHECK_EQ(cuMemMap(0x10000000, 2 * MB, 0, handle, 0), CUDA_SUCCESS);
    CHECK_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    meanwhile = makes_eight_mib; /* the driver gives it the same number */
    CHECK_EQ(cuMemUnmap(0x10000000, 2 * MB), CUDA_SUCCESS);
    check_second(0);
}

TEST(an_address_that_is_unmapped_may_be_mapped_at_once)
{
    CUmemGenericAllocationHandle handle;

    begin();
    handle = new_handle(2 * MB);
    CHECK_EQ(cuMemMap(0x10000000, 2 * MB, 0, handle, 0), CUDA_SUCCESS);
    CHECK_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    meanwhile = maps_eight_mib;
    CHECK_EQ(cuMemUnmap(0x10000000, 2 * MB), CUDA_SUCCESS);
    CHECK_EQ(uses.size, 8 * MB);
    check_second(0x10000000);
}

TEST(a_handle_that_ends_with_its_release_may_be_anothers_at_once)
{
    begin();
    meanwhile = makes_eight_mib;
    CHECK_EQ(cuMemRelease(new_handle(2 * MB)), CUDA_SUCCESS);
    check_second(0);
}

TEST(what_the_driver_does_not_end_stays_in_the_books)
{
    CUmemGenericAllocationHandle handle;

    begin();
    handle = new_handle(2 * MB);
    answer = CUDA_ERROR_ILLEGAL_ADDRESS;
    CHECK_EQ(cuMemRelease(handle), answer);
    answer = CUDA_SUCCESS;
    CHECK_EQ(cuMemMap(0x10000000, 2 * MB, 0, handle, 0), CUDA_SUCCESS);
    vmm_retained(777, 0x10000000);
    CHECK_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    answer = CUDA_ERROR_ILLEGAL_ADDRESS;
    CHECK_EQ(cuMemUnmap(0x10000000, 2 * MB), answer);
    CHECK_EQ(uses.size, 2 * MB); /* there again */
    CHECK_EQ(cuMemRelease(777), answer);
    CHECK_EQ(book.gone, 0);
    answer = CUDA_SUCCESS;
    CHECK_EQ(cuMemRelease(777), CUDA_SUCCESS);
    CHECK_EQ(book.gone, 0);
    CHECK_EQ(cuMemUnmap(0x10000000, 2 * MB), CUDA_SUCCESS);
    CHECK_EQ(book.gone, 1);
    CHECK_EQ(cuMemRelease(777), CUDA_SUCCESS);
    CHECK_EQ(book.gone, 1);
}

/* ---- tiles of arrays ------------------------------------------------------------------------ */

static CUarrayMapInfo tile(uintptr_t array, unsigned x, CUmemGenericAllocationHandle handle)
{
    CUarrayMapInfo info;

    memset(&info, 0, sizeof info);
    info.resource.array = (CUarray)array;
    info.subresource.sparseLevel.offsetX = x;
    info.subresource.sparseLevel.extentWidth = 64;
    info.memOperationType = handle ? 1 : 2;
    info.memHandle.memHandle = handle;
    return info;
}

TEST(what_is_mapped_into_an_array_lives_until_it_is_unmapped_or_the_array_is_gone)
{
    CUmemGenericAllocationHandle a, b;
    CUarrayMapInfo infos[2];

    begin();
    a = new_handle(2 * MB);
    next_handle++;
    b = new_handle(2 * MB);
    infos[0] = tile(0x5000, 0, a);
    infos[1] = tile(0x5000, 64, b);
    CHECK_EQ(cuMemMapArrayAsync(infos, 2, NULL), CUDA_SUCCESS);
    CHECK_EQ(cuMemRelease(a), CUDA_SUCCESS);
    CHECK_EQ(cuMemRelease(b), CUDA_SUCCESS);
    CHECK_EQ(book.gone, 0);
    infos[0] = tile(0x5000, 0, 0);
    CHECK_EQ(cuMemMapArrayAsync(infos, 1, NULL), CUDA_SUCCESS);
    CHECK_EQ(book.gone, 1);
    vmm_array_ended(vmm_array_ends(0x6000), CUDA_SUCCESS); /* another one */
    CHECK_EQ(book.gone, 1);
    vmm_array_ended(vmm_array_ends(0x5000), CUDA_SUCCESS);
    CHECK_EQ(book.gone, 2);
}

TEST(a_tile_that_is_mapped_over_lets_go_of_what_was_there)
{
    CUmemGenericAllocationHandle a, b;
    CUarrayMapInfo info;

    begin();
    a = new_handle(2 * MB);
    next_handle++;
    b = new_handle(2 * MB);
    info = tile(0x5000, 0, a);
    CHECK_EQ(cuMemMapArrayAsync(&info, 1, NULL), CUDA_SUCCESS);
    CHECK_EQ(cuMemRelease(a), CUDA_SUCCESS);
    info = tile(0x5000, 0, b);
    CHECK_EQ(cuMemMapArrayAsync(&info, 1, NULL), CUDA_SUCCESS);
    CHECK_EQ(book.gone, 1);
    CHECK_EQ(cuMemRelease(b), CUDA_SUCCESS);
    CHECK_EQ(book.gone, 1);
    vmm_array_ended(vmm_array_ends(0x5000), CUDA_SUCCESS);
    CHECK_EQ(book.gone, 2);
}

/* A driver that refuses the call, as before cuInit, reads nothing of its list, so that there need not be one. */
TEST(a_list_of_tiles_that_the_driver_refuses_is_read_as_far_as_it_is_one)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *room = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CUarrayMapInfo *last;
    CUmemGenericAllocationHandle handle;

    begin();
    REQUIRE(room != MAP_FAILED && mprotect(room + page, page, PROT_NONE) == 0);
    last = (CUarrayMapInfo *)(void *)(room + page) - 1;
    answer = CUDA_ERROR_NOT_INITIALIZED;
    CHECK_EQ(cuMemMapArrayAsync((CUarrayMapInfo *)(uintptr_t)64, UINT_MAX, NULL), answer);
    answer = CUDA_SUCCESS;
    handle = new_handle(2 * MB);
    *last = tile(0x5000, 0, handle);
    CHECK_EQ(cuMemMapArrayAsync(last, 1, NULL), CUDA_SUCCESS);
    CHECK_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    answer = CUDA_ERROR_INVALID_VALUE;
    *last = tile(0x5000, 0, 0);
    CHECK_EQ(cuMemMapArrayAsync(last, UINT_MAX, NULL),
            answer); /* it ends where nothing can be read */
    CHECK_EQ(cuMemMapArrayAsync(NULL, 1, NULL), answer);
    last->memOperationType = 77; /* or where no operation is one */
    CHECK_EQ(cuMemMapArrayAsync(last, UINT_MAX, NULL), answer);
    CHECK_EQ(book.gone, 0);
    answer = CUDA_SUCCESS;
    *last = tile(0x5000, 0, 0);
    CHECK_EQ(cuMemMapArrayAsync(last, 1, NULL), CUDA_SUCCESS);
    CHECK_EQ(book.gone, 1);
    (void)munmap(room, 2 * page);
}

/* A number of a tile's place, and a tile that differs from another one in it alone. */
struct tile_number {
    size_t at, size;
};
#define TILE_NUMBER(name)                                                    \
    {                                                                        \
        offsetof(CUarrayMapInfo, name), sizeof((CUarrayMapInfo *)NULL)->name \
    }

static CUarrayMapInfo tile_with(unsigned type, const struct tile_number *number, size_t byte)
{
    CUarrayMapInfo info = tile(0x5000, 0, 0);

    memset(&info.subresource, 0, sizeof info.subresource);
    info.subresourceType = type;
    if (number)
        ((unsigned char *)&info)[number->at + byte] = 1;
    return info;
}

/* Both are mapped, and the other one is unmapped: `info` is still there. */
static void are_different(CUarrayMapInfo info, CUarrayMapInfo other)
{
    CUmemGenericAllocationHandle handle = new_handle(2 * MB);

    book.gone = 0;
    info.memOperationType = 1;
    info.memHandle.memHandle = handle;
    CHECK_EQ(cuMemMapArrayAsync(&info, 1, NULL), CUDA_SUCCESS);
    CHECK_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    CHECK_EQ(cuMemMapArrayAsync(&other, 1, NULL), CUDA_SUCCESS);
    CHECK_EQ(book.gone, 0);
    info.memOperationType = 2;
    CHECK_EQ(cuMemMapArrayAsync(&info, 1, NULL), CUDA_SUCCESS);
    CHECK_EQ(book.gone, 1);
}

TEST(each_byte_of_a_tiles_place_tells_it_from_others)
{
    static const struct tile_number level[] = {TILE_NUMBER(subresource.sparseLevel.level),
            TILE_NUMBER(subresource.sparseLevel.layer),
            TILE_NUMBER(subresource.sparseLevel.offsetX),
            TILE_NUMBER(subresource.sparseLevel.offsetY),
            TILE_NUMBER(subresource.sparseLevel.offsetZ),
            TILE_NUMBER(subresource.sparseLevel.extentWidth),
            TILE_NUMBER(subresource.sparseLevel.extentHeight),
            TILE_NUMBER(subresource.sparseLevel.extentDepth)};
    static const struct tile_number tail[] = {TILE_NUMBER(subresource.miptail.layer),
            TILE_NUMBER(subresource.miptail.offset), TILE_NUMBER(subresource.miptail.size)};

    begin();
    for (size_t i = 0; i < sizeof level / sizeof level[0]; i++)
        for (size_t byte = 0; byte < level[i].size; byte++)
            are_different(tile_with(0, &level[i], byte), tile_with(0, NULL, 0));
    for (size_t i = 0; i < sizeof tail / sizeof tail[0]; i++)
        for (size_t byte = 0; byte < tail[i].size; byte++)
            are_different(tile_with(1, &tail[i], byte), tile_with(1, NULL, 0));
    are_different(tile_with(0, NULL, 0), tile_with(1, NULL, 0));
}

/* It is shorter than the place of another tile and has a gap; the program need not fill the rest. */
TEST(what_lies_beside_the_numbers_of_a_tails_place_does_not_matter)
{
    CUarrayMapInfo info;

    begin();
    info = tile_with(1, NULL, 0);
    info.memOperationType = 1;
    info.memHandle.memHandle = new_handle(2 * MB);
    CHECK_EQ(cuMemMapArrayAsync(&info, 1, NULL), CUDA_SUCCESS);
    CHECK_EQ(cuMemRelease(info.memHandle.memHandle), CUDA_SUCCESS);
    memset(&info.subresource, 0x55, sizeof info.subresource);
    info.subresource.miptail.layer = 0;
    info.subresource.miptail.offset = 0;
    info.subresource.miptail.size = 0;
    info.memOperationType = 2;
    CHECK_EQ(cuMemMapArrayAsync(&info, 1, NULL), CUDA_SUCCESS);
    CHECK_EQ(book.gone, 1);
}

static void makes_four_mib(void)
{
    (void)new_handle(4 * MB);
}

TEST(a_handle_that_ends_with_its_tile_may_be_anothers_at_once)
{
    CUarrayMapInfo info;

    begin();
    info = tile(0x5000, 0, new_handle(2 * MB));
    CHECK_EQ(cuMemMapArrayAsync(&info, 1, NULL), CUDA_SUCCESS);
    CHECK_EQ(cuMemRelease(next_handle), CUDA_SUCCESS);
    info = tile(0x5000, 0, 0);
    answer = CUDA_ERROR_ILLEGAL_ADDRESS;
    CHECK_EQ(cuMemMapArrayAsync(&info, 1, NULL), answer);
    CHECK_EQ(book.gone, 0);
    answer = CUDA_SUCCESS;
    meanwhile = makes_four_mib;
    CHECK_EQ(cuMemMapArrayAsync(&info, 1, NULL), CUDA_SUCCESS);
    CHECK_EQ(book.made, 2);
    CHECK_EQ(book.gone, 1);
    CHECK_EQ(cuMemRelease(next_handle), CUDA_SUCCESS);
    CHECK_EQ(book.gone, 2);
}
