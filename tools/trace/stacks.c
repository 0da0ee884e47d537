/* SPDX-License-Identifier: MIT */
#include "tools/trace/stacks.h"

#include <stdlib.h>
#include <string.h>

#include "tools/base/vec.h"
#include "tracker/hints/pylines.h"

#define MODULE_PROGRAM 0 /* enum intern_module_kind: neither CUDA nor kedge nor libc */

uint32_t stacks_add_module(struct trace *trace, const struct read_module *module)
{
    struct trace_module ours = {.path = vec_text(module->path),
            .is_program = module->kind == MODULE_PROGRAM,
            .identity = module->build_id_bytes ? 0 : module->hash};
    size_t bytes = module->build_id_bytes < sizeof(ours.build_id) ? module->build_id_bytes
                                                                  : sizeof(ours.build_id);

    memcpy(ours.build_id, module->build_id, bytes);
    ours.build_id_length = (uint8_t)bytes;
    uint32_t number = trace_add_module(trace, &ours);
    free(ours.path);
    return number;
}

static uint32_t stacks_module_of(struct stacks *stacks, const struct read_frame *frame)
{
    if (!frame->module)
        return TRACE_NONE;
    uint32_t *known =
            keytable_at(&stacks->modules, (struct key){frame->module_number, 0, 0}, TRACE_NONE);
    if (*known == TRACE_NONE)
        *known = stacks_add_module(stacks->trace, frame->module);
    return *known;
}

static void add_python(struct stacks *stacks, uint32_t stack, uint32_t pystack)
{
    struct read_pyframe frames[READ_FRAMES_MAX];
    struct trace_pyframe ours[READ_FRAMES_MAX];
    bool ambient = false;
    unsigned count = read_pystack(stacks->capture, pystack, frames, READ_FRAMES_MAX, &ambient);

    for (unsigned i = 0; i < count; i++) {
        struct pylines lines = {.table = frames[i].table,
                .bytes = frames[i].lines,
                .length = frames[i].lines_bytes,
                .first_line = frames[i].first_line};

        ours[i] = (struct trace_pyframe){
                .function = *frames[i].qualname ? frames[i].qualname : frames[i].name,
                .file = frames[i].file,
                .line = pylines_find(&lines, frames[i].lasti),
                .instruction = frames[i].lasti,
                .is_entry = frames[i].is_entry,
                .is_native = frames[i].table == FORMAT_PYTABLE_NATIVE};
    }
    trace_set_python(stacks->trace, stack, ours, count, ambient);
}

uint32_t stacks_number(struct stacks *stacks, uint32_t leaf, uint32_t pystack)
{
    struct read_frame frames[READ_FRAMES_MAX];
    struct trace_frame ours[READ_FRAMES_MAX];

    if (leaf == 0 && pystack == 0)
        return 0;
    uint32_t *known = keytable_at(&stacks->known, (struct key){leaf, pystack, 0}, TRACE_NONE);
    if (*known != TRACE_NONE)
        return *known;
    unsigned count = read_stack(stacks->capture, leaf, frames, READ_FRAMES_MAX);
    for (unsigned i = 0; i < count; i++)
        ours[i] = (struct trace_frame){stacks_module_of(stacks, &frames[i]), frames[i].offset};
    if (count == 0 && pystack == 0)
        return *known = 0;
    *known = trace_add_stack(stacks->trace, ours, count, count == READ_FRAMES_MAX);
    VEC_PUSH(stacks->sites, stacks->site_count, stacks->site_room) =
            read_site(stacks->capture, leaf);
    if (pystack != 0)
        add_python(stacks, *known, pystack);
    return *known;
}

uint64_t stacks_site(const struct stacks *stacks, uint32_t number)
{
    return number ? stacks->sites[number - 1] : read_site(stacks->capture, 0);
}

void stacks_done(struct stacks *stacks)
{
    free(stacks->sites);
    keytable_done(&stacks->modules);
    keytable_done(&stacks->known);
}
