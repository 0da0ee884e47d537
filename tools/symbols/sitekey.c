/* SPDX-License-Identifier: MIT */
#include "tools/symbols/sitekey.h"

#include <stdlib.h>

#include "tools/base/vec.h"
#include "tools/symbols/framekind.h"
#include "tracker/hints/pysite.h"

/* Appends a key that is not in the list yet; returns the new number. */
static size_t add_key(struct sitekey *keys, size_t count, struct sitekey key)
{
    for (size_t i = 0; i < count; i++)
        if (keys[i].key == key.key && !keys[i].frame == !key.frame)
            return count;
    if (count < SITEKEY_MAX)
        keys[count++] = key;
    return count;
}

/* The number of a stack's frames that name call sites. */
static uint32_t frames_of(const struct trace_stack *stack)
{
    return stack->ambient ? 0 : stack->pycount;
}

static bool sitekey_is_nameable(const struct trace_pyframe *frame)
{
    char text[PYSITE_TEXT_MAX];

    return !frame->is_native && pysite_write(frame->file, frame->function, frame->line, text);
}

size_t sitekey_list(const struct trace *trace, const struct trace_block *block,
        struct sitekey ret_keys[static SITEKEY_MAX])
{
    const struct trace_stack *stack = &trace->stacks[block->stack];
    size_t count = 0;

    if (block->site)
        count = add_key(ret_keys, count, (struct sitekey){.key = block->site});
    for (uint32_t i = 0; i < frames_of(stack); i++) {
        const struct trace_pyframe *frame = &trace->pyframes[stack->pyfirst + i];
        struct sitekey key = {.key = pysite_key(frame->file, frame->function, 0), .frame = frame};

        if (!sitekey_is_nameable(frame))
            continue;
        count = add_key(ret_keys, count, key);
        key.key = pysite_key(frame->file, frame->function, frame->line);
        key.has_line = true;
        count = add_key(ret_keys, count, key); /* without a known line both keys are equal */
    }
    return count;
}

struct key sitekey_key(const struct sitekey *key)
{
    return (struct key){key->key, key->frame != NULL, 0};
}

uint32_t sitekey_rank(const struct sitekey *key)
{
    if (!key->frame)
        return 4;
    return (framekind_is_program(key->frame->function, key->frame->file) ? 0u : 2u) + key->has_line;
}

struct key sitekey_place(const struct trace *trace, const struct trace_block *block)
{
    return (struct key){block->site, block->site ? 0 : trace_python(trace, block->stack), 0};
}

char *sitekey_text(const struct sitekey *key)
{
    char text[PYSITE_TEXT_MAX];
    const struct trace_pyframe *frame = key->frame;

    if (!frame
            || !pysite_write(frame->file, frame->function, key->has_line ? frame->line : 0, text))
        return NULL;
    return vec_text(text);
}

void sitekey_pick(const struct sitekey *key, struct rule_pick *io_pick)
{
    io_pick->python |= (key->frame ? 1u : 0u) << io_pick->site_count;
    io_pick->site[io_pick->site_count++] = key->key;
}

/* Outermost first, because each list continues at the end of the outer frames' list. */
static const struct pysite *sitekey_name_stack(const struct trace *trace,
        const struct trace_stack *stack, const struct hints *hints, struct pysite *room)
{
    const struct pysite *sites = NULL;

    for (uint32_t i = frames_of(stack); i-- > 0;) {
        const struct trace_pyframe *frame = &trace->pyframes[stack->pyfirst + i];
        struct pysite *own = &room[2 * (size_t)(stack->pyfirst + i)];

        sites = hint_pysite(hints, sites, pysite_key(frame->file, frame->function, 0), own);
        sites = hint_pysite(
                hints, sites, pysite_key(frame->file, frame->function, frame->line), own + 1);
    }
    return sites;
}

struct sitekey_named sitekey_name(const struct trace *trace, const struct hints *hints)
{
    struct sitekey_named named = {NULL, NULL};

    if (!hint_has_pysites(hints))
        return named;
    named.of_stack = vec_new(trace->stack_count, sizeof(const struct pysite *));
    named.room = vec_new(2 * trace->pyframe_count, sizeof(*named.room));
    for (size_t i = 0; i < trace->stack_count; i++)
        named.of_stack[i] = sitekey_name_stack(trace, &trace->stacks[i], hints, named.room);
    return named;
}

void sitekey_named_done(struct sitekey_named *named)
{
    free((void *)named->of_stack);
    free(named->room);
    *named = (struct sitekey_named){NULL, NULL};
}
