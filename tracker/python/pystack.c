/* SPDX-License-Identifier: MIT */
#include "tracker/python/pystack.h"

#include "tracker/base/script.h"
#include "tracker/format/format.h"
#include "tracker/python/pycode.h"
#include "tracker/python/pyframe.h"
#include "tracker/stacks/thread.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static struct unwind_ops ops; /* fixed by pystack_init */

/* The last stacks: of the main thread, and of another one with its number in the upper half. Stored
 * with release, after the nodes that they name. */
static _Atomic uint32_t main_stack;
static _Atomic uint64_t other_stack;

void pystack_init(const struct unwind_ops *loader)
{
    ops = *loader;
    pyframe_look(&ops);
}

/* Stores only a changed value: all threads share the cache line. */
static void leave_behind(const struct thread *thread, uint32_t leaf)
{
    uint64_t other = (uint64_t)thread->number << 32 | leaf;

    if (thread->is_main) {
        if (atomic_load_explicit(&main_stack, memory_order_relaxed) != leaf)
            atomic_store_explicit(&main_stack, leaf, memory_order_release);
    } else if (atomic_load_explicit(&other_stack, memory_order_relaxed) != other) {
        atomic_store_explicit(&other_stack, other, memory_order_release);
    }
}

/* The thread has left Python: its stored stack is outdated. */
static void take_back(const struct thread *thread)
{
    uint64_t other = atomic_load_explicit(&other_stack, memory_order_relaxed);

    if (thread->is_main && atomic_load_explicit(&main_stack, memory_order_relaxed) != 0)
        atomic_store_explicit(&main_stack, 0, memory_order_relaxed);
    else if (other >> 32 == thread->number)
        (void)atomic_compare_exchange_strong(&other_stack, &other, 0);
}

static void pystack_thread_exit(struct thread *thread)
{
    take_back(thread);
}

THREAD_AT_EXIT(pystack_thread_exit);

static uint32_t ambient_stack(const struct thread *thread)
{
    uint32_t leaf = atomic_load_explicit(&main_stack, memory_order_acquire);

    take_back(thread);
    if (thread->is_main)
        return 0;
    if (leaf == 0)
        leaf = (uint32_t)atomic_load_explicit(&other_stack, memory_order_acquire);
    return leaf ? leaf | FORMAT_PYSTACK_AMBIENT : 0;
}

/* noinline: the array would be on every allocation's stack. */
__attribute__((noinline)) static uint32_t look_up_frames(unsigned *ret_count, bool *ret_early)
{
    struct pyframe frames[PYFRAME_DEPTH_MAX];

    *ret_count = pyframe_walk(frames, ret_early);
    return pycode_stack(frames, *ret_count);
}

uint32_t pystack_here(struct thread *thread)
{
    struct thread_pymemo *memo;
    uint64_t hash = 0;

    if (pyframe_state() == PYFRAME_LOOK)
        pyframe_look(&ops);
    if (pyframe_state() != PYFRAME_READY)
        return 0;
    if (pyframe_hash(&hash) == 0)
        return ambient_stack(thread);
    memo = &thread->pymemo[hash >> 32 & (THREAD_PYMEMO - 1)];
    if (memo->hash != hash) {
        bool early;
        unsigned count;
        uint32_t leaf = look_up_frames(&count, &early);

        if (leaf == 0)
            return count == 0 ? ambient_stack(thread) : 0;
        if (early) {
            leave_behind(thread, leaf);
            return leaf;
        }
        *memo = (struct thread_pymemo){.hash = hash, .leaf = leaf};
    }
    leave_behind(thread, memo->leaf);
    return memo->leaf;
}

static bool pystack_is_installed(const struct pycode_frame *frame)
{
    return strstr(frame->file, "/site-packages/") || strstr(frame->file, "/dist-packages/");
}

bool pystack_text(uint32_t pystack, char *ret_text, size_t size)
{
    struct pycode_frame chosen, frame;
    struct pycode_node node = {.parent = pystack & ~FORMAT_PYSTACK_AMBIENT};

    *ret_text = '\0';
    if (!pycode_frame_at(node.parent, &chosen))
        return false;
    frame = chosen;
    while (pystack_is_installed(&frame) && pycode_node_at(node.parent, &node)
            && pycode_frame_at(node.parent, &frame))
        ;
    if (!pystack_is_installed(&frame))
        chosen = frame;
    (void)snprintf(
            ret_text, size, "%s %s:%u", chosen.function, script_base(chosen.file), chosen.line);
    return true;
}

void pystack_fork_child(void)
{
    pyframe_fork_child();
    pycode_fork_child();
}
