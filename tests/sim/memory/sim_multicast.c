/* SPDX-License-Identifier: MIT */
/*
 * Multicast objects: one address, memory of several devices behind it.
 *
 *     cuMulticastCreate ─► object ─AddDevice─► ─BindMem, BindAddr─► memory of each device ─cuMemMap─► address
 *
 * A mapping shows the memory of the first device that is bound there; what an operation writes
 * through it is written to all others too. Bound memory lives until it is unbound or the object is
 * gone. Memory is bound before it is mapped: a mapping of nothing would need faults on the device.
 *
 * Threads: under the lock.
 */
#include "tests/sim/driver/sim_context.h"
#include "tests/sim/memory/sim_vmm.h"

#include <limits.h>
#include <stdlib.h>

/* Memory of one device at one place of the object. */
struct binding {
    int device;
    uint64_t offset, size; /* in the object */
    struct sim_physical *physical;
    uint64_t physical_offset;
    struct binding *next;
};

struct sim_multicast {
    CUmemGenericAllocationHandle handle;
    CUmulticastObjectProp prop;
    uint16_t devices; /* one bit per device */
    unsigned devices_count;
    unsigned mappings;
    bool released;
    struct binding *bindings; /* by device */
    struct sim_multicast *next;
};

static struct sim_multicast *objects;

struct sim_multicast *sim_multicast_find(CUmemGenericAllocationHandle handle)
{
    for (struct sim_multicast *object = objects; object; object = object->next)
        if (object->handle == handle && !object->released)
            return object;
    return NULL;
}

static void unbind(struct binding **link)
{
    struct binding *binding = *link;

    *link = binding->next;
    sim_vmm_unmapped(binding->physical);
    free(binding);
}

static void put(struct sim_multicast *object)
{
    struct sim_multicast **link = &objects;

    if (!object->released || object->mappings)
        return;
    while (*link != object)
        link = &(*link)->next;
    *link = object->next;
    while (object->bindings)
        unbind(&object->bindings);
    sim_vmm_handle_ends(object->handle);
    free(object);
}

int sim_multicast_release(struct sim_multicast *object)
{
    object->released = true;
    put(object);
    return 0;
}

void sim_multicast_mapped(struct sim_multicast *object)
{
    object->mappings++;
}

void sim_multicast_unmapped(struct sim_multicast *object)
{
    object->mappings--;
    put(object);
}

int sim_multicast_target(struct sim_multicast *object, uint64_t offset, uint64_t size,
        struct sim_physical **ret_physical, uint64_t *ret_offset)
{
    if (offset % SIM_GRANULE || offset + size > object->prop.size)
        return CUDA_ERROR_INVALID_VALUE;
    for (const struct binding *b = object->bindings; b; b = b->next)
        if (b->offset <= offset && offset + size <= b->offset + b->size) {
            *ret_physical = b->physical;
            *ret_offset = b->physical_offset + (offset - b->offset);
            return 0;
        }
    return CUDA_ERROR_ILLEGAL_STATE; /* nothing is bound there */
}

void sim_multicast_spread(
        struct sim_multicast *object, uint64_t offset, uint64_t addr, uint64_t size)
{
    for (const struct binding *b = object->bindings; b; b = b->next) {
        if (offset < b->offset || offset + size > b->offset + b->size)
            continue;
        uint64_t at = b->physical_offset + (offset - b->offset);
        // NOLINTNEXTLINE(performance-no-int-to-ptr)
        if (!sim_vmm_write(b->physical, at, (const void *)(uintptr_t)addr, size))
            sim_say("a multicast write did not reach device %d", b->device);
    }
}

/* ---- calls ---- */

static int check_prop(const CUmulticastObjectProp *prop)
{
    if (!prop || prop->numDevices == 0 || (int)prop->numDevices > sim_config.devices
            || prop->size == 0 || prop->flags)
        return CUDA_ERROR_INVALID_VALUE;
    return prop->handleTypes ? CUDA_ERROR_NOT_SUPPORTED : 0; /* of one process only */
}

static int create(CUmemGenericAllocationHandle *ret_handle, const CUmulticastObjectProp *prop)
{
    struct sim_multicast *object;
    int r = ret_handle ? check_prop(prop) : CUDA_ERROR_INVALID_VALUE;

    if (r == 0 && prop->size % SIM_GRANULE)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r)
        return r;
    object = sim_new(sizeof(*object));
    object->handle = sim_vmm_next_handle();
    object->prop = *prop;
    object->next = objects;
    objects = object;
    *ret_handle = object->handle;
    return 0;
}

CUresult cuMulticastCreate(
        CUmemGenericAllocationHandle *ret_handle, const CUmulticastObjectProp *prop)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = create(ret_handle, prop);
    return sim_leave(&call, r);
}

static int add_device(CUmemGenericAllocationHandle handle, CUdevice device)
{
    struct sim_multicast *object = sim_multicast_find(handle);

    if (!object)
        return CUDA_ERROR_INVALID_VALUE;
    if (device < 0 || device >= sim_config.devices)
        return CUDA_ERROR_INVALID_DEVICE;
    if ((object->devices >> device) & 1 || object->devices_count == object->prop.numDevices)
        return CUDA_ERROR_INVALID_VALUE;
    object->devices = (uint16_t)(object->devices | 1U << device);
    object->devices_count++;
    return 0;
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = add_device(handle, device);
    return sim_leave(&call, r);
}

static bool overlaps(const struct sim_multicast *object, int device, uint64_t offset, uint64_t size)
{
    for (const struct binding *b = object->bindings; b; b = b->next)
        if (b->device == device && offset < b->offset + b->size && b->offset < offset + size)
            return true;
    return false;
}

enum {
    OF_THE_MEMORY = -1, /* the device that a binding is for, in the forms that do not say it */
};

/* All devices have to be there before memory is. */
static int bind(CUmemGenericAllocationHandle handle, int for_device, uint64_t offset,
        struct sim_physical *physical, uint64_t physical_offset, uint64_t size,
        unsigned long long flags)
{
    struct sim_multicast *object = sim_multicast_find(handle);
    struct binding *binding, **link;
    int device;

    if (!object || !physical || flags || size == 0 || size % SIM_GRANULE || offset % SIM_GRANULE
            || physical_offset % SIM_GRANULE || offset + size > object->prop.size
            || physical_offset + size > physical->size)
        return CUDA_ERROR_INVALID_VALUE;
    device = physical->prop.location.id;
    if (for_device != OF_THE_MEMORY && for_device != device)
        return CUDA_ERROR_INVALID_VALUE;
    if (object->devices_count < object->prop.numDevices)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (!((object->devices >> device) & 1) || overlaps(object, device, offset, size))
        return CUDA_ERROR_INVALID_VALUE;
    binding = sim_new(sizeof(*binding));
    for (link = &object->bindings; *link && (*link)->device < device;)
        link = &(*link)->next;
    *binding = (struct binding){device, offset, size, physical, physical_offset, *link};
    *link = binding;
    physical->mappings++;
    return 0;
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t offset,
        CUmemGenericAllocationHandle memory, size_t memory_offset, size_t size,
        unsigned long long flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = bind(handle, OF_THE_MEMORY, offset, sim_vmm_find(memory), memory_offset, size, flags);
    return sim_leave(&call, r);
}

CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset,
        CUmemGenericAllocationHandle memory, size_t memory_offset, size_t size,
        unsigned long long flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = bind(handle, device < 0 ? INT_MAX : device, offset, sim_vmm_find(memory), memory_offset,
                size, flags);
    return sim_leave(&call, r);
}

static int bind_addr(CUmemGenericAllocationHandle handle, int device, uint64_t offset,
        uint64_t addr, uint64_t size, unsigned long long flags)
{
    const struct sim_block *block = sim_ledger_live(addr);

    if (!block || block->kind != SIM_BLOCK_MAPPED || block->multicast
            || addr + size > block->addr + block->size)
        return CUDA_ERROR_INVALID_VALUE;
    return bind(handle, device, offset, block->physical, addr - block->addr, size, flags);
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle handle, size_t offset, CUdeviceptr ptr,
        size_t size, unsigned long long flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = bind_addr(handle, OF_THE_MEMORY, offset, ptr, size, flags);
    return sim_leave(&call, r);
}

CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset,
        CUdeviceptr ptr, size_t size, unsigned long long flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = bind_addr(handle, device < 0 ? INT_MAX : device, offset, ptr, size, flags);
    return sim_leave(&call, r);
}

static int unbind_range(
        CUmemGenericAllocationHandle handle, CUdevice device, uint64_t offset, uint64_t size)
{
    struct sim_multicast *object = sim_multicast_find(handle);

    if (!object)
        return CUDA_ERROR_INVALID_VALUE;
    if (device < 0 || device >= sim_config.devices)
        return CUDA_ERROR_INVALID_DEVICE;
    for (struct binding **link = &object->bindings; *link; link = &(*link)->next)
        if ((*link)->device == device && (*link)->offset == offset && (*link)->size == size) {
            unbind(link);
            return 0;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMulticastUnbind(
        CUmemGenericAllocationHandle handle, CUdevice device, size_t offset, size_t size)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = unbind_range(handle, device, offset, size);
    return sim_leave(&call, r);
}

CUresult cuMulticastGetGranularity(
        size_t *ret_size, const CUmulticastObjectProp *prop, CUmulticastGranularity_flags which)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0
            && (!ret_size
                    || (which != CU_MULTICAST_GRANULARITY_MINIMUM
                            && which != CU_MULTICAST_GRANULARITY_RECOMMENDED)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        r = check_prop(prop);
    if (r == 0)
        *ret_size = SIM_GRANULE;
    return sim_leave(&call, r);
}
