/* SPDX-License-Identifier: MIT */
#include "tools/load/sitebook.h"

#include <string.h>

#define FRAMES_MAX 256u /* frames of a stack, of each kind */

struct sitebook sitebook_new(void)
{
    return (struct sitebook){.trace = trace_new()};
}

void sitebook_done(struct sitebook *book)
{
    trace_free(book->trace);
    keytable_done(&book->sites);
    keytable_done(&book->modules);
    keytable_done(&book->text_keys);
    vec_free_texts(&book->texts);
}

uint32_t sitebook_find(const struct sitebook *book, struct key key)
{
    return keytable_get(&book->sites, key, SITEBOOK_NONE);
}

/* A copy of the text that lives as long as the book; equal texts are one copy. */
static const char *sitebook_text(struct sitebook *book, const char *text)
{
    uint32_t number = keytable_number(&book->text_keys, keytable_text(text));

    if (number == book->texts.count)
        (void)vec_add_text(&book->texts, vec_text(text));
    return book->texts.at[number];
}

/* Path and build in one key. */
static struct key module_key(const struct trace_module *module)
{
    struct key key = keytable_text(module->path);
    uint64_t part;

    key.c ^= module->identity;
    for (size_t i = 0; i < sizeof(module->build_id); i += sizeof(part)) {
        memcpy(&part, module->build_id + i, sizeof(part));
        key.a = (key.a ^ part) * UINT64_C(0x100000001b3);
        key.b = key.b * 31 + part;
    }
    return key;
}

uint32_t sitebook_module(struct sitebook *book, const struct trace_module *module)
{
    uint32_t *known = keytable_at(&book->modules, module_key(module), TRACE_NONE);

    if (*known == TRACE_NONE)
        *known = trace_add_module(book->trace, module);
    return *known;
}

static uint32_t copy_frames(
        struct sitebook *book, const struct trace *from, const struct trace_stack *stack)
{
    struct trace_frame frames[FRAMES_MAX];
    uint32_t count = stack->count < FRAMES_MAX ? stack->count : FRAMES_MAX;

    for (uint32_t i = 0; i < count; i++) {
        frames[i] = from->frames[stack->first + i];
        if (frames[i].module != TRACE_NONE)
            frames[i].module = sitebook_module(book, &from->modules[frames[i].module]);
    }
    return trace_add_stack(book->trace, frames, count, stack->cut || count < stack->count);
}

static void copy_python(struct sitebook *book, uint32_t to, const struct trace *from,
        const struct trace_stack *stack)
{
    struct trace_pyframe frames[FRAMES_MAX];
    uint32_t count = stack->pycount < FRAMES_MAX ? stack->pycount : FRAMES_MAX;

    for (uint32_t i = 0; i < count; i++) {
        frames[i] = from->pyframes[stack->pyfirst + i];
        frames[i].function = sitebook_text(book, frames[i].function);
        frames[i].file = sitebook_text(book, frames[i].file);
    }
    trace_set_python(book->trace, to, frames, count, stack->ambient);
}

uint32_t sitebook_add(
        struct sitebook *book, struct key key, const struct trace *from, uint32_t stack)
{
    uint32_t known = sitebook_find(book, key);

    if (known != SITEBOOK_NONE || keytable_count(&book->sites) >= SITEBOOK_MAX)
        return known;
    known = stack ? copy_frames(book, from, &from->stacks[stack]) : 0;
    if (from->stacks[stack].pycount) /* not stack 0 */
        copy_python(book, known, from, &from->stacks[stack]);
    return *keytable_at(&book->sites, key, known);
}
