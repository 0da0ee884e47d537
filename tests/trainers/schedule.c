/* SPDX-License-Identifier: MIT */
#include "tests/trainers/schedule.h"

#include <errno.h>
#include <stdlib.h>

enum {
    OPS_PER_MICRO_BATCH = 15, /* both ranges with all that is in them, and what the update drops */
    OPS_OF_UPDATE = 3,
};

struct making {
    struct schedule *schedule;
    bool is_first, is_last;
    struct schedule_form form;
};

static void add(
        const struct making *m, enum schedule_act act, enum schedule_range range, int micro_batch)
{
    m->schedule->ops[m->schedule->count++] = (struct schedule_op){act, range, micro_batch};
}

/* `proved`: the micro-batch whose gradient this one's receive proves to have arrived. */
static void add_forward(const struct making *m, int micro_batch, int proved)
{
    add(m, SCHEDULE_BEGIN, SCHEDULE_IN_FORWARD, micro_batch);
    add(m, SCHEDULE_TAKE_INPUT, SCHEDULE_IN_FORWARD, micro_batch);
    if (!m->is_first)
        add(m, SCHEDULE_RECEIVE_INPUT, SCHEDULE_IN_FORWARD, micro_batch);
    if (!m->is_first && m->form.mended && proved >= 0)
        add(m, SCHEDULE_DROP_GRADIENT, SCHEDULE_IN_FORWARD, proved);
    add(m, SCHEDULE_FORWARD, SCHEDULE_IN_FORWARD, micro_batch);
    if (!m->is_last)
        add(m, SCHEDULE_SEND_OUTPUT, SCHEDULE_IN_FORWARD, micro_batch);
    if (!m->is_last && m->form.early_output)
        add(m, SCHEDULE_DROP_OUTPUT, SCHEDULE_IN_FORWARD, micro_batch);
    add(m, SCHEDULE_END, SCHEDULE_IN_FORWARD, micro_batch);
}

static void add_backward(const struct making *m, int micro_batch)
{
    add(m, SCHEDULE_BEGIN, SCHEDULE_IN_BACKWARD, micro_batch);
    if (!m->is_last)
        add(m, SCHEDULE_RECEIVE_CHANGE, SCHEDULE_IN_BACKWARD, micro_batch);
    add(m, SCHEDULE_BACKWARD, SCHEDULE_IN_BACKWARD, micro_batch);
    if (m->is_last || !m->form.early_output)
        add(m, SCHEDULE_DROP_OUTPUT, SCHEDULE_IN_BACKWARD, micro_batch);
    if (!m->is_first)
        add(m, SCHEDULE_SEND_GRADIENT, SCHEDULE_IN_BACKWARD, micro_batch);
    add(m, SCHEDULE_DROP_INPUT, SCHEDULE_IN_BACKWARD, micro_batch);
    add(m, SCHEDULE_END, SCHEDULE_IN_BACKWARD, micro_batch);
}

static void add_update(const struct making *m, int first_gradient, int micro_batches)
{
    add(m, SCHEDULE_BEGIN, SCHEDULE_IN_UPDATE, -1);
    add(m, SCHEDULE_UPDATE, SCHEDULE_IN_UPDATE, -1);
    add(m, SCHEDULE_END, SCHEDULE_IN_UPDATE, -1);
    for (int i = first_gradient; i < micro_batches && !m->is_first; i++)
        add(m, SCHEDULE_DROP_GRADIENT, SCHEDULE_IN_UPDATE, i);
}

int schedule_make(int stages, int stage, int micro_batches, struct schedule_form form,
        struct schedule *ret_schedule)
{
    struct making m = {ret_schedule, stage == 0, stage == stages - 1, form};
    int startup = stages - stage - 1;
    int backward = 0, dropped = 0;

    if (stages < 2 || stage < 0 || stage >= stages || micro_batches <= startup)
        return -EINVAL;
    ret_schedule->count = 0;
    ret_schedule->ops = calloc((size_t)micro_batches * OPS_PER_MICRO_BATCH + OPS_OF_UPDATE,
            sizeof(struct schedule_op));
    if (!ret_schedule->ops)
        return -ENOMEM;
    for (int i = 0; i < startup; i++)
        add_forward(&m, i, -1);
    for (int i = startup; i < micro_batches; i++) {
        add_forward(&m, i, backward - 2);
        if (form.mended && backward >= 2)
            dropped++;
        add_backward(&m, backward++);
    }
    while (backward < micro_batches)
        add_backward(&m, backward++);
    add_update(&m, dropped, micro_batches);
    return 0;
}

void schedule_free(struct schedule *schedule)
{
    free(schedule->ops);
    *schedule = (struct schedule){0};
}
