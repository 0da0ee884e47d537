/* SPDX-License-Identifier: MIT */
/*
 * schedule.h - what one stage of a pipeline does in a step, in order: one forward, one backward (1F1B).
 *
 * Paddle's section worker (#34230): each stage runs so many forwards first that the last stage can begin with its
 * backward at once, then a forward and a backward in turn, then the backwards that are left, then the update.
 *
 *     stage 0 of 3   F0 F1 | F2 B0 F3 B1 | B2 B3 | update
 *     stage 1           F0 | F1 B0 F2 B1 F3 B2 | B3 | update
 *     stage 2              | F0 B0 F1 B1 F2 B2 F3 B3 | update
 *                  startup   steady                drain
 *
 * A forward receives its input, computes its output and sends it; a backward does the same with gradients the other
 * way. Sends run on streams of their own, so what they send must stay until they are over:
 *
 *     output     until the backward has received: the peer cannot have sent its gradient without the output. Given back
 *                right after the send in the early form (#34214), which nothing has proved over
 *     gradient   until after the update (the waste that #34230 ends), or, mended, until the second forward receive after its
 *                send: the peer cannot have sent that input before it had received the gradient
 *
 * Which memory each act takes and gives back is said here; how is the program's. Pure: no device, no clock. Memory: the list,
 * from malloc.
 */
#ifndef KEDGE_TRAINERS_SCHEDULE_H
#define KEDGE_TRAINERS_SCHEDULE_H

#include <stdbool.h>

enum schedule_act {
    SCHEDULE_BEGIN, /* of a range */
    SCHEDULE_END,
    SCHEDULE_TAKE_INPUT,    /* memory for it */
    SCHEDULE_RECEIVE_INPUT, /* from the stage before; not on stage 0 */
    SCHEDULE_FORWARD,       /* takes the output and computes it */
    SCHEDULE_SEND_OUTPUT,   /* to the next stage; not on the last */
    SCHEDULE_DROP_OUTPUT,   /* gives its memory back */
    SCHEDULE_RECEIVE_CHANGE, /* takes memory for the gradient of the output, receives it; not on the last stage */
    SCHEDULE_BACKWARD, /* takes the gradient of the input and computes it; takes nothing on stage 0 */
    SCHEDULE_SEND_GRADIENT, /* to the stage before; not on stage 0 */
    SCHEDULE_DROP_INPUT,    /* and the gradient of the output */
    SCHEDULE_DROP_GRADIENT, /* what was sent; not on stage 0; those that are left: behind the update's range */
    SCHEDULE_UPDATE,
};

enum schedule_range {
    SCHEDULE_IN_FORWARD,
    SCHEDULE_IN_BACKWARD,
    SCHEDULE_IN_UPDATE,
};

struct schedule_op {
    enum schedule_act act;
    enum schedule_range range;
    int micro_batch; /* -1 in the update's own acts */
};

struct schedule {
    int count;
    struct schedule_op *ops;
};

struct schedule_form {
    bool mended; /* gradients that were sent go at the second forward receive after their send */
    bool early_output; /* outputs go right after their send: wrong */
};

/*
 * The acts of `stage` (of `stages`, at least 2) in a step of `micro_batches`, of which there are more than the stage's
 * startup steps. Returns 0; -EINVAL for numbers that make no pipeline; -ENOMEM.
 */
int schedule_make(int stages, int stage, int micro_batches, struct schedule_form form,
        struct schedule *ret_schedule);
void schedule_free(struct schedule *schedule);

#endif
