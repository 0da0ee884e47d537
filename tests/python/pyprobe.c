/* SPDX-License-Identifier: MIT */
/*
 * pyprobe.c - a library for ctypes that tells what tracker/ sees of the Python frames of the thread that calls it.
 *
 * Not preloaded and without a device: frames, code objects and lines alone, against what the interpreter itself says.
 */
#include "tracker/hints/pylines.h"
#include "tracker/python/pycode.h"
#include "tracker/python/pyframe.h"
#include "tracker/python/pystack.h"
#include "tracker/stacks/intern.h"
#include "tracker/stacks/thread.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

static const struct unwind_ops ops = {dlopen, dlsym};

/* "file\0name\0line\n" per frame, innermost first; how many bytes, -1 when it does not fit. */
static int tell(uint32_t leaf, char *to, size_t size)
{
    struct pycode_node node;
    size_t used = 0;

    for (; pycode_node_at(leaf, &node); leaf = node.parent) {
        struct pycode code;
        const char *bytes;
        struct pylines lines;
        int length;

        if (!pycode_at(node.code, &code, &bytes))
            return -1;
        lines = (struct pylines){.table = code.table,
                .bytes = (const unsigned char *)bytes,
                .length = code.lines_bytes,
                .first_line = code.first_line};
        length = snprintf(to + used, size - used, "%s%c%s%c%u%c", intern_text(code.file), 0,
                intern_text(code.name), 0, pylines_find(&lines, node.lasti), '\n');
        if (length < 0 || (size_t)length >= size - used)
            return -1;
        used += (size_t)length;
    }
    return (int)used;
}

EXPORT int probe_stack(char *to, size_t size)
{
    struct thread *thread = thread_self();

    if (!pyframe_is_wanted())
        pystack_init(&ops);
    return thread ? tell(pystack_here(thread) & ~FORMAT_PYSTACK_AMBIENT, to, size) : -1;
}

/* The number of this thread's stack alone, as a tag has it. */
EXPORT uint32_t probe_leaf(void)
{
    return pystack_here(thread_self());
}

static void *from_outside(void *ret_leaf)
{
    *(uint32_t *)ret_leaf = probe_leaf();
    return NULL;
}

/* The same in a thread that Python knows nothing of. */
EXPORT uint32_t probe_foreign_leaf(void)
{
    pthread_t thread;
    uint32_t leaf = 0;

    if (pthread_create(&thread, NULL, from_outside, &leaf) == 0)
        (void)pthread_join(thread, NULL);
    return leaf;
}

EXPORT const char *probe_text(void)
{
    return pyframe_text();
}

EXPORT int probe_state(void)
{
    return (int)pyframe_state();
}

/* Distinct code objects and nodes so far. */
EXPORT uint32_t probe_codes(void)
{
    struct pycode_counts counts;

    pycode_counts(&counts);
    return counts.codes;
}

/* Walks and looks up `times` times: for an instruction count. */
EXPORT void probe_repeat(unsigned times)
{
    struct thread *thread = thread_self();

    for (unsigned i = 0; thread && i < times; i++)
        (void)pystack_here(thread);
}
