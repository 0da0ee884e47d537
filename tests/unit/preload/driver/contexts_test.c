/* SPDX-License-Identifier: MIT */
/* covers: contexts.c */
/* Contexts that end: with many streams, which is counted in looks at the table of streams; and while somebody asks for them. */
#include "alloc/base/table.h"
#include "preload/base/bounds.h"
#include "preload/driver/contexts.h"
#include "preload/driver/resolve.h"
#include "tests/check.h"

#include <errno.h>

enum {
    STREAMS = 1000, /* of each context */
};

void *resolve_real[SLOT_COUNT];
static uintptr_t current; /* number and handle of the context */
static unsigned looks;    /* of table_next, and removals */
static bool tells_captures;

bool resolve_has(enum resolve_slot slot)
{
    return slot == SLOT_cuCtxGetId || slot == SLOT_cuStreamGetId
            || (slot == SLOT_cuStreamGetCaptureInfo_v2 && tells_captures)
            || (slot == SLOT_cuStreamIsCapturing && tells_captures);
}

/* NOLINTBEGIN(performance-no-int-to-ptr): handles are numbers here */
static CUresult get_current(CUcontext *ret_context)
{
    *ret_context = (CUcontext)current;
    return CUDA_SUCCESS;
}

static CUstream stream_of(uintptr_t context, unsigned i)
{
    return (CUstream)(context << 16 | (uintptr_t)i << 4);
}
/* NOLINTEND(performance-no-int-to-ptr) */

static CUdevice device_now;

static CUresult get_device(CUdevice *ret_device)
{
    *ret_device = device_now;
    return CUDA_SUCCESS;
}

static CUresult context_id(CUcontext context, unsigned long long *ret_id)
{
    *ret_id = (uintptr_t)context;
    return CUDA_SUCCESS;
}

static CUresult stream_id(CUstream stream, unsigned long long *ret_id)
{
    *ret_id = (uintptr_t)stream;
    return CUDA_SUCCESS;
}

void *__real_table_next(const struct table *table, const void *record);
void *__wrap_table_next(const struct table *table, const void *record);
void *__real_table_remove(struct table *table, void *record);
void *__wrap_table_remove(struct table *table, void *record);

void *__wrap_table_next(const struct table *table, const void *record)
{
    looks++;
    return __real_table_next(table, record);
}

void *__wrap_table_remove(struct table *table, void *record)
{
    looks++;
    return __real_table_remove(table, record);
}

static void start(void)
{
    resolve_real[SLOT_cuCtxGetCurrent] = (void *)(uintptr_t)get_current;
    resolve_real[SLOT_cuCtxGetDevice] = (void *)(uintptr_t)get_device;
    resolve_real[SLOT_cuCtxGetId] = (void *)(uintptr_t)context_id;
    resolve_real[SLOT_cuStreamGetId] = (void *)(uintptr_t)stream_id;
}

/* The first `count` streams of a context that is new, each seen once. */
static void use_streams(uintptr_t context, unsigned count)
{
    struct stream stream;

    current = context;
    for (unsigned i = 1; i <= count; i++)
        REQUIRE_EQ(stream_here(stream_of(context, i), false, &stream), 0);
}

static bool is_known(uintptr_t context, unsigned i)
{
    return stream_identity(stream_of(context, i)) != 0;
}

TEST(a_context_takes_its_streams_with_it_in_one_pass)
{
    struct context context;

    start();
    use_streams(1, STREAMS);
    use_streams(2, STREAMS);
    current = 1;
    REQUIRE_EQ(context_here(&context), 0);
    looks = 0;
    CHECK_EQ(context_forget(context.handle), context.generation);
    printf("%u streams of %u: %u looks\n", STREAMS, 2 * STREAMS, looks);
    CHECK_LE(looks, 2 * STREAMS + STREAMS + 8); /* each once, the removed ones twice at most */
    for (unsigned i = 1; i <= STREAMS; i++) {
        CHECK(!is_known(1, i));
        CHECK(is_known(2, i));
    }
}

/* Until the call that names it is back, an ended context is known to nobody but counts as used. */
TEST(a_context_that_is_used_goes_when_the_use_is_over)
{
    struct context context;
    struct context_use use;

    start();
    current = 3;
    REQUIRE_EQ(context_here(&context), 0);
    REQUIRE_EQ(context_enter(context.generation, &use), 0);
    context_leave(&use);
    CHECK(context_next(0, &context));
    CHECK_EQ(context_forget(context.handle), context.generation);
    CHECK(!context_next(0, &(struct context){0}));
    CHECK(!context_of_generation(context.generation, &context));
    CHECK_EQ(context_enter(context.generation, &use), -ENOENT);
    CHECK_EQ(context_forget(context.handle), 0);
}

/* Another thread ends the current context while the driver answers, and the handle is another one's from then on. */
static bool ends;
static uint64_t old, young; /* the driver's numbers of the two */

static CUresult id_of_one_that_ends(CUcontext context, unsigned long long *ret_id)
{
    uint64_t generation;

    *ret_id = old;
    if (ends) {
        ends = false;
        generation = context_forget(context);
        CHECK_EQ(generation, old + 1);
        old = young;
        context_forget_done(generation, context);
    }
    return CUDA_SUCCESS;
}

/* Memory of the new context in the books of the old one could have an address twice. */
TEST(a_context_that_ends_meanwhile_is_not_noted_again)
{
    struct context context;

    start();
    resolve_real[SLOT_cuCtxGetId] = (void *)(uintptr_t)id_of_one_that_ends;
    old = 70;
    young = 71;
    current = 7;
    REQUIRE_EQ(context_here(&context), 0);
    CHECK_EQ(context.generation, 71);
    context_changed();
    ends = true;
    REQUIRE_EQ(context_here(&context), 0);
    CHECK_EQ(context.generation, 72);
    CHECK(!context_of_generation(71, &context));
}

/* The driver knows a context until the call that ends it is over. */
TEST(a_context_that_is_being_ended_is_not_noted_again)
{
    struct context context;

    start();
    current = 8;
    REQUIRE_EQ(context_here(&context), 0);
    CHECK_EQ(context_forget(context.handle), context.generation);
    CHECK_EQ(context_here(&context), -ENOSPC);
    CHECK(!context_of_generation(9, &context));
    context_forget_done(
            9, (CUcontext)current); // NOLINT(performance-no-int-to-ptr): the driver has refused
    CHECK_EQ(context_here(&context), 0);
    CHECK_EQ(context.generation, 9);
}

/* The table of the caller has room for so many and no more. */
TEST(streams_that_went_with_a_context_are_told_some_at_a_time_and_each_once)
{
    enum {
        COUNT = STREAM_ENDED + 4
    };
    uint64_t told[STREAM_ENDED + 1] = {0};
    uint64_t sum = 0, expected = 0;
    struct context context;
    unsigned count;

    start();
    use_streams(6, COUNT);
    for (unsigned i = 1; i <= COUNT; i++)
        expected += stream_identity(stream_of(6, i));
    REQUIRE_EQ(context_here(&context), 0);
    CHECK_EQ(context_forget(context.handle), context.generation);
    CHECK_EQ(stream_take_ended(context.generation + 1, told), 0);
    for (unsigned left = COUNT; left > 0; left -= count) {
        count = stream_take_ended(context.generation, told);
        REQUIRE_EQ(count, left < STREAM_ENDED ? left : STREAM_ENDED);
        CHECK_EQ(told[STREAM_ENDED], 0);
        for (unsigned i = 0; i < count; i++)
            sum += told[i];
    }
    CHECK_EQ(sum, expected);
    CHECK_EQ(stream_take_ended(context.generation, told), 0);
}

TEST(as_many_streams_as_there_is_room_for)
{
    struct stream stream;

    start();
    use_streams(4, STREAMS_MAX);
    CHECK(!bounds_news());
    CHECK_EQ(stream_here(stream_of(4, STREAMS_MAX + 1), false, &stream), -ENOSPC);
    CHECK(bounds_news() != NULL); /* it is said */
    stream_forget(stream_identity(stream_of(4, 7)));
    CHECK_EQ(stream_here(stream_of(4, STREAMS_MAX + 1), false, &stream), 0);
    CHECK_EQ(stream_here(stream_of(4, 7), false, &stream), -ENOSPC);
}

/* ---- ends that are under way ---------------------------------------------------------------- */

static bool lacks_memory;

void *__real_table_add(struct table *table, uint64_t key);
void *__wrap_table_add(struct table *table, uint64_t key);

void *__wrap_table_add(struct table *table, uint64_t key)
{
    return lacks_memory ? NULL : __real_table_add(table, key);
}

/* Which of the contexts 1 to 3 are said to end, as bits; and near which of the devices 0 to 2. */
static unsigned ending(void)
{
    unsigned which = 0;

    for (unsigned i = 1; i <= 3; i++)
        which |= (unsigned)context_is_ending(i) << i;
    return which;
}

static unsigned ending_near(void)
{
    unsigned which = 0;

    for (int i = 0; i < 3; i++)
        which |= (unsigned)context_is_ending_near(i) << i;
    return which;
}

TEST(a_context_is_ending_while_a_call_for_it_is_under_way)
{
    CHECK_EQ(ending(), 0);
    CHECK_EQ(ending_near(), 0);
    context_end_begin(1, 3, true);
    CHECK_EQ(ending(), 2);
    CHECK_EQ(ending_near(), 3);
    context_end_begin(2, 4, true);
    CHECK_EQ(ending(), 6);
    CHECK_EQ(ending_near(), 7);
    context_end_begin(1, 1, false); /* another thread's, too */
    context_end_done(1, 3);
    CHECK_EQ(ending(), 6);
    CHECK_EQ(ending_near(), 5);
    context_end_done(1, 1);
    CHECK_EQ(ending(), 4);
    CHECK_EQ(ending_near(), 4);
    context_end_done(2, 4);
    CHECK_EQ(ending(), 0);
    CHECK_EQ(ending_near(), 0);
    for (int i = 0; i < 3; i++) /* those that count */
        CHECK_EQ(context_ends(i), 1);
    CHECK_EQ(context_ends(3), 0);
}

/* Then it may be any. */
TEST(where_there_is_no_memory_for_an_end_all_contexts_are_ending)
{
    lacks_memory = true;
    context_end_begin(1, 1, true);
    lacks_memory = false;
    CHECK_EQ(ending(), 14);
    context_end_begin(2, 2, true);
    CHECK_EQ(ending(), 14);
    context_end_done(1, 1);
    CHECK_EQ(ending(), 4);
    context_end_done(2, 2);
    CHECK_EQ(ending(), 0);
}

TEST(no_device_is_near_all_ends_and_has_none)
{
    static const int devices[] = {-1, DEVICES_MAX};

    context_end_begin(1, UINT64_MAX, true);
    context_end_done(1, UINT64_MAX);
    for (size_t i = 0; i < 2; i++) {
        CHECK(context_is_ending_near(devices[i]));
        CHECK_EQ(context_ends(devices[i]), 0);
    }
    CHECK(!context_is_ending_near(DEVICES_MAX - 1));
    CHECK_EQ(context_ends(DEVICES_MAX - 1), 1);
    context_end_begin(1, UINT64_MAX, true);
    CHECK(context_is_ending_near(DEVICES_MAX - 1));
    context_fork_child(); /* the child does not have the thread that ends it */
    CHECK(!context_is_ending_near(DEVICES_MAX - 1));
    CHECK(!context_is_ending(1));
}

TEST(a_device_has_the_primary_context_that_was_noted_last)
{
    for (int i = 0; i < DEVICES_MAX; i++)
        context_note_primary(i, (CUcontext)stream_of(9, (unsigned)i));
    context_note_primary(-1, (CUcontext)stream_of(9, 99));
    context_note_primary(DEVICES_MAX, (CUcontext)stream_of(9, 99));
    for (int i = 0; i < DEVICES_MAX; i++)
        CHECK(context_primary(i) == (CUcontext)stream_of(9, (unsigned)i));
    CHECK(!context_primary(-1));
    CHECK(!context_primary(DEVICES_MAX));
    context_note_primary(0, NULL);
    CHECK(!context_primary(0));
}

/* ---- captures ------------------------------------------------------------------------------- */

static CUresult answer; /* of both */
static CUstreamCaptureStatus status_now;
static CUgraph graph_now;

static CUresult is_capturing(CUstream stream, CUstreamCaptureStatus *ret_status)
{
    (void)stream;
    *ret_status = status_now;
    return answer;
}

static CUresult capture_info(CUstream stream, CUstreamCaptureStatus *ret_status, cuuint64_t *ret_id,
        CUgraph *ret_graph, const CUgraphNode **ret_nodes, size_t *ret_count)
{
    (void)stream;
    (void)ret_nodes;
    (void)ret_count;
    *ret_status = status_now;
    *ret_id = 7;
    *ret_graph = graph_now;
    return answer;
}

TEST(a_stream_of_which_nothing_is_told_may_be_captured_and_into_no_graph)
{
    const CUstream stream = stream_of(1, 1);

    resolve_real[SLOT_cuStreamIsCapturing] = (void *)(uintptr_t)is_capturing;
    resolve_real[SLOT_cuStreamGetCaptureInfo_v2] = (void *)(uintptr_t)capture_info;
    graph_now = (CUgraph)stream_of(5, 5);
    status_now = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    CHECK(stream_is_captured(stream));
    CHECK_EQ(stream_captured_graph(stream), 0); /* a driver that lacks the question */
    tells_captures = true;
    CHECK(stream_is_captured(stream));
    CHECK_EQ(stream_captured_graph(stream), (uintptr_t)graph_now);
    status_now = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    CHECK(stream_is_captured(stream));
    status_now = CU_STREAM_CAPTURE_STATUS_NONE;
    CHECK(!stream_is_captured(stream));
    graph_now = NULL;
    CHECK_EQ(stream_captured_graph(stream), 0);
    answer = CUDA_ERROR_INVALID_HANDLE;
    CHECK(stream_is_captured(stream));
    CHECK_EQ(stream_captured_graph(stream), 0);
}

/* ---- blocking streams ----------------------------------------------------------------------- */

static unsigned meetings;

static void meet(void)
{
    meetings++;
}

static unsigned blocking(void)
{
    unsigned count = 0;

    for (int i = 0; i < DEVICES_MAX; i++)
        count += atomic_load(&stream_blocks[i]);
    return count;
}

/* A stream that was made may be a blocking one of its device; where the device is not known, of each. */
TEST(a_stream_that_is_made_may_block_on_its_device)
{
    start();
    stream_on_meeting(meet);
    current = 1;
    device_now = 2;
    stream_made();
    CHECK_EQ(blocking(), 1);
    CHECK(atomic_load(&stream_blocks[2]));
    CHECK_EQ(meetings, 1);
    stream_made();
    CHECK_EQ(meetings, 1);
    current = 2;
    device_now = 0;
    stream_made();
    CHECK_EQ(blocking(), 2);
    CHECK(atomic_load(&stream_blocks[0]));
    CHECK_EQ(meetings, 2);
    current = 3;
    device_now = DEVICES_MAX - 1;
    stream_made();
    CHECK_EQ(blocking(), 3);
    CHECK(atomic_load(&stream_blocks[DEVICES_MAX - 1]));
    current = 0; /* none is current */
    stream_made();
    CHECK_EQ(blocking(), DEVICES_MAX);
    CHECK_EQ(meetings, 4);
}

TEST(a_device_beyond_those_that_are_known_stands_for_all)
{
    start();
    current = 1;
    device_now = DEVICES_MAX;
    stream_made();
    CHECK_EQ(blocking(), DEVICES_MAX);
}

/* What comes first is looked at once, and the short path is told by another epoch. */
TEST(the_first_use_of_a_kind_of_stream_is_noted_once)
{
    unsigned epoch = atomic_load(&context_epoch);

    start();
    stream_on_meeting(meet);
    CHECK_EQ(atomic_load(&stream_news), STREAM_NEWS_OWN | STREAM_NEWS_DEFAULT);
    CHECK(!atomic_load(&stream_defaults));
    stream_first(STREAM_NEWS_DEFAULT);
    CHECK(atomic_load(&stream_defaults));
    CHECK_EQ(atomic_load(&stream_news), STREAM_NEWS_OWN);
    CHECK_EQ(meetings, 1);
    CHECK_EQ(atomic_load(&context_epoch), epoch + 1);
    stream_first(STREAM_NEWS_DEFAULT);
    CHECK_EQ(meetings, 1);
    CHECK_EQ(atomic_load(&context_epoch), epoch + 1);
    CHECK_EQ(blocking(), 0);
    stream_first(STREAM_NEWS_OWN); /* may come on any device */
    CHECK_EQ(atomic_load(&stream_news), 0);
    CHECK_EQ(blocking(), DEVICES_MAX);
    CHECK_EQ(meetings, 2);
}
