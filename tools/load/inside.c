/* SPDX-License-Identifier: MIT */
#include "tools/load/inside.h"

#include <stdlib.h>
#include <string.h>

#include "tools/base/keytable.h"
#include "tools/base/vec.h"

#define INSIDE_NOBODY "no tensor\nno Python object"
#define INSIDE_ROWS   200u /* of a walk that had no more (preload/held/walk/held.py) */

/* A tensor in the order of addresses and times. */
struct lying {
    uint64_t address, born_ns;
    uint32_t block;
};

/* Tensors of a walk with the same holders and call site. */
struct inside_row {
    uint32_t walk, stack;
    uint64_t bytes, count;
    const char *text; /* of struct read_held, or INSIDE_NOBODY */
};

struct inside {
    const struct read_capture *run;
    struct load *tensors;
    struct keytable held; /* (walk, row of it) ─► index in the run's `held`, plus 1 */
    struct lying *lying;
    int64_t later_ns; /* from the run's clock to the tensors' */
    struct inside_row *rows;
    size_t row_count, row_room;
    struct read_held_at *at; /* of the rows */
    size_t at_count, at_room;
};

static const struct vec_key inside_by_address[] = {
        VEC_UP(struct lying, address), VEC_UP(struct lying, born_ns)};

static struct lying *inside_order(const struct trace *trace)
{
    struct lying *lying = vec_new(trace->block_count + 1, sizeof(*lying));

    for (size_t i = 0; i < trace->block_count; i++)
        lying[i] = (struct lying){trace->blocks[i].address, trace->blocks[i].born_ns, (uint32_t)i};
    VEC_SORT_BY(lying, trace->block_count, inside_by_address);
    return lying;
}

static uint64_t inside_time(const struct inside *in, uint64_t ns)
{
    return in->later_ns < 0 && ns < (uint64_t)-in->later_ns ? 0 : ns + (uint64_t)in->later_ns;
}

static bool inside_lives(const struct trace_block *block, uint64_t ns)
{
    return block->born_ns <= ns && (block->died == TRACE_NEVER || block->died_ns > ns);
}

/* The tensor at an address at a time of the tensors' clock; TRACE_NONE. */
static uint32_t inside_find(const struct inside *in, uint64_t address, uint64_t ns)
{
    const struct trace *trace = in->tensors->trace;
    size_t low = 0;
    size_t high = trace->block_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct lying *at = &in->lying[middle];

        if (at->address < address || (at->address == address && at->born_ns <= ns))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || in->lying[low - 1].address != address)
        return TRACE_NONE;
    return inside_lives(&trace->blocks[in->lying[low - 1].block], ns) ? in->lying[low - 1].block
                                                                      : TRACE_NONE;
}

/* ---- data ----------------------------------------------------------------------------------- */

/* Whether a tensor has this name already: each look has written it. */
static bool inside_is_named(struct keytable *named, const struct read_data *data)
{
    struct key key = keytable_text(data->text);

    key.b ^= data->seq;
    key.c ^= (uint64_t)data->root << 8 | (uint64_t)data->kind;
    return (*keytable_at(named, key, 0))++ > 0;
}

/* Storages that are no tensor's of the record are left out. */
static void inside_take_data(struct inside *in)
{
    const struct trace *trace = in->tensors->trace;
    struct read_capture *to = in->tensors->capture;
    struct keytable named = {0};

    free(to->data);
    to->data = vec_new(in->run->data_count + 1, sizeof(*to->data));
    for (size_t i = 0; i < in->run->data_count; i++) {
        struct read_data data = in->run->data[i];
        uint32_t block;

        data.time_ns = inside_time(in, data.time_ns);
        if (data.address) {
            block = inside_find(in, data.address, data.time_ns);
            if (block == TRACE_NONE)
                continue;
            data.seq = trace->events[trace->blocks[block].born].seq;
            if (inside_is_named(&named, &data))
                continue;
        }
        data.text = vec_text(data.text);
        to->data[to->data_count++] = data;
    }
    keytable_done(&named);
}

/* ---- holders -------------------------------------------------------------------------------- */

/* Returns the number of its row. */
static uint32_t inside_add(
        struct inside *in, struct keytable *index, uint32_t block, const struct inside_row *like)
{
    const struct trace_block *tensor = &in->tensors->trace->blocks[block];
    uint32_t at =
            keytable_number(index, (struct key){(uintptr_t)like->text, like->walk, tensor->stack});

    if (at == in->row_count)
        VEC_PUSH(in->rows, in->row_count, in->row_room) =
                (struct inside_row){.walk = like->walk, .stack = tensor->stack, .text = like->text};
    in->rows[at].bytes += tensor->size;
    in->rows[at].count++;
    return at;
}

/* `row`: of those of the walk. */
static void inside_add_at(struct inside *in, uint32_t walk, uint32_t row, uint64_t address)
{
    uint64_t *one = vec_new(1, sizeof(*one));

    *one = address;
    VEC_PUSH(in->at, in->at_count, in->at_room) = (struct read_held_at){walk, row, one, 1};
}

static void inside_number_rows(struct inside *in)
{
    for (size_t i = 0; i < in->run->held_count; i++) {
        uint32_t walk = in->run->held[i].walk;
        uint32_t row = (*keytable_at(&in->held, (struct key){walk, UINT64_MAX, 0}, 0))++;

        *keytable_at(&in->held, (struct key){walk, row, 0}, 0) = (uint32_t)i + 1;
    }
}

/* A walk's record by its number among those of the walk; NULL: it is not there. */
static const struct read_held *inside_row_of(const struct inside *in, const struct read_held_at *at)
{
    uint32_t number = keytable_get(&in->held, (struct key){at->walk, at->row, 0}, 0);

    return number ? &in->run->held[number - 1] : NULL;
}

static size_t inside_rows_of(const struct inside *in, uint32_t walk)
{
    size_t count = 0;

    for (size_t i = 0; i < in->run->held_count; i++)
        count += in->run->held[i].walk == walk;
    return count;
}

/* What has no holder, if the walk tells of all that has one. */
static void inside_add_others(struct inside *in, struct keytable *index,
        const struct format_def_walk *walk, const bool *is_held)
{
    const struct inside_row nobody = {.walk = walk->def.id, .text = INSIDE_NOBODY};

    for (size_t i = 0; i < in->tensors->trace->block_count; i++)
        if (!is_held[i] && inside_lives(&in->tensors->trace->blocks[i], walk->time_ns))
            (void)inside_add(in, index, (uint32_t)i, &nobody);
}

/* The walk's figures become those of tensors, and of the failures that PyTorch tells. */
static void inside_sum(const struct inside *in, struct format_def_walk *walk)
{
    const struct load *tensors = in->tensors;
    const struct trace *trace = tensors->trace;

    walk->bytes = 0;
    walk->count = 0;
    walk->failures = 0;
    for (size_t i = 0; i < tensors->oom_count; i++) {
        uint32_t at = tensors->ooms[i].at;

        walk->failures += at == TRACE_NEVER || trace->events[at].time_ns <= walk->time_ns;
    }
    for (size_t i = 0; i < trace->block_count; i++)
        if (inside_lives(&trace->blocks[i], walk->time_ns)) {
            walk->bytes += trace->blocks[i].size;
            walk->count++;
        }
}

static void inside_take_walk(
        struct inside *in, struct keytable *index, struct format_def_walk *walk)
{
    bool *is_held = vec_new(in->tensors->trace->block_count + 1, sizeof(*is_held));
    uint32_t first = (uint32_t)in->row_count;
    bool is_whole =
            inside_rows_of(in, walk->def.id) < INSIDE_ROWS && !(walk->flags & FORMAT_WALK_BLOCKS);

    for (size_t i = 0; i < in->run->held_at_count; i++) {
        const struct read_held_at *inside = &in->run->held_at[i];
        const struct read_held *held =
                inside->walk == walk->def.id ? inside_row_of(in, inside) : NULL;

        for (size_t k = 0; held && k < inside->count; k++) {
            uint32_t block = inside_find(in, inside->address[k], walk->time_ns);
            uint32_t row;

            if (block == TRACE_NONE || is_held[block])
                continue;
            is_held[block] = true;
            row = inside_add(in, index, block,
                    &(struct inside_row){.walk = walk->def.id, .text = held->text});
            inside_add_at(in, walk->def.id, row - first, inside->address[k]);
        }
    }
    if (is_whole)
        inside_add_others(in, index, walk, is_held);
    inside_sum(in, walk);
    free(is_held);
}

static void inside_give_rows(struct inside *in)
{
    struct load *tensors = in->tensors;
    struct read_capture *to = tensors->capture;

    free(tensors->held_stacks);
    tensors->held_stacks = vec_new(in->row_count + 1, sizeof(*tensors->held_stacks));
    free(to->held);
    to->held = vec_new(in->row_count + 1, sizeof(*to->held));
    for (size_t i = 0; i < in->row_count; i++) {
        const struct inside_row *row = &in->rows[i];

        tensors->held_stacks[i] = row->stack;
        to->held[to->held_count++] = (struct read_held){.walk = row->walk,
                .bytes = row->bytes,
                .count = row->count,
                .text = vec_text(row->text)};
    }
    free(to->held_at);
    to->held_at = in->at;
    to->held_at_count = in->at_count;
}

static void inside_take_walks(struct inside *in)
{
    struct read_capture *to = in->tensors->capture;
    struct keytable index = {0};

    free(to->walk);
    to->walk = vec_new(in->run->walk_count + 1, sizeof(*to->walk));
    for (size_t i = 0; i < in->run->walk_count; i++) {
        struct format_def_walk *walk = &to->walk[to->walk_count];

        *walk = in->run->walk[i];
        if (walk->flags & FORMAT_WALK_SCAN)
            continue;
        to->walk_count++;
        walk->time_ns = inside_time(in, walk->time_ns);
        inside_take_walk(in, &index, walk);
    }
    keytable_done(&index);
    inside_give_rows(in);
}

void inside_join(const struct load *run, struct load *tensors)
{
    struct inside in = {.run = run->capture,
            .tensors = tensors,
            .lying = inside_order(tensors->trace),
            .later_ns = (int64_t)(run->capture->start_real_ns - tensors->capture->start_real_ns)};

    inside_number_rows(&in);
    inside_take_data(&in);
    inside_take_walks(&in);
    keytable_done(&in.held);
    free(in.lying);
    free(in.rows);
}

/* ---- kinds ---------------------------------------------------------------------------------- */

/* Adds the blocks of a record to the sum of its row, or tells them. */
static void inside_tell(const struct inside *in, const struct read_held_at *at, uint64_t ns,
        struct trace_sum *sums, const char **told)
{
    const struct read_held *held = inside_row_of(in, at);
    struct trace_sum *sum = held ? &sums[held - in->run->held] : NULL;
    bool is_whole = held && told && sum->count == held->count
            && sum->bytes <= held->bytes + FORMAT_DATA_SLACK * held->count;

    for (size_t k = 0; held && k < at->count; k++) {
        uint32_t block = inside_find(in, at->address[k], ns);

        if (block == TRACE_NONE)
            continue;
        if (is_whole)
            told[block] = held->text;
        if (!told) {
            sum->count++;
            sum->bytes += in->tensors->trace->blocks[block].size;
        }
    }
}

const char **inside_told(const struct load *load)
{
    const struct read_capture *capture = load->capture;
    struct load own = *load;
    struct inside in = {.run = capture, .tensors = &own, .lying = inside_order(load->trace)};
    const char **told = vec_new(load->trace->block_count + 1, sizeof(*told));
    struct trace_sum *sums = vec_new(capture->held_count + 1, sizeof(*sums));
    struct keytable walks = {0};

    inside_number_rows(&in);
    for (size_t i = 0; i < capture->walk_count; i++)
        *keytable_at(&walks, (struct key){capture->walk[i].def.id, 0, 0}, 0) = (uint32_t)i + 1;
    for (size_t i = 0; i < 2 * capture->held_at_count; i++) {
        const struct read_held_at *at = &capture->held_at[i % capture->held_at_count];
        uint32_t walk = keytable_get(&walks, (struct key){at->walk, 0, 0}, 0);

        if (walk)
            inside_tell(&in, at, capture->walk[walk - 1].time_ns, sums,
                    i < capture->held_at_count ? NULL : told);
    }
    keytable_done(&walks);
    keytable_done(&in.held);
    free(in.lying);
    free(sums);
    return told;
}
