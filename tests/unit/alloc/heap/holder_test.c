/* SPDX-License-Identifier: MIT */
/* covers: holder.c */
#include "alloc/heap/holder.h"
#include "tests/check.h"

static struct holder in_state(enum holder_state state, bool freed)
{
    return (struct holder){.state = state, .freed = freed};
}

/* Every state, freed or not, with every event: what follows, or -1 = refused and unchanged. */
TEST(every_event_in_every_state)
{
    static const struct {
        enum holder_state from;
        bool freed;
        int to[HOLDER_EVENT_COUNT]; /* DUE QUIET REMOVED FREE */
    } rows[] = {
            {HOLDER_LIVE, false, {HOLDER_DEAD, -1, -1, HOLDER_GONE}},
            {HOLDER_DEAD, false, {-1, HOLDER_LIMBO, -1, HOLDER_DEAD}},
            {HOLDER_DEAD, true, {-1, HOLDER_LIMBO, -1, -1}},
            {HOLDER_LIMBO, false, {-1, -1, HOLDER_HUSK, HOLDER_LIMBO}},
            {HOLDER_LIMBO, true, {-1, -1, HOLDER_GONE, -1}},
            {HOLDER_HUSK, false, {-1, -1, -1, HOLDER_GONE}},
            {HOLDER_HELD, true, {HOLDER_LET_GO, -1, -1, -1}},
            {HOLDER_LET_GO, true, {-1, -1, -1, -1}},
            {HOLDER_GONE, true, {-1, -1, -1, -1}},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        for (int event = 0; event < HOLDER_EVENT_COUNT; event++) {
            struct holder holder = in_state(rows[i].from, rows[i].freed);
            int r = holder_step(&holder, (enum holder_event)event);

            if (rows[i].to[event] < 0) {
                CHECK_NE(r, 0);
                CHECK_EQ(holder.state, rows[i].from);
                CHECK_EQ(holder.freed, rows[i].freed);
            } else {
                CHECK_EQ(r, 0);
                CHECK_EQ((int)holder.state, rows[i].to[event]);
                CHECK_EQ(holder.freed, rows[i].freed || event == HOLDER_EVENT_FREE);
            }
        }
    }
}

TEST(a_range_is_released_while_the_program_still_has_it)
{
    for (int state = 0; state < HOLDER_STATE_COUNT; state++) {
        struct holder kept = in_state((enum holder_state)state, false);
        struct holder freed = in_state((enum holder_state)state, true);

        CHECK_EQ(holder_is_released(&kept),
                state == HOLDER_DEAD || state == HOLDER_LIMBO || state == HOLDER_HUSK);
        CHECK(!holder_is_released(&freed));
    }
}
