/* SPDX-License-Identifier: MIT */
#include "tools/steps/places.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/base/types.h"
#include "tools/base/keytable.h"
#include "tools/base/vec.h"

static bool is_interpreter(const struct trace *trace, uint32_t module)
{
    const char *path = module == TRACE_NONE ? "" : trace->modules[module].path;
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;

    return strncmp(name, "python", 6) == 0 || strncmp(name, "libpython", 9) == 0;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
}

/*
 * Stacks with the same Python calls are one place, whatever the interpreter's own frames are:
 * CPython makes none in C for a call that it has specialised, after some eight times.
 */
static struct key key_of(const struct trace *trace, uint32_t number)
{
    const struct trace_stack *stack = &trace->stacks[number];
    struct key key = {0, 0, 1};

    if (stack->pycount == 0)
        return (struct key){number, 0, 0};
    for (uint32_t i = 0; i < stack->pycount; i++) {
        const struct trace_pyframe *frame = &trace->pyframes[stack->pyfirst + i];

        key.a = mix(key.a, (uintptr_t)frame->function);
        key.a = mix(key.a, (uint64_t)frame->line << 32 | (uint32_t)frame->instruction);
    }
    for (uint32_t i = 0; i < stack->count; i++) {
        const struct trace_frame *frame = &trace->frames[stack->first + i];
        if (!is_interpreter(trace, frame->module))
            key.b = mix(key.b, frame->offset ^ (uint64_t)frame->module << 48);
    }
    return key;
}

uint32_t *places_alike(const struct trace *trace)
{
    uint32_t *alike = vec_new(trace->stack_count, sizeof(*alike));
    struct keytable known = {0};

    for (uint32_t i = 1; i < trace->stack_count; i++) {
        uint32_t *first = keytable_at(&known, key_of(trace, i), i);

        alike[i] = *first;
    }
    keytable_done(&known);
    return alike;
}

void places_begin(const struct trace *trace, const uint32_t *alike, struct places *places)
{
    struct keytable numbers = {0};
    uint32_t last = trace->block_count ? trace->blocks[trace->block_count - 1].born : 0;

    *places = (struct places){0};
    places->of = vec_new(trace->block_count, sizeof(*places->of));
    places->at = vec_new(1, sizeof(*places->at));
    places->room = 1;
    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];
        uint64_t size = block->stack ? 0 : block->size;
        uint32_t number = keytable_number(&numbers, (struct key){alike[block->stack], size, 0});
        if (number == places->count)
            VEC_PUSH(places->at, places->count, places->room) =
                    (struct place){.stack = alike[block->stack], .size = size};
        places->of[i] = number;
        places->at[number].at_last += block->died > last ? block->size : 0;
        places->at[number].at_end += block->died == TRACE_NEVER ? block->size : 0;
    }
    keytable_done(&numbers);
}

static void touch(struct places *places, uint32_t number, uint64_t size, bool is_alloc)
{
    struct place *place = &places->at[number];

    if (!place->is_touched) {
        VEC_PUSH(places->touched, places->touched_count, places->touched_room) = number;
        place->most = place->now;
    }
    place->is_touched = true;
    place->requests += is_alloc;
    place->now.bytes += is_alloc ? size : 0 - size;
    place->now.blocks += is_alloc ? 1 : UINT64_MAX;
    places->all += is_alloc ? size : 0 - size;
    place->most.bytes = max_of(place->most.bytes, place->now.bytes);
    place->most.blocks = max_of(place->most.blocks, place->now.blocks);
}

static uint64_t swing_of(uint64_t swing, uint64_t most, uint64_t begin, uint64_t end)
{
    return max_of(swing, most - max_of(begin, end));
}

static void close_round(struct places *places, uint32_t round)
{
    for (size_t i = 0; i < places->touched_count; i++) {
        uint32_t number = places->touched[i];
        struct place *place = &places->at[number];
        struct holding now = place->now, was = place->before;

        place->is_touched = false;
        place->each = round == 1 ? place->requests : place->each;
        place->alike += round > 0 && place->requests == place->each;
        place->requests = 0;
        place->before = now;
        place->swing = (struct holding){
                swing_of(place->swing.bytes, place->most.bytes, was.bytes, now.bytes),
                swing_of(place->swing.blocks, place->most.blocks, was.blocks, now.blocks)};
        if (now.bytes == was.bytes && now.blocks == was.blocks)
            continue;
        VEC_PUSH(places->changes, places->change_count, places->change_room) =
                (struct trend_change){round, now.bytes, now.blocks};
        VEC_PUSH(places->changed, places->changed_count, places->changed_room) = number;
    }
    places->touched_count = 0;
    places->ends[round] = places->all;
}

static void forget_rounds(struct places *places)
{
    places->change_count = places->changed_count = places->touched_count = 0;
    places->all = 0;
    for (size_t i = 0; i < places->count; i++) {
        struct place *place = &places->at[i];

        *place = (struct place){.stack = place->stack,
                .size = place->size,
                .at_last = place->at_last,
                .at_end = place->at_end};
    }
}

/*
 * How many rounds' time the run goes on behind the last one: places that ask for memory equally
 * often in each round but the first one tell it; the least of them.
 */
static uint32_t rounds_beyond(const struct places *places, uint32_t rounds)
{
    uint32_t least = UINT32_MAX;

    for (size_t i = 0; i < places->count; i++) {
        const struct place *place = &places->at[i];

        if (place->each && place->requests && place->alike + 1 == rounds)
            least = (uint32_t)min_of(least, place->requests / place->each);
    }
    return least == UINT32_MAX ? 0 : least;
}

void places_follow(const struct trace *trace, const uint32_t *behind, uint32_t rounds, uint32_t end,
        struct places *places)
{
    uint32_t event = 0;

    forget_rounds(places);
    free(places->ends);
    places->ends = vec_new(rounds, sizeof(*places->ends));
    for (uint32_t round = 0; round <= rounds; round++) {
        for (; event < (round < rounds ? behind[round] : end); event++) {
            const struct trace_event *at = &trace->events[event];
            if (!trace_is_of_block(at))
                continue;
            uint64_t size = trace->blocks[at->block].size;
            touch(places, places->of[at->block], size, at->kind == TRACE_ALLOC);
        }
        if (round < rounds)
            close_round(places, round);
    }
    places->beyond = rounds_beyond(places, rounds);
}

bool places_rest(const struct place *place)
{
    return !place->is_touched || place->most.bytes <= place->before.bytes;
}

bool places_keep(const struct place *place, uint32_t round, struct trend_change *ret)
{
    *ret = (struct trend_change){round, excess_of(place->now.bytes, place->swing.bytes),
            excess_of(place->now.blocks, place->swing.blocks)};
    return ret->bytes > place->before.bytes;
}

void places_done(struct places *places)
{
    free(places->at);
    free(places->of);
    free(places->touched);
    free(places->ends);
    free(places->changes);
    free(places->changed);
    *places = (struct places){0};
}
