/* SPDX-License-Identifier: MIT */
#include "tests/sim/memory/sim_vmm.h"

#include "tests/sim/base/sim_faults.h"
#include "tests/sim/driver/sim_context.h"
#include "tests/sim/driver/sim_device.h"
#include "tests/sim/memory/sim_ipc.h"
#include "tests/sim/memory/sim_va.h"

#include <fcntl.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct reservation {
    uint64_t addr, size;
    unsigned char *was_mapped; /* per granule: so that remaps can be counted */
};

/* A freed piece of the arena. */
struct gap {
    uint64_t offset, size;
    struct gap *next;
};

/*
 * Shared memory for all that was not exported. It is mapped here as a whole, and a second time wherever a program maps a piece of
 * it, so that no descriptor is needed: the program may close those. With SIMCUDA_PHYSICAL=file it is a file.
 */
static char *arena;
static struct sim_file arena_file = {.fd = -1};
static uint64_t arena_size, arena_end;
static struct gap *gaps;
static void *physicals;    /* tsearch by handle */
static void *reservations; /* tsearch by address */
static CUmemGenericAllocationHandle next_handle = 0x5100000001;

/* A number that stands for nothing any more; the last one is given first, as the memory behind a driver's handle would be. */
struct spare {
    CUmemGenericAllocationHandle handle;
    struct spare *next;
};

static struct spare *spares;

static int order_physicals(const void *a, const void *b)
{
    const struct sim_physical *x = a, *y = b;

    return (x->handle > y->handle) - (x->handle < y->handle);
}

static int order_reservations(const void *a, const void *b)
{
    const struct reservation *x = a, *y = b;

    if (x->addr + x->size <= y->addr)
        return -1;
    return x->addr >= y->addr + y->size;
}

static struct sim_physical *find_physical(CUmemGenericAllocationHandle handle)
{
    const struct sim_physical key = {.handle = handle};
    struct sim_physical *const *found = tfind(&key, &physicals, order_physicals);

    return found && (*found)->handles ? *found : NULL;
}

struct sim_physical *sim_vmm_find(CUmemGenericAllocationHandle handle)
{
    return find_physical(handle);
}

CUmemGenericAllocationHandle sim_vmm_next_handle(void)
{
    struct spare *last = spares;
    CUmemGenericAllocationHandle handle;

    if (!last || !sim_config.handles_again)
        return next_handle++;
    handle = last->handle;
    spares = last->next;
    free(last);
    return handle;
}

void sim_vmm_handle_ends(CUmemGenericAllocationHandle handle)
{
    struct spare *spare = sim_new(sizeof(*spare));

    *spare = (struct spare){handle, spares};
    spares = spare;
}

static struct reservation *find_reservation(uint64_t addr)
{
    const struct reservation key = {.addr = addr, .size = 1};
    struct reservation *const *found = tfind(&key, &reservations, order_reservations);

    return found ? *found : NULL;
}

bool sim_vmm_is_reserved(uint64_t addr)
{
    return find_reservation(addr) != NULL;
}

unsigned sim_vmm_handle_types(const struct sim_physical *physical)
{
    return (unsigned)physical->prop.requestedHandleTypes;
}

/* ---- addresses ---- */

static int reserve(CUdeviceptr *ret_ptr, size_t size, size_t align, CUdeviceptr wanted,
        unsigned long long flags)
{
    struct reservation *made;
    uint64_t addr = 0;

    if (!ret_ptr || size == 0 || size % SIM_HOST_PAGE || flags || align & (align - 1))
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t whole = sim_round(size, SIM_GRANULE);
    if (wanted && (!align || wanted % align == 0))
        addr = sim_va_take_at(wanted, whole);
    if (!addr)
        addr = sim_va_take(whole, align);
    if (!addr)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made = sim_new(sizeof(*made));
    *made = (struct reservation){addr, size, sim_new(whole / SIM_GRANULE)};
    (void)tsearch(made, &reservations, order_reservations);
    *ret_ptr = addr;
    return 0;
}

CUresult cuMemAddressReserve(CUdeviceptr *ret_ptr, size_t size, size_t align, CUdeviceptr wanted,
        unsigned long long flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = reserve(ret_ptr, size, align, wanted, flags);
    sim_note(&call, " size=%zu ptr=0x%llx", size, r ? 0 : *ret_ptr);
    return sim_leave(&call, r);
}

static bool is_mapped(uint64_t addr, uint64_t size)
{
    for (uint64_t at = addr; at < addr + size; at += SIM_GRANULE)
        if (sim_ledger_find(at))
            return true;
    return false;
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);
    struct reservation *found = r ? NULL : find_reservation(ptr);

    sim_note(&call, " ptr=0x%llx size=%zu", ptr, size);
    if (r == 0 && (!found || found->addr != ptr || found->size != size || is_mapped(ptr, size)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0) {
        tdelete(found, &reservations, order_reservations);
        sim_va_give(ptr, sim_round(size, SIM_GRANULE));
        free(found->was_mapped);
        free(found);
    }
    return sim_leave(&call, r);
}

/* ---- physical memory ---- */

static int check_prop(const CUmemAllocationProp *prop)
{
    if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (prop->location.id < 0 || prop->location.id >= sim_config.devices)
        return CUDA_ERROR_INVALID_DEVICE;
    if ((unsigned)prop->requestedHandleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    return 0;
}

#define ARENA_MAX \
    (UINT64_C(1) << 40) /* of addresses; it is tried smaller where there are not so many */

static bool arena_open(void)
{
    int fd = arena_file.fd;

    if (sim_config.physical_file && fd < 0) {
        fd = memfd_create("simcuda", MFD_CLOEXEC);
        if (fd < 0)
            return false;
        arena_file = sim_file_of(fd);
    }
    for (uint64_t size = ARENA_MAX; !arena && size >= SIM_GRANULE; size /= 2) {
        if (fd >= 0 && ftruncate(fd, (off_t)size))
            continue;
        void *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);

        if (at == MAP_FAILED)
            continue;
        (void)madvise(at, size, MADV_DONTDUMP);
        (void)madvise(at, size, MADV_NOHUGEPAGE); /* one would back 2 MiB for a touch of 4 KiB */
        arena = at;
        arena_size = size;
    }
    return arena != NULL;
}

static uint64_t arena_take(uint64_t size)
{
    for (struct gap **link = &gaps; *link; link = &(*link)->next) {
        struct gap *gap = *link;
        if (gap->size != size)
            continue;
        uint64_t offset = gap->offset;
        *link = gap->next;
        free(gap);
        return offset;
    }
    if (size > arena_size - arena_end)
        return SIM_NEVER;
    arena_end += size;
    return arena_end - size;
}

static void arena_give(uint64_t offset, uint64_t size)
{
    struct gap *gap = sim_new(sizeof(*gap));

    *gap = (struct gap){offset, size, gaps};
    gaps = gap;
    if (madvise(arena + offset, size, MADV_REMOVE))
        sim_say("cannot give %llu bytes back to the host", (unsigned long long)size);
}

/* A file of its own, which can be handed to another process. */
static int file_open(uint64_t size)
{
    int fd = memfd_create("simcuda-shared", MFD_CLOEXEC);

    if (fd >= 0 && ftruncate(fd, (off_t)size)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static struct sim_physical *physical_add(
        const CUmemAllocationProp *prop, uint64_t size, int fd, uint64_t offset)
{
    struct sim_physical *made = sim_new(sizeof(*made));

    made->handle = sim_vmm_next_handle();
    made->prop = *prop;
    made->size = size;
    made->file = sim_file_of(fd);
    made->offset = offset;
    made->handles = 1;
    (void)tsearch(made, &physicals, order_physicals);
    return made;
}

static int create(CUmemGenericAllocationHandle *ret_handle, size_t size,
        const CUmemAllocationProp *prop, unsigned long long flags)
{
    int r = ret_handle ? check_prop(prop) : CUDA_ERROR_INVALID_VALUE;

    if (r)
        return r;
    if (size == 0 || size % SIM_GRANULE || flags)
        return CUDA_ERROR_INVALID_VALUE;
    r = sim_device_hold(prop->location.id, size);
    if (r)
        return r;
    uint64_t offset = arena_open() ? arena_take(size) : SIM_NEVER;
    if (offset == SIM_NEVER) {
        sim_say("no addresses or file for physical memory (ulimit -v, -n?)");
        sim_device_drop(prop->location.id, size);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ret_handle = physical_add(prop, size, -1, offset)->handle;
    return 0;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *ret_handle, size_t size,
        const CUmemAllocationProp *prop, unsigned long long flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT | SIM_NEED_SAFE);

    if (r == 0)
        r = create(ret_handle, size, prop, flags);
    if (r == 0)
        sim_gives(&call, *ret_handle, size);
    sim_note(&call, " size=%zu", size);
    return sim_leave(&call, r);
}

static void physical_put(struct sim_physical *physical)
{
    if (physical->handles || physical->mappings)
        return;
    sim_faults_freed();
    tdelete(physical, &physicals, order_physicals);
    if (physical->file.fd < 0)
        arena_give(physical->offset, physical->size);
    else
        sim_file_close(&physical->file);
    if (!physical->imported)
        sim_device_drop(physical->prop.location.id, physical->size);
    sim_vmm_handle_ends(physical->handle);
    free(physical);
}

void sim_vmm_unmapped(struct sim_physical *physical)
{
    physical->mappings--;
    physical_put(physical);
}

static int release(CUmemGenericAllocationHandle handle)
{
    struct sim_physical *physical = find_physical(handle);
    struct sim_multicast *multicast = physical ? NULL : sim_multicast_find(handle);

    if (multicast)
        return sim_multicast_release(multicast);
    if (!physical)
        return CUDA_ERROR_INVALID_VALUE;
    physical->handles--;
    physical_put(physical);
    return 0;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT | SIM_NEED_SAFE);

    if (r == 0)
        r = release(handle);
    return sim_leave(&call, r);
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *ret_handle, void *addr)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);
    const struct sim_block *block = r ? NULL : sim_ledger_find((uintptr_t)addr);

    if (r == 0 && (!ret_handle || !block || block->kind != SIM_BLOCK_MAPPED))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0) {
        block->physical->handles++;
        *ret_handle = block->physical->handle;
    }
    return sim_leave(&call, r);
}

CUresult cuMemGetAllocationGranularity(
        size_t *ret_size, const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags which)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = ret_size ? check_prop(prop) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0 && which != CU_MEM_ALLOC_GRANULARITY_MINIMUM
            && which != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_size = sim_config.granularity;
    return sim_leave(&call, r);
}

CUresult cuMemGetAllocationPropertiesFromHandle(
        CUmemAllocationProp *ret_prop, CUmemGenericAllocationHandle handle)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);
    const struct sim_physical *physical = r ? NULL : find_physical(handle);

    if (r == 0 && (!ret_prop || !physical))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_prop = physical->prop;
    return sim_leave(&call, r);
}

/* What is all zeroes stays a hole. */
static bool copy_content(const char *from, int to, uint64_t size)
{
    const uint64_t part = 1 << 16;

    for (uint64_t at = 0; at < size; at += part) {
        const char *bytes = from + at;

        if ((bytes[0] || memcmp(bytes, bytes + 1, part - 1) != 0)
                && pwrite(to, bytes, part, (off_t)at) != (ssize_t)part)
            return false;
    }
    return true;
}

bool sim_vmm_write(
        const struct sim_physical *physical, uint64_t at, const void *from, uint64_t size)
{
    if (physical->file.fd >= 0)
        return sim_file_is_there(&physical->file)
                && pwrite(physical->file.fd, from, size, (off_t)(physical->offset + at))
                == (ssize_t)size;
    memcpy(arena + physical->offset + at, from, size);
    return true;
}

/* Nobody may touch it before it gets its access. */
static int map_physical(
        const struct sim_physical *physical, uint64_t addr, uint64_t size, uint64_t at)
{
    const struct sim_file *file = physical->file.fd >= 0 ? &physical->file : &arena_file;
    void *target = (void *)(uintptr_t)addr; // NOLINT(performance-no-int-to-ptr)

    if (file->fd >= 0)
        return sim_file_is_there(file) ? sim_va_map(addr, size, file->fd, physical->offset + at)
                                       : -1;
    /* of length 0: it is mapped once more */
    if (mremap(arena + physical->offset + at, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, target)
            != target)
        return -1;
    return sim_va_protect(addr, size, PROT_NONE);
}

static int protect(const struct sim_block *block)
{
    int protection = (block->readable ? PROT_READ : 0) | (block->writable ? PROT_WRITE : 0);

    return sim_va_protect(block->addr, block->size, protection) ? CUDA_ERROR_OUT_OF_MEMORY : 0;
}

/* What is exported gets a file of its own, where it is mapped too. 0 or the code. */
static int leave_arena(struct sim_physical *physical)
{
    int fd;

    if (physical->file.fd >= 0)
        return 0;
    fd = file_open(physical->size);
    if (fd < 0 || !copy_content(arena + physical->offset, fd, physical->size)) {
        if (fd >= 0)
            close(fd);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    arena_give(physical->offset, physical->size);
    physical->file = sim_file_of(fd);
    physical->offset = 0;
    for (const struct sim_block *block = physical->first_mapping; block;
            block = block->next_mapping)
        if (sim_va_map(block->addr, block->size, fd, block->physical_offset) || protect(block))
            return CUDA_ERROR_OPERATING_SYSTEM;
    return 0;
}

/* A descriptor of an exported handle, for somebody else; -1: the program has closed ours. */
static int file_again(const struct sim_physical *physical)
{
    return sim_file_is_there(&physical->file) ? fcntl(physical->file.fd, F_DUPFD_CLOEXEC, 0) : -1;
}

CUresult cuMemExportToShareableHandle(void *ret_handle, CUmemGenericAllocationHandle handle,
        CUmemAllocationHandleType type, unsigned long long flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);
    struct sim_physical *physical = r ? NULL : find_physical(handle);

    if (r == 0
            && (!ret_handle || !physical || flags
                    || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                    || !(physical->prop.requestedHandleTypes & type)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        r = leave_arena(physical);
    if (r == 0) {
        int fd = file_again(physical);
        if (fd < 0)
            r = CUDA_ERROR_OPERATING_SYSTEM;
        else
            memcpy(ret_handle, &fd, sizeof(fd));
    }
    return sim_leave(&call, r);
}

/* The memory is the exporter's and counts there; here it is only looked at. */
CUresult cuMemImportFromShareableHandle(
        CUmemGenericAllocationHandle *ret_handle, void *os_handle, CUmemAllocationHandleType type)
{
    struct sim_call call;
    struct stat status;
    int fd = (int)(intptr_t)os_handle;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0
            && (!ret_handle || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                    || fstat(fd, &status) || status.st_size == 0
                    || (size_t)status.st_size % SIM_GRANULE))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0) {
        CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                .requestedHandleTypes = type,
                .location = {CU_MEM_LOCATION_TYPE_DEVICE, call.ctx->device}};
        int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (copy < 0) {
            r = CUDA_ERROR_OPERATING_SYSTEM;
        } else {
            struct sim_physical *made = physical_add(&prop, (uint64_t)status.st_size, copy, 0);
            made->imported = true;
            *ret_handle = made->handle;
        }
    }
    return sim_leave(&call, r);
}

/* ---- mappings ---- */

static int map(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
        unsigned long long flags)
{
    struct sim_physical *physical = find_physical(handle);
    struct sim_multicast *multicast = physical ? NULL : sim_multicast_find(handle);
    struct reservation *found = find_reservation(ptr);
    uint64_t at = 0;

    if ((!physical && !multicast) || !found || flags || size == 0 || size % SIM_GRANULE
            || ptr % SIM_GRANULE || ptr + size > found->addr + found->size || is_mapped(ptr, size))
        return CUDA_ERROR_INVALID_VALUE;
    if (multicast) {
        int r = sim_multicast_target(multicast, offset, size, &physical, &at);
        if (r)
            return r;
    } else if (offset || size > physical->size) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (physical->mappings && !multicast && !sim_config.alias)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (map_physical(physical, ptr, size, at))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (multicast)
        sim_multicast_mapped(multicast);
    else if (physical->mappings)
        sim_stats.aliases++;
    physical->mappings++;
    physical->first_mapping = sim_ledger_add((struct sim_block){.addr = ptr,
            .size = size,
            .kind = SIM_BLOCK_MAPPED,
            .device = physical->prop.location.id,
            .physical = physical,
            .physical_offset = at,
            .next_mapping = physical->first_mapping,
            .multicast = multicast,
            .multicast_offset = offset});
    sim_stats.maps++;
    unsigned char *was = &found->was_mapped[(ptr - found->addr) / SIM_GRANULE];
    if (memchr(was, 1, size / SIM_GRANULE))
        sim_stats.remaps++;
    memset(was, 1, size / SIM_GRANULE);
    return 0;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
        unsigned long long flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT | SIM_NEED_SAFE);

    if (r == 0)
        r = map(ptr, size, offset, handle, flags);
    sim_note(&call, " ptr=0x%llx size=%zu", ptr, size);
    return sim_leave(&call, r);
}

/* Whether [addr, addr + size) is made of whole mappings. */
static bool whole_mappings(uint64_t addr, uint64_t size)
{
    uint64_t at = addr;

    while (at < addr + size) {
        const struct sim_block *block = sim_ledger_find(at);
        if (!block || block->kind != SIM_BLOCK_MAPPED || block->addr != at)
            return false;
        at += block->size;
    }
    return size > 0 && at == addr + size;
}

static void forget_mapping(const struct sim_block *block)
{
    struct sim_block **link = &block->physical->first_mapping;

    while (*link && *link != block)
        link = &(*link)->next_mapping;
    if (*link)
        *link = block->next_mapping;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT | SIM_NEED_SAFE);

    sim_note(&call, " ptr=0x%llx size=%zu", ptr, size);
    if (r == 0 && !whole_mappings(ptr, size))
        r = CUDA_ERROR_INVALID_VALUE;
    for (uint64_t at = ptr; r == 0 && at < ptr + size;) {
        struct sim_block *block = sim_ledger_find(at);
        struct sim_physical *physical = block->physical;
        struct sim_multicast *multicast = block->multicast;
        at += block->size;
        sim_va_drop(block->addr, block->size);
        forget_mapping(block);
        sim_ledger_remove(block);
        sim_vmm_unmapped(physical);
        if (multicast)
            sim_multicast_unmapped(multicast);
        sim_stats.unmaps++;
    }
    return sim_leave(&call, r);
}

static int set_access(struct sim_block *block, const CUmemAccessDesc *desc, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        unsigned bit = 1U << desc[i].location.id;
        block->readable = (uint16_t)(block->readable & ~bit);
        block->writable = (uint16_t)(block->writable & ~bit);
        if (desc[i].flags & CU_MEM_ACCESS_FLAGS_PROT_READ)
            block->readable = (uint16_t)(block->readable | bit);
        if (desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            block->writable = (uint16_t)(block->writable | bit);
    }
    return protect(block);
}

static int check_access(const CUmemAccessDesc *desc, size_t count)
{
    if (!desc || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
            return CUDA_ERROR_NOT_SUPPORTED;
        if (desc[i].location.id < 0 || desc[i].location.id >= sim_config.devices)
            return CUDA_ERROR_INVALID_DEVICE;
        if (desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE
                && desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ
                && desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return CUDA_ERROR_INVALID_VALUE;
    }
    return 0;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT | SIM_NEED_SAFE);

    sim_note(&call, " ptr=0x%llx size=%zu", ptr, size);
    if (r == 0)
        r = check_access(desc, count);
    if (r == 0 && !whole_mappings(ptr, size))
        r = CUDA_ERROR_INVALID_VALUE;
    for (uint64_t at = ptr; r == 0 && at < ptr + size;) {
        struct sim_block *block = sim_ledger_find(at);
        r = set_access(block, desc, count);
        at += block->size;
    }
    return sim_leave(&call, r);
}

static CUmemAccess_flags access_of(const struct sim_block *block, int device)
{
    if ((block->writable >> device) & 1)
        return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return (block->readable >> device) & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                           : CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

CUresult cuMemGetAccess(
        unsigned long long *ret_flags, const CUmemLocation *location, CUdeviceptr ptr)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);
    const struct sim_block *block = r ? NULL : sim_ledger_find(ptr);

    if (r == 0
            && (!ret_flags || !location || !block || block->kind != SIM_BLOCK_MAPPED
                    || location->type != CU_MEM_LOCATION_TYPE_DEVICE || location->id < 0
                    || location->id >= sim_config.devices))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_flags = (unsigned long long)access_of(block, location->id);
    return sim_leave(&call, r);
}

/*
 * A descriptor of whole pages of one allocation, as a dma-buf is: of what has a file of its own. Plain
 * memory gets one, as for IPC; mappings have one if their handle was made to be exported.
 */
static int range_file(CUdeviceptr ptr, uint64_t size, int *ret_fd)
{
    const struct sim_block *block = sim_ledger_live(ptr);
    int fd = -1;

    if (!block || ptr % SIM_HOST_PAGE || size == 0 || size % SIM_HOST_PAGE
            || ptr + size > block->addr + sim_round(block->size, SIM_HOST_PAGE))
        return CUDA_ERROR_INVALID_VALUE;
    if (ptr != block->addr)
        return CUDA_ERROR_NOT_SUPPORTED; /* a descriptor has no offset here */
    if (block->kind == SIM_BLOCK_PLAIN && block->va_size)
        fd = sim_ipc_file_of(block->addr, block->va_size);
    else if (block->kind == SIM_BLOCK_MAPPED && sim_vmm_handle_types(block->physical))
        fd = leave_arena(block->physical) ? -1 : file_again(block->physical);
    else
        return CUDA_ERROR_NOT_SUPPORTED;
    if (block->kind == SIM_BLOCK_PLAIN)
        fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *ret_fd = fd;
    return 0;
}

CUresult cuMemGetHandleForAddressRange(void *ret_handle, CUdeviceptr ptr, size_t size,
        CUmemRangeHandleType type, unsigned long long flags)
{
    struct sim_call call;
    int fd;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && (!ret_handle || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags > 1))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        r = range_file(ptr, size, &fd);
    if (r == 0)
        memcpy(ret_handle, &fd, sizeof(fd));
    return sim_leave(&call, r);
}
