/* SPDX-License-Identifier: MIT */
#include "preload/scan/scanstack.h"

#include "tracker/stacks/cfirule.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SCANSTACK_TRIES  4
#define SCANSTACK_TRY_NS 500000L

/* The beginning of the first thread's frames: the loader's value at program start. */
extern void *__libc_stack_end; // NOLINT(bugprone-reserved-identifier)

static uint64_t first_data; /* of the first thread; fixed by scanstack_start */

void scanstack_start(void)
{
    first_data = scanread_own_data();
}

/* ---- threads -------------------------------------------------------------------------------- */

uint32_t scanstack_threads(uint32_t *to, uint32_t room)
{
    struct entry { /* of getdents64(2) */
        uint64_t inode, offset;
        uint16_t bytes;
        uint8_t type;
        char name[];
    };
    _Alignas(8) char text[2048];
    uint32_t count = 0;
    long got;
    int fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    while (fd >= 0 && (got = syscall(SYS_getdents64, fd, text, sizeof text)) > 0)
        for (long at = 0; at < got;) {
            const struct entry *entry = (const void *)(text + at);
            unsigned long tid = strtoul(entry->name, NULL, 10);

            at += entry->bytes;
            if (tid != 0 && count < room)
                to[count++] = (uint32_t)tid;
        }
    if (fd >= 0)
        (void)close(fd);
    return count;
}

/* "number arguments rsp instruction" of a thread that waits, else "running". */
static bool scanstack_waits(uint32_t tid, uint64_t *ret_sp, uint64_t *ret_ip)
{
    char path[64], text[256];
    const char *last, *sp;

    (void)snprintf(path, sizeof path, "/proc/self/task/%u/syscall", tid);
    (void)scanread_file(path, text, sizeof text);
    last = strrchr(text, ' ');
    if (!last || last == text)
        return false;
    for (sp = last - 1; sp > text && *sp != ' '; sp--)
        ;
    *ret_sp = strtoull(sp, NULL, 16);
    *ret_ip = strtoull(last, NULL, 16);
    return *ret_sp != 0 && *ret_sp % 8 == 0 && *ret_ip != 0;
}

static void scanstack_name(struct scanstack *stack)
{
    char path[64];
    size_t length;

    (void)snprintf(path, sizeof path, "/proc/self/task/%u/comm", stack->tid);
    length = scanread_file(path, stack->name, sizeof stack->name);
    if (length > 0 && stack->name[length - 1] == '\n')
        stack->name[--length] = '\0';
    for (size_t i = 0; i < length; i++)
        if (stack->name[i] < ' ' || stack->name[i] > '~' || stack->name[i] == '#')
            stack->name[i] = '?';
}

/* ---- bounds --------------------------------------------------------------------------------- */

static uint64_t scanstack_at(const struct scanstack *stack, uint64_t address)
{
    return stack->word[(address - stack->low) / sizeof(uint64_t)];
}

static bool scanstack_has(const struct scanstack *stack, uint64_t address)
{
    return address % sizeof(uint64_t) == 0 && address >= stack->low
            && address + sizeof(uint64_t) <= stack->high;
}

/* Finds where the thread's own data begin: tcbhead_t has its address in its first and third word. */
static bool scanstack_find_end(struct scanstack *stack)
{
    if (stack->is_first) {
        uint64_t end = (uintptr_t)__libc_stack_end;

        stack->data = first_data;
        if (end < stack->low || end > stack->high)
            return false;
        stack->high = end;
        return true;
    }
    for (uint64_t at = stack->low; at + 24 <= stack->high; at += 8)
        if (scanstack_at(stack, at) == at && scanstack_at(stack, at + 16) == at
                && scanstack_at(stack, at + 8) != at && at % 16 == 0) {
            stack->data = stack->high = at;
            return true;
        }
    return false;
}

static bool scanstack_read(const struct scanread *read, uint64_t sp, struct scanstack *stack)
{
    const struct scanread_map *map = scanread_map_of(read, sp);
    uint64_t bytes = map ? map->high - sp : 0;

    if (bytes > SCANSTACK_BYTES_MAX)
        bytes = SCANSTACK_BYTES_MAX;
    stack->low = sp;
    stack->high = sp + (scanread_some(stack->word, sp, bytes) & ~UINT64_C(7));
    return scanstack_find_end(stack);
}

/* ---- frames --------------------------------------------------------------------------------- */

static void scanstack_add(
        const struct scanread *read, struct scanstack *stack, uint64_t ip, uint64_t end)
{
    const struct scanread_object *code = scanread_code_of(read, ip - 1);

    stack->frame[stack->frames++] =
            (struct scanstack_frame){ip, end, code && code->kind == INTERN_MODULE_PROGRAM};
}

/* From the frame to which a callee returns at `ip`. `bp` 0: not known. */
static void scanstack_walk(
        const struct scanread *read, struct scanstack *stack, uint64_t ip, uint64_t sp, uint64_t bp)
{
    while (stack->frames < SCANSTACK_DEPTH && ip) {
        struct cfirule rule = cfirule_known(ip);
        uint64_t base = rule.is_by_bp ? bp : sp;
        uint64_t cfa = base + (uint64_t)(int64_t)rule.cfa;
        uint64_t bp_at;

        if ((rule.kind != CFIRULE_PLAIN && rule.kind != CFIRULE_ALIGNED) || base == 0)
            return;
        if (rule.kind == CFIRULE_ALIGNED) {
            if (!scanstack_has(stack, cfa))
                return;
            cfa = scanstack_at(stack, cfa);
        }
        bp_at = (rule.kind == CFIRULE_ALIGNED ? base : cfa) + (uint64_t)(int64_t)rule.bp;
        if (cfa <= sp || !scanstack_has(stack, cfa - sizeof cfa)
                || (rule.has_bp && !scanstack_has(stack, bp_at)))
            return;
        scanstack_add(read, stack, ip, cfa);
        ip = scanstack_at(stack, cfa - sizeof cfa);
        if (rule.has_bp)
            bp = scanstack_at(stack, bp_at);
        sp = cfa;
    }
}

/*
 * What is above the last known frame is of no known function: wanted from above the last return into
 * kedge or the driver on.
 */
static void scanstack_add_rest(const struct scanread *read, struct scanstack *stack)
{
    uint64_t from = stack->frames ? stack->frame[stack->frames - 1].end : stack->low;
    uint64_t begin = from;

    if (!stack->is_first) /* thread-local memory is at the upper end */
        stack->high -= stack->high - from < read->tls_bytes ? stack->high - from : read->tls_bytes;

    for (uint64_t at = from; at < stack->high; at += 8) {
        const struct scanread_object *code = scanread_code_of(read, scanstack_at(stack, at));

        if (code && (code->kind == INTERN_MODULE_CUDA || code->kind == INTERN_MODULE_KEDGE)
                && scanread_is_return(read, scanstack_at(stack, at)))
            begin = at + 8;
    }
    if (begin > from && stack->frames < SCANSTACK_DEPTH)
        stack->frame[stack->frames++] = (struct scanstack_frame){.end = begin};
    if (begin < stack->high)
        stack->frame[stack->frames++] =
                (struct scanstack_frame){.end = stack->high, .is_wanted = true};
}

/* Whether the outermost function of the thread is the driver's, or ours. */
static bool scanstack_is_others(const struct scanread *read, const struct scanstack *stack)
{
    for (uint64_t at = stack->high; at > stack->low; at -= 8) {
        uint64_t word = scanstack_at(stack, at - 8);
        const struct scanread_object *code = scanread_code_of(read, word);

        if (code && code->kind != INTERN_MODULE_LIBC && scanread_is_return(read, word))
            return code->kind != INTERN_MODULE_PROGRAM;
    }
    return false;
}

/* ---- the copy ------------------------------------------------------------------------------- */

__attribute__((noinline)) static enum scanstack_result scanstack_copy_own(
        const struct scanread *read, struct scanstack *stack)
{
    uint64_t own = (uintptr_t)__builtin_frame_address(0); /* {caller's rbp, return address} */

    if (!scanstack_read(read, own, stack) || stack->high - stack->low < 16)
        return SCANSTACK_RUNS;
    scanstack_walk(read, stack, scanstack_at(stack, own + 8), own + 16, scanstack_at(stack, own));
    scanstack_add_rest(read, stack);
    return SCANSTACK_COPIED;
}

static bool scanstack_copy_waiting(const struct scanread *read, struct scanstack *stack)
{
    uint64_t sp, ip, sp_then, ip_then;

    stack->frames = 0;
    if (!scanstack_waits(stack->tid, &sp, &ip) || !scanstack_read(read, sp, stack)
            || !scanstack_waits(stack->tid, &sp_then, &ip_then) || sp != sp_then || ip != ip_then)
        return false;
    scanstack_walk(read, stack, ip, sp, 0);
    scanstack_add_rest(read, stack);
    return true;
}

enum scanstack_result scanstack_copy(
        const struct scanread *read, uint32_t tid, struct scanstack *ret_stack)
{
    struct timespec time = {0, SCANSTACK_TRY_NS};

    ret_stack->tid = tid;
    ret_stack->is_first = tid == (uint32_t)getpid();
    ret_stack->data = 0;
    ret_stack->frames = 0;
    scanstack_name(ret_stack);
    if (tid == (uint32_t)syscall(SYS_gettid))
        return scanstack_copy_own(read, ret_stack);
    for (int i = 0; i < SCANSTACK_TRIES; i++) {
        if (scanstack_copy_waiting(read, ret_stack))
            return scanstack_is_others(read, ret_stack) ? SCANSTACK_OTHERS : SCANSTACK_COPIED;
        if (ret_stack->name[0] == '\0') /* it has ended */
            return SCANSTACK_OTHERS;
        (void)nanosleep(&time, NULL);
    }
    return SCANSTACK_RUNS;
}
