/* SPDX-License-Identifier: MIT */
/*
 * pipestory.h - the story of one stage of a pipeline, as tests/trainers/schedule.h has it: stage 1 of 3.
 *
 *     step/0 [ forward [ recv in, output, send ] forward ... backward [ recv change, gradient, send ] ... update [ free gradients ] ]
 */
#ifndef KEDGE_TESTS_UNIT_PIPESTORY_H
#define KEDGE_TESTS_UNIT_PIPESTORY_H

#include "tests/unit/tools/story.h"
#include "tracker/format/format.h"

enum {
    PIPESTORY_STARTUP = 1,
    PIPESTORY_MOST = 64, /* micro-batches */
    PIPESTORY_SIZE = 16 << 20,
    /* call sites */
    PIPESTORY_INPUT = 1,
    PIPESTORY_OUTPUT,
    PIPESTORY_CHANGE,
    PIPESTORY_GRADIENT,
};

struct pipestory {
    int micro_batches;
    int read_after; /* a gradient is read once more, behind so many forward receives after its send */
    bool is_mended;   /* gradients go at the second forward receive after their send */
    bool is_unsent;   /* nothing is sent */
    bool is_silent;   /* nothing is received */
    bool is_doubtful; /* gradients may be used unseen */
    bool is_cut;      /* it ends before the update */
    bool is_behind;   /* gradients go behind the update, not in it */
    bool is_shared; /* one communicator for all ranks, instead of one for each neighbour and direction */
    bool is_split; /* gradients are sent to two ranks by turns */
    bool is_fused; /* a gradient is sent where the next input is received, just before that, as long as one comes */
};

#define PIPESTORY(...) (&(const struct pipestory){__VA_ARGS__})

/* Event i at i + 1 ms; where uses were told by events (pipestory_use), those are times now. */
static inline void pipestory_times(const struct story *s)
{
    for (size_t i = 0; i < s->trace->event_count; i++)
        s->trace->events[i].time_ns = (i + 1) * 1000000;
    for (size_t i = 0; i < s->trace->block_count; i++) {
        struct trace_block *block = &s->trace->blocks[i];
        block->born_ns = s->trace->events[block->born].time_ns;
        block->died_ns = block->died == TRACE_NEVER ? 0 : s->trace->events[block->died].time_ns;
        block->use_flags |= FORMAT_USE_WATCHED;
    }
}

/* A use just behind the last event. */
static inline void pipestory_use(const struct story *s, uint32_t block)
{
    struct trace_uses uses = trace_uses(s->trace, &s->trace->blocks[block]);

    uses.last = s->trace->event_count * 1000000 + 1;
    uses.first = uses.first ? uses.first : uses.last;
    uses.count++;
    trace_set_uses(s->trace, block, &uses);
}

struct pipestory_link {
    uint64_t comm;
    int peer;
};

static inline void pipestory_call(struct story *s, const char *name, const char *arg,
        uint32_t block, struct pipestory_link link)
{
    struct trace_call call = {
            .name = name, .anchor = story_here(s), .comm = link.comm, .peer = link.peer};

    call.buffer[0] = (struct trace_buffer){
            arg, block == TRACE_NONE ? 0 : s->trace->blocks[block].address, TRACE_NONE};
    trace_add_call(s->trace, &call, s->thread);
    if (block != TRACE_NONE)
        pipestory_use(s, block);
}

struct pipestory_step {
    const struct pipestory *form;
    uint32_t input[PIPESTORY_MOST], output[PIPESTORY_MOST], gradient[PIPESTORY_MOST];
    int received, backwards, sent; /* inputs; backwards; gradients */
};

enum pipestory_way {
    PIPESTORY_DOWN_IN = 1,
    PIPESTORY_DOWN_OUT,
    PIPESTORY_UP_IN,
    PIPESTORY_UP_OUT,
};

static inline struct pipestory_link pipestory_link(
        const struct pipestory *form, enum pipestory_way way)
{
    bool is_before = way == PIPESTORY_DOWN_IN || way == PIPESTORY_UP_OUT;

    if (form->is_shared)
        return (struct pipestory_link){9, is_before ? 0 : 2};
    return (struct pipestory_link){way, is_before ? 0 : 1};
}

static inline void pipestory_send_gradient(struct story *s, struct pipestory_step *step)
{
    struct pipestory_link link = pipestory_link(step->form, PIPESTORY_UP_OUT);

    if (step->form->is_unsent)
        return;
    if (step->form->is_split && step->sent % 2 && step->form->is_shared)
        link.peer = 3;
    else if (step->form->is_split && step->sent % 2)
        link.comm = 5;
    pipestory_call(s, "ncclSend", "sendbuff", step->gradient[step->sent++], link);
}

static inline void pipestory_forward(struct story *s, struct pipestory_step *step)
{
    int i = step->received++;

    (void)story_enter(s, "forward");
    step->input[i] = story_alloc(s, PIPESTORY_INPUT, PIPESTORY_SIZE);
    if (step->form->is_fused && step->sent < step->backwards)
        pipestory_send_gradient(s, step);
    if (!step->form->is_silent)
        pipestory_call(s, "ncclRecv", "recvbuff", step->input[i],
                pipestory_link(step->form, PIPESTORY_DOWN_IN));
    /* gradient g is sent behind g + STARTUP + 1 receives */
    int mended = i - PIPESTORY_STARTUP - 2;
    int read = i - PIPESTORY_STARTUP - step->form->read_after;
    if (step->form->is_mended && mended >= 0)
        story_free(s, step->gradient[mended]);
    if (step->form->read_after && read >= 0 && read < step->backwards)
        pipestory_use(s, step->gradient[read]);
    step->output[i] = story_alloc(s, PIPESTORY_OUTPUT, PIPESTORY_SIZE);
    pipestory_use(s, step->output[i]);
    if (!step->form->is_unsent)
        pipestory_call(s, "ncclSend", "sendbuff", step->output[i],
                pipestory_link(step->form, PIPESTORY_DOWN_OUT));
    story_exit(s);
}

static inline void pipestory_backward(struct story *s, struct pipestory_step *step)
{
    int i = step->backwards++;

    (void)story_enter(s, "backward");
    uint32_t change = story_alloc(s, PIPESTORY_CHANGE, PIPESTORY_SIZE);
    if (!step->form->is_silent)
        pipestory_call(
                s, "ncclRecv", "recvbuff", change, pipestory_link(step->form, PIPESTORY_UP_IN));
    story_free(s, step->output[i]);
    step->gradient[i] = story_alloc(s, PIPESTORY_GRADIENT, PIPESTORY_SIZE);
    if (step->form->is_doubtful)
        s->trace->blocks[step->gradient[i]].use_flags |= FORMAT_USE_SHOWN;
    pipestory_use(s, step->gradient[i]);
    if (!step->form->is_fused || step->received == step->form->micro_batches)
        pipestory_send_gradient(s, step);
    story_free(s, change);
    story_free(s, step->input[i]);
    story_exit(s);
}

static inline void pipestory_step(struct story *s, int number, const struct pipestory *form)
{
    struct pipestory_step step = {.form = form};
    char name[32];

    (void)snprintf(name, sizeof(name), "step/%d", number);
    (void)story_enter(s, name);
    for (int i = 0; i < PIPESTORY_STARTUP; i++)
        pipestory_forward(s, &step);
    while (step.backwards < form->micro_batches) {
        if (step.received < form->micro_batches)
            pipestory_forward(s, &step);
        pipestory_backward(s, &step);
    }
    if (form->is_cut)
        return;
    (void)story_enter(s, "update");
    if (form->is_behind)
        story_exit(s);
    for (int i = 0; i < form->micro_batches; i++) {
        uint32_t block = step.gradient[i];
        if (s->trace->blocks[block].died == TRACE_NEVER)
            story_free(s, block);
    }
    if (!form->is_behind)
        story_exit(s);
    story_exit(s);
}

#endif
