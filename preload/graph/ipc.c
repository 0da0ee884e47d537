/* SPDX-License-Identifier: MIT */
#include "preload/graph/ipc.h"

#include "preload/base/forklock.h"
#include "preload/base/msg.h"
#include "preload/driver/backend.h"
#include "preload/driver/contexts.h"
#include "preload/driver/relax.h"
#include "preload/driver/resolve.h"
#include "preload/driver/session.h"

#include "alloc/base/meta.h"
#include "alloc/base/table.h"
#include "alloc/index/granule.h"
#include "tracker/base/errtext.h"
#include "tracker/base/ownfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PIECES_MAX 4096 /* most physical handles of one block */
#define SEALS      (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

#define VERSION 2

static const char magic[8] = {'k', 'e', 'd', 'g', 'e', 'i', 'p', 'c'};

/* The 64 bytes of a handle. */
struct name {
    char magic[8];
    uint32_t version;
    int32_t pid;
    uint64_t started; /* start of the process, in ticks since the host started */
    uint64_t nonce;   /* unique per export, repeated in its list */
    uint64_t offset;  /* offset of the block in its first physical handle */
    int32_t list_fd;
    uint32_t zero;
    uint64_t size; /* of the block */
    uint64_t check;
};
_Static_assert(sizeof(struct name) == sizeof(CUipcMemHandle), "the 64 bytes");

/*
 * A descriptor in the exporter, and the file that it was opened for. The exporter's program may
 * close the number and open another file there, so it is used only while it names that file.
 */
struct held {
    uint64_t device, inode;
    int32_t fd;
    uint32_t zero;
};

/* An entry of the list: one physical handle. */
struct piece {
    uint64_t size;
    struct held held;
};
struct list {
    char magic[8];
    uint64_t nonce;
    uint64_t offset, size; /* as in the 64 bytes */
    uint64_t count;
    struct piece pieces[PIECES_MAX];
};

static uint64_t list_bytes(uint64_t count)
{
    return offsetof(struct list, pieces) + count * sizeof(struct piece);
}

/* An exported block, by its address. */
struct export
{
    uint64_t base;
    uint64_t context; /* as in struct import */
    uint64_t seq;     /* seq of the allocation */
    struct list *list;
    uint64_t list_bytes;
    struct held list_file;
    CUipcMemHandle handle;
};

/* An opened block, by the address that the program got. */
struct import {
    uint64_t ptr;
    uint64_t context;
    uint64_t opens;
    uint64_t nonce, size;
    uint64_t range, bytes; /* the address range */
    uint64_t mapped;       /* mapped bytes of it */
};

FORKLOCK(ipc_lock);
static struct table exports = TABLE_OF(struct export); /* guarded by ipc_lock, as is: */
static struct table imports = TABLE_OF(struct import);
static atomic_uint used; /* set once something was exported or opened here */

/* ---- the 64 bytes --------------------------------------------------------------------------- */

static uint64_t check_of(const struct name *name)
{
    const unsigned char *at = (const unsigned char *)name;
    uint64_t hash = UINT64_C(1469598103934665603);

    for (size_t i = 0; i < offsetof(struct name, check); i++)
        hash = (hash ^ at[i]) * UINT64_C(1099511628211);
    return hash;
}

bool ipc_is_ours(const CUipcMemHandle *handle)
{
    struct name name;

    memcpy(&name, handle, sizeof name);
    return memcmp(name.magic, magic, sizeof magic) == 0 && name.version == VERSION
            && name.check == check_of(&name);
}

/* The start time of a process; 0 = it does not exist, or the time is unknown. */
static uint64_t ipc_started(int pid)
{
    char path[32], text[1024];
    const char *at;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    text[ownfile_fill(path, text, sizeof text - 1)] = '\0';
    at = strrchr(text, ')'); /* skips the process name, which may contain any character */
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at + 1, NULL, 10) : 0;
}

/* ---- descriptors that are kept open ---------------------------------------------------------- */

static struct held ipc_held_of(int fd)
{
    struct held held = {.fd = fd};
    struct stat status;

    if (fstat(fd, &status) == 0) {
        held.device = (uint64_t)status.st_dev;
        held.inode = (uint64_t)status.st_ino;
    }
    return held;
}

/* Whether `fd`, in this process, names the file of `held`. */
static bool held_is(const struct held *held, int fd)
{
    struct held now = ipc_held_of(fd);

    return now.inode != 0 && now.device == held->device && now.inode == held->inode;
}

static void held_close(const struct held *held)
{
    if (held_is(held, held->fd))
        (void)close(held->fd);
}

/* ---- export --------------------------------------------------------------------------------- */

bool ipc_shows(const struct block_info *info)
{
    return session_sync_mapped && info->heap == HEAP_PRIVATE;
}

static void close_pieces(const struct list *list)
{
    for (uint64_t i = 0; i < list->count; i++)
        held_close(&list->pieces[i].held);
}

/* A descriptor of the physical handle at an address. */
static int describe(devptr_t at, struct held *ret_held)
{
    CUmemGenericAllocationHandle handle = 0;
    int fd = -1;
    int r = (int)REAL(cuMemRetainAllocationHandle)(&handle, (void *)(uintptr_t)at);

    if (r != 0)
        return r;
    r = (int)REAL(cuMemExportToShareableHandle)(
            &fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    (void)REAL(cuMemRelease)(handle);
    if (r == 0)
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    *ret_held = ipc_held_of(fd);
    return r;
}

/*
 * Describes all physical handles under the block. The block is pinned, so that none of them is
 * released meanwhile.
 */
static int describe_all(const struct block_info *info, struct list *list, uint64_t room)
{
    devptr_t at = info->base;
    struct block_info piece;
    int r = 0;

    while (r == 0 && at < info->base + info->size) {
        if (list->count == room)
            return -EMFILE;
        if (pool_find(session_pool, at, &piece) != 0)
            return -ENOENT;
        if (list->count == 0)
            list->offset = info->base - piece.segment_base;
        r = describe(piece.segment_base, &list->pieces[list->count].held);
        if (r == 0)
            list->pieces[list->count++].size = piece.segment_size;
        at = piece.segment_base + piece.segment_size;
    }
    return r;
}

/* A sealed file that cannot be changed any more. Its descriptor, or -errno. */
static int write_list(const struct list *list)
{
    int fd = memfd_create("kedge-ipc", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    uint64_t bytes = list_bytes(list->count);

    if (fd < 0)
        return -errno;
    if (write(fd, list, bytes) == (ssize_t)bytes && fcntl(fd, F_ADD_SEALS, SEALS) == 0)
        return fd;
    (void)close(fd);
    return -EIO;
}

static int name_it(const struct block_info *info, struct export *made)
{
    const struct list *list = made->list;
    struct name name = {.version = VERSION,
            .pid = getpid(),
            .started = ipc_started(getpid()),
            .nonce = list->nonce,
            .offset = list->offset,
            .size = info->size};

    memcpy(name.magic, magic, sizeof magic);
    name.list_fd = write_list(list);
    if (name.list_fd < 0)
        return name.list_fd;
    name.check = check_of(&name);
    made->list_file = ipc_held_of(name.list_fd);
    memcpy(&made->handle, &name, sizeof name);
    return 0;
}

static void end_export(struct export *export)
{
    /* closed first: a process that still finds the list finds all descriptors that it names */
    held_close(&export->list_file);
    close_pieces(export->list);
    meta_put(export->list, export->list_bytes);
}

/* An export whose list the program has closed does not count: it cannot be opened any more. */
static bool find_export(const struct block_info *info, CUipcMemHandle *ret_handle)
{
    struct held list_file = {.fd = -1};
    const struct export *found;

    lock_take(&ipc_lock);
    found = table_find(&exports, info->base);
    if (found && found->seq == info->alloc_seq) {
        *ret_handle = found->handle;
        list_file = found->list_file;
    }
    lock_drop(&ipc_lock);
    return held_is(&list_file, list_file.fd);
}

/* If another thread was as fast, its export stays. */
static int note_export(const struct export *made)
{
    struct export *known;
    int r = -ENOMEM;

    lock_take(&ipc_lock);
    known = table_add(&exports, made->base);
    if (known && known->list)
        r = -EEXIST;
    if (known && !known->list) {
        *known = *made;
        r = 0;
    }
    lock_drop(&ipc_lock);
    return r;
}

static int make_export(const struct block_info *info, struct export *made, uint64_t room)
{
    struct relaxed relaxed;
    int r;

    memcpy(made->list->magic, magic, sizeof magic);
    made->list->size = info->size;
    if (getrandom(&made->list->nonce, sizeof made->list->nonce, GRND_NONBLOCK) < 0)
        return -errno;
    relaxed = relax_begin();
    r = describe_all(info, made->list, room);
    relax_end(&relaxed);
    if (r == 0)
        r = name_it(info, made);
    if (r != 0)
        close_pieces(made->list);
    return r;
}

int ipc_export(const struct block_info *info, CUipcMemHandle *ret_handle)
{
    struct export made = {.base = info->base, .seq = info->alloc_seq, .context = info->owner};
    /* the handle at either end may reach beyond the block */
    uint64_t room = info->size / GRANULE_SIZE + 2;
    int r;

    if (find_export(info, ret_handle))
        return 0;
    ipc_freed(info->base); /* removes an earlier export whose descriptors were closed */
    if (room > PIECES_MAX)
        return -EMFILE;
    if (!REAL_HAS(cuMemExportToShareableHandle) || !REAL_HAS(cuMemRetainAllocationHandle))
        return -ENOSYS;
    made.list_bytes = list_bytes(room);
    made.list = meta_get(made.list_bytes);
    if (!made.list)
        return -ENOMEM;
    r = make_export(info, &made, room);
    if (r != 0) {
        meta_put(made.list, made.list_bytes);
        return r;
    }
    atomic_store(&used, 1);
    *ret_handle = made.handle;
    r = note_export(&made);
    if (r != 0)
        end_export(&made);
    return r == -EEXIST && find_export(info, ret_handle) ? 0 : r;
}

/* ---- open ----------------------------------------------------------------------------------- */

/* Duplicates another process's descriptor into this process. */
static int fetch(int pidfd, int fd)
{
    int ours = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);

    return ours < 0 ? -errno : ours;
}

/* State of an open of a handle. */
struct opening {
    struct name name;
    struct list *list;
    int pidfd;
};

static bool is_sealed(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS); /* the system may have added other seals */

    return seals >= 0 && (seals & SEALS) == SEALS;
}

static int ipc_read_list(struct opening *opening)
{
    struct list *list = opening->list;
    struct stat status;
    int fd = fetch(opening->pidfd, opening->name.list_fd);
    int r = -ESTALE;

    if (fd < 0)
        return fd == -EBADF ? -ESTALE : fd;
    if (is_sealed(fd) && fstat(fd, &status) == 0 && (uint64_t)status.st_size <= sizeof *list
            && pread(fd, list, (size_t)status.st_size, 0) == status.st_size
            && memcmp(list->magic, magic, sizeof magic) == 0 && list->nonce == opening->name.nonce
            && list->count > 0 && list->count <= PIECES_MAX
            && (uint64_t)status.st_size == list_bytes(list->count))
        r = 0;
    (void)close(fd);
    return r;
}

static int sum_up(const struct opening *opening, uint64_t *ret_bytes)
{
    const struct list *list = opening->list;
    uint64_t bytes = 0;

    for (uint64_t i = 0; i < list->count; i++)
        if (__builtin_add_overflow(bytes, list->pieces[i].size, &bytes))
            return -ESTALE;
    if (list->offset != opening->name.offset || list->size != opening->name.size
            || list->offset >= bytes || list->size > bytes - list->offset)
        return -ESTALE;
    *ret_bytes = bytes;
    return 0;
}

static int find_process(struct opening *opening)
{
    const struct name *name = &opening->name;

    opening->pidfd = (int)syscall(SYS_pidfd_open, name->pid, 0);
    if (opening->pidfd < 0)
        return errno == ENOSYS ? -ENOSYS : -ESTALE;
    return ipc_started(name->pid) == name->started ? 0 : -ESTALE;
}

static int map_piece(const struct opening *opening, uint64_t i, struct import *import)
{
    const struct piece *piece = &opening->list->pieces[i];
    CUmemGenericAllocationHandle handle = 0;
    int fd = fetch(opening->pidfd, piece->held.fd);
    int r = -ESTALE;

    if (fd < 0)
        return fd == -EBADF ? -ESTALE : fd;
    if (held_is(&piece->held, fd))
        r = (int)REAL(cuMemImportFromShareableHandle)(
                &handle, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    (void)close(fd);
    if (r != 0)
        return r;
    r = (int)REAL(cuMemMap)(import->range + import->mapped, piece->size, 0, handle, 0);
    (void)REAL(cuMemRelease)(handle); /* the mapping keeps the memory */
    if (r == 0)
        import->mapped += piece->size;
    return r;
}

/* Each handle was mapped by itself; one unmap removes them all. */
static int ipc_unmap_all(struct import *import)
{
    int r = 0;

    if (import->mapped)
        r = (int)REAL(cuMemUnmap)(import->range, import->mapped);
    if (r == 0)
        (void)REAL(cuMemAddressFree)(import->range, import->bytes);
    return r;
}

static int map_all(const struct opening *opening, int device, struct import *import)
{
    CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr range = 0;
    int r = (int)REAL(cuMemAddressReserve)(&range, import->bytes, 0, 0, 0);

    if (r != 0)
        return r;
    import->range = range;
    for (uint64_t i = 0; r == 0 && i < opening->list->count; i++)
        r = map_piece(opening, i, import);
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device;
    if (r == 0)
        r = (int)REAL(cuMemSetAccess)(range, import->bytes, &access, 1);
    if (r != 0)
        (void)ipc_unmap_all(import);
    return r;
}

static int open_new(struct opening *opening, const struct context *here, struct import *import)
{
    struct relaxed relaxed;
    int r = find_process(opening);

    if (r == 0)
        r = ipc_read_list(opening);
    if (r == 0)
        r = sum_up(opening, &import->bytes);
    if (r != 0)
        return r;
    relaxed = relax_begin();
    r = map_all(opening, here->device, import);
    /* The list is unchanged, so its descriptors were valid while they were fetched. */
    if (r == 0 && ipc_read_list(opening) != 0) {
        (void)ipc_unmap_all(import);
        r = -ESTALE;
    }
    relax_end(&relaxed);
    import->ptr = import->range + opening->list->offset;
    import->size = opening->list->size;
    return r;
}

/* The handle is already open in this context: counts one more open. */
static bool ipc_open_again(const struct name *name, uint64_t context, CUdeviceptr *ret_ptr)
{
    struct import *at;

    lock_take(&ipc_lock);
    for (at = table_next(&imports, NULL); at; at = table_next(&imports, at))
        if (at->nonce == name->nonce && at->context == context)
            break;
    if (at) {
        at->opens++;
        *ret_ptr = at->ptr;
    }
    lock_drop(&ipc_lock);
    return at != NULL;
}

static void say_failed(const struct name *name, int r)
{
    const char *why = "it was freed there, its process has ended, or the handle is forged";

    if (r == -EPERM)
        why = "this process may not take descriptors of that one (ptrace permission)";
    else if (r == -ENOSYS)
        why = "the kernel has no pidfd_getfd";
    else if (r != -ESTALE)
        why = errtext(-r);
    msg_warn("memory of process %d cannot be opened: %s", name->pid, why ? why : "unknown error");
}

static int note_import(const struct import *import)
{
    struct import *known;

    lock_take(&ipc_lock);
    known = table_add(&imports, import->ptr);
    if (known)
        *known = *import;
    lock_drop(&ipc_lock);
    return known ? 0 : -ENOMEM;
}

int ipc_open(const CUipcMemHandle *handle, CUdeviceptr *ret_ptr, uint64_t *ret_size)
{
    struct opening opening = {.pidfd = -1};
    struct import import = {.opens = 1};
    struct context here;
    int r = context_here(&here);

    if (r != 0)
        return r;
    if (!REAL_HAS(cuMemImportFromShareableHandle) || !REAL_HAS(cuMemMap)
            || !REAL_HAS(cuMemSetAccess))
        return -ENOSYS;
    memcpy(&opening.name, handle, sizeof opening.name);
    if (opening.name.pid == getpid())
        return CUDA_ERROR_INVALID_CONTEXT; /* the code for a handle of the driver */
    *ret_size = 0;
    if (ipc_open_again(&opening.name, here.generation, ret_ptr))
        return 0;
    import.nonce = opening.name.nonce;
    import.context = here.generation;
    opening.list = meta_get(sizeof *opening.list);
    r = opening.list ? open_new(&opening, &here, &import) : -ENOMEM;
    if (r == 0) {
        r = note_import(&import);
        if (r != 0)
            (void)ipc_unmap_all(&import);
    }
    if (opening.pidfd >= 0)
        (void)close(opening.pidfd);
    if (opening.list)
        meta_put(opening.list, sizeof *opening.list);
    if (r < 0)
        say_failed(&opening.name, r);
    if (r != 0)
        return r;
    atomic_store(&used, 1);
    *ret_ptr = import.ptr;
    *ret_size = import.size;
    return 0;
}

/* ---- ends ----------------------------------------------------------------------------------- */

bool ipc_find(devptr_t ptr, devptr_t *ret_base, uint64_t *ret_size)
{
    const struct import *at;

    if (!atomic_load_explicit(&used, memory_order_relaxed))
        return false;
    lock_take(&ipc_lock);
    for (at = table_next(&imports, NULL); at; at = table_next(&imports, at))
        if (ptr - at->ptr < at->size)
            break;
    if (at) {
        *ret_base = at->ptr;
        *ret_size = at->size;
    }
    lock_drop(&ipc_lock);
    return at != NULL;
}

static int end_import(struct import *import, bool waits)
{
    struct relaxed relaxed;
    int r;

    if (waits) /* an unmap does not wait for work that uses the memory */
        (void)backend_synchronise(import->context);
    relaxed = relax_begin();
    r = ipc_unmap_all(import);
    relax_end(&relaxed);
    return r;
}

int ipc_close(CUdeviceptr ptr, bool *ret_last)
{
    struct import *known, import;
    bool is_there;
    int r;

    *ret_last = false;
    if (!atomic_load_explicit(&used, memory_order_relaxed))
        return -ENOENT;
    lock_take(&ipc_lock);
    known = table_find(&imports, ptr);
    is_there = known != NULL;
    if (known && --known->opens == 0) {
        import = *known;
        *ret_last = true;
        (void)table_remove(&imports, known);
    }
    lock_drop(&ipc_lock);
    if (!*ret_last)
        return is_there ? 0 : -ENOENT;
    r = end_import(&import, true);
    if (r == 0)
        return 0;
    import.opens = 1; /* the import is as before */
    *ret_last = false;
    (void)note_import(&import);
    return r;
}

void ipc_freed(CUdeviceptr ptr)
{
    struct export *known, export;

    if (!atomic_load_explicit(&used, memory_order_relaxed))
        return;
    lock_take(&ipc_lock);
    known = table_find(&exports, ptr);
    if (known) {
        export = *known;
        (void)table_remove(&exports, known);
    }
    lock_drop(&ipc_lock);
    if (known)
        end_export(&export);
}

/* Takes one out of a table that belongs to the context. */
static bool ipc_take_of(struct table *table, uint64_t context, void *ret)
{
    struct {
        uint64_t key, context;
    } * at;

    lock_take(&ipc_lock);
    at = table_next(table, NULL);
    while (at && at->context != context)
        at = table_next(table, at);
    if (at) {
        memcpy(ret, at, table->bytes);
        (void)table_remove(table, at);
    }
    lock_drop(&ipc_lock);
    return at != NULL;
}

void ipc_context_gone(uint64_t context)
{
    struct export export;
    struct import import;

    if (!atomic_load_explicit(&used, memory_order_relaxed))
        return;
    while (ipc_take_of(&exports, context, &export))
        end_export(&export);
    while (ipc_take_of(&imports, context, &import))
        (void)end_import(&import, false);
}
