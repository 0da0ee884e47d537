/* SPDX-License-Identifier: MIT */
/* The simulated NCCL: two processes send to each other, and collect, under each schedule of the device. */
#include "tests/check.h"
#include "tests/sim/base/simcuda.h"
#include "tests/trainers/trainer.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES ((size_t)16 << 20)
#define WORDS (BYTES / 4)

static const char *const schedules[] = {"eager", "lazy", "random"};

/* What both ranks see. */
static struct both {
    ncclUniqueId id;
    unsigned reached[2]; /* how far each rank says that it is */
} * both;

#define OK(call_)                                                             \
    do {                                                                      \
        if ((int)(call_) != 0) {                                              \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #call_); \
            _exit(10);                                                        \
        }                                                                     \
    } while (0)

struct rank {
    int number;
    ncclComm_t comm;
    cudaStream_t one, two;
    void *buffer;
};

static void say(const struct rank *r, unsigned reached)
{
    __atomic_store_n(&both->reached[r->number], reached, __ATOMIC_RELEASE);
}

static void wait_for_peer(const struct rank *r, unsigned reached)
{
    while (__atomic_load_n(&both->reached[1 - r->number], __ATOMIC_ACQUIRE) < reached)
        (void)usleep(1000);
}

static void rank_begin(struct rank *r)
{
    OK(cudaStreamCreateWithFlags(&r->one, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&r->two, cudaStreamNonBlocking));
    trainer_load_kernels();
    OK(ncclCommInitRank(&r->comm, 2, both->id, r->number));
    OK(cudaMallocAsync(&r->buffer, BYTES, r->one));
    OK(cudaStreamSynchronize(r->one));
}

static uint64_t sum_of(const struct rank *r, const void *buffer)
{
    uint64_t *sum, got;

    OK(cudaMalloc((void **)&sum, sizeof(*sum)));
    OK(cudaMemset(sum, 0, sizeof(*sum)));
    OK(cudaDeviceSynchronize());
    trainer_sum(sum, buffer, BYTES, r->one);
    OK(cudaStreamSynchronize(r->one));
    OK(cudaMemcpy(&got, sum, sizeof(got), cudaMemcpyDeviceToHost));
    return got;
}

static uint64_t sum_of_seed(const struct rank *r, uint32_t seed)
{
    void *other;
    uint64_t sum;

    OK(cudaMalloc(&other, BYTES));
    trainer_fill(other, BYTES, seed, r->one);
    sum = sum_of(r, other);
    OK(cudaFree(other));
    return sum;
}

/* Runs both ranks in processes of their own; each one's exit status. */
static void meet(const char *schedule, void (*body)(struct rank *r), int ret_status[2])
{
    pid_t pids[2];

    both = mmap(NULL, sizeof(*both), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(both != MAP_FAILED);
    REQUIRE(ncclGetUniqueId(&both->id) == ncclSuccess);
    (void)setenv("SIMCUDA_SCHED", schedule, 1);
    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        REQUIRE(pids[i] >= 0);
        if (pids[i] == 0) {
            struct rank r = {.number = i};

            (void)alarm(60);
            rank_begin(&r);
            body(&r);
            _exit(0);
        }
    }
    for (int i = 0; i < 2; i++) {
        REQUIRE(waitpid(pids[i], &ret_status[i], 0) == pids[i]);
        ret_status[i] = WIFEXITED(ret_status[i]) ? WEXITSTATUS(ret_status[i]) : -1;
    }
    (void)munmap(both, sizeof(*both));
}

static void check_both_end_well(void (*body)(struct rank *r))
{
    int status[2];

    for (size_t i = 0; i < sizeof(schedules) / sizeof(schedules[0]); i++) {
        meet(schedules[i], body, status);
        CHECK_EQ(status[0], 0);
        CHECK_EQ(status[1], 0);
    }
}

/* ---- what a call is on its stream ---- */

static void send_before_the_peer(struct rank *r)
{
    if (r->number == 0) {
        trainer_fill(r->buffer, BYTES, 5, r->one);
        OK(ncclSend(r->buffer, WORDS, ncclFloat32, 1, r->comm, r->one));
        for (int i = 0; i < 100; i++)
            OK(cudaStreamQuery(r->one) != cudaErrorNotReady);
        say(r, 1);
        OK(cudaStreamSynchronize(r->one));
        wait_for_peer(r, 1);
        return;
    }
    wait_for_peer(r, 1);
    OK(ncclRecv(r->buffer, WORDS, ncclFloat32, 0, r->comm, r->one));
    OK(cudaStreamSynchronize(r->one));
    OK(sum_of(r, r->buffer) != sum_of_seed(r, 5));
    say(r, 1);
}

TEST(send_returns_at_once_and_its_stream_waits_for_the_peer)
{
    check_both_end_well(send_before_the_peer);
}

static void receive_before_the_peer(struct rank *r)
{
    if (r->number == 1) {
        OK(ncclRecv(r->buffer, BYTES, ncclUint8, 0, r->comm, r->one));
        for (int i = 0; i < 100; i++)
            OK(cudaStreamQuery(r->one) != cudaErrorNotReady);
        say(r, 1);
        OK(cudaStreamSynchronize(r->one));
        OK(sum_of(r, r->buffer) != sum_of_seed(r, 6));
        say(r, 2);
        return;
    }
    wait_for_peer(r, 1);
    trainer_fill(r->buffer, BYTES, 6, r->one);
    OK(ncclSend(r->buffer, BYTES, ncclUint8, 1, r->comm, r->one));
    OK(cudaStreamSynchronize(r->one));
    wait_for_peer(r, 2);
}

TEST(receive_returns_at_once_and_its_stream_waits_for_the_peer)
{
    check_both_end_well(receive_before_the_peer);
}

/* A program that is wrong: it writes what it sends. Only a library that reads late shows it. */
static void write_while_it_is_sent(struct rank *r)
{
    if (r->number == 0) {
        trainer_fill(r->buffer, BYTES, 1, r->one);
        OK(ncclSend(r->buffer, WORDS, ncclFloat32, 1, r->comm, r->one));
        trainer_fill(r->buffer, BYTES, 2, r->two);
        OK(cudaStreamSynchronize(r->two));
        say(r, 1);
        OK(cudaStreamSynchronize(r->one));
        wait_for_peer(r, 1);
        return;
    }
    wait_for_peer(r, 1);
    OK(ncclRecv(r->buffer, WORDS, ncclFloat32, 0, r->comm, r->one));
    OK(cudaStreamSynchronize(r->one));
    OK(sum_of(r, r->buffer) != sum_of_seed(r, 2));
    say(r, 1);
}

TEST(buffer_is_read_late_on_the_stream)
{
    int status[2];

    meet("eager", write_while_it_is_sent, status);
    CHECK_EQ(status[0], 0);
    CHECK_EQ(status[1], 0);
}

static void reuse_while_it_is_sent(struct rank *r)
{
    void *other;

    if (r->number == 1) {
        wait_for_peer(r, 1); /* and never receives */
        return;
    }
    OK(ncclSend(r->buffer, WORDS, ncclFloat32, 1, r->comm, r->two));
    say(r, 1);
    OK(cudaFreeAsync(r->buffer, r->one));
    OK(cudaMallocAsync(&other, BYTES, r->one));
}

TEST(reuse_of_a_buffer_before_the_peer_came_is_seen_by_the_device)
{
    int status[2];

    for (size_t i = 0; i < sizeof(schedules) / sizeof(schedules[0]); i++) {
        meet(schedules[i], reuse_while_it_is_sent, status);
        CHECK_EQ(status[0], SIMCUDA_ORACLE_STATUS);
        CHECK_EQ(status[1], 0);
    }
}

/* ---- several ---- */

static void exchange(struct rank *r)
{
    void *outgoing[2] = {r->buffer, NULL}, *incoming[2];
    unsigned me = (unsigned)r->number;

    OK(cudaMalloc(&outgoing[1], BYTES));
    OK(ncclGroupStart());
    for (unsigned i = 0; i < 2; i++) {
        OK(cudaMalloc(&incoming[i], BYTES));
        trainer_fill(outgoing[i], BYTES, 10 + 2 * me + i, r->one);
        OK(ncclSend(outgoing[i], WORDS, ncclFloat32, 1 - r->number, r->comm, r->one));
        OK(ncclRecv(incoming[i], WORDS, ncclFloat32, 1 - r->number, r->comm, r->one));
    }
    OK(ncclGroupEnd());
    OK(cudaStreamSynchronize(r->one));
    for (unsigned i = 0; i < 2; i++)
        OK(sum_of(r, incoming[i]) != sum_of_seed(r, 10 + 2 * (1 - me) + i));
}

TEST(calls_of_a_group_meet_at_once)
{
    check_both_end_well(exchange);
}

static void many_in_order(struct rank *r)
{
    enum {
        MANY = 6
    };
    void *buffers[MANY];

    for (unsigned i = 0; i < MANY; i++) {
        cudaStream_t stream = (i + (unsigned)r->number) % 2 ? r->one : r->two;

        OK(cudaMalloc(&buffers[i], BYTES));
        if (r->number == 0) {
            trainer_fill(buffers[i], BYTES, i, stream);
            OK(ncclSend(buffers[i], WORDS, ncclFloat32, 1, r->comm, stream));
        } else {
            OK(ncclRecv(buffers[i], WORDS, ncclFloat32, 0, r->comm, stream));
        }
    }
    OK(cudaDeviceSynchronize());
    for (unsigned i = 0; i < MANY; i++)
        OK(sum_of(r, buffers[i]) != sum_of_seed(r, i));
}

TEST(messages_come_in_the_order_of_the_calls_whatever_their_streams)
{
    check_both_end_well(many_in_order);
}

/* ---- the rest ---- */

static void ask_and_be_refused(struct rank *r)
{
    int count = 0, number = -1;

    OK(ncclCommCount(r->comm, &count) || count != 2);
    OK(ncclCommUserRank(r->comm, &number) || number != r->number);
    OK(ncclSend(r->buffer, 1, ncclFloat32, 2, r->comm, r->one) != ncclInvalidArgument);
    OK(ncclSend(r->buffer, 1, ncclFloat32, r->number, r->comm, r->one) != ncclInvalidArgument);
    OK(ncclSend(NULL, 1, ncclFloat32, 1 - r->number, r->comm, r->one) != ncclInvalidArgument);
    OK(ncclRecv(r->buffer, 1, (ncclDataType_t)77, 1 - r->number, r->comm, r->one)
            != ncclInvalidArgument);
    OK(ncclGroupEnd() != ncclInvalidUsage);
    OK(cudaStreamSynchronize(r->one));
    /* The ranks share memory that has no name any more. */
    char path[256];
    (void)snprintf(path, sizeof(path), "/dev/shm%s", both->id.internal);
    OK(access(path, F_OK) == 0);
    OK(ncclCommDestroy(r->comm));
}

TEST(questions_are_answered_and_nonsense_is_refused)
{
    check_both_end_well(ask_and_be_refused);
}

/* ---- what frameworks call: PyTorch's ProcessGroupNCCL, and DistributedDataParallel on it ---- */

enum {
    FEW = 1000,
};

static void *put_floats(const struct rank *r, size_t count, float first)
{
    float *values = malloc(count * sizeof(*values));
    void *buffer;

    OK(!values);
    for (size_t i = 0; i < count; i++)
        values[i] = first + (float)i;
    OK(cudaMalloc(&buffer, count * sizeof(*values)));
    OK(cudaMemcpyAsync(buffer, values, count * sizeof(*values), cudaMemcpyHostToDevice, r->one));
    OK(cudaStreamSynchronize(r->one));
    free(values);
    return buffer;
}

/* The values there are those of put_floats with `first`, times `factor`. */
static void check_floats(const void *buffer, size_t count, float first, float factor)
{
    float *values = malloc(count * sizeof(*values));

    OK(!values);
    OK(cudaMemcpy(values, buffer, count * sizeof(*values), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < count; i++)
        OK(values[i] != factor * (first + (float)i));
    free(values);
}

/* All elements of 16 bits are `mine`, and `sum` afterwards. */
static void check_short_sum(struct rank *r, ncclDataType_t type, uint16_t mine, uint16_t sum)
{
    uint16_t values[64];
    void *buffer;

    for (size_t i = 0; i < 64; i++)
        values[i] = mine;
    OK(cudaMalloc(&buffer, sizeof(values)));
    OK(cudaMemcpyAsync(buffer, values, sizeof(values), cudaMemcpyHostToDevice, r->one));
    OK(ncclAllReduce(buffer, buffer, 64, type, ncclSum, r->comm, r->one));
    OK(cudaStreamSynchronize(r->one));
    OK(cudaMemcpy(values, buffer, sizeof(values), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < 64; i++)
        OK(values[i] != sum);
    OK(cudaFree(buffer));
}

static void sum_over_ranks(struct rank *r)
{
    float mine = r->number ? 100 : 7;
    void *send = put_floats(r, FEW, mine), *receive = put_floats(r, FEW, 0);
    void *part = put_floats(r, FEW / 2, 0);

    OK(ncclAllReduce(send, receive, FEW, ncclFloat32, ncclSum, r->comm, r->one));
    OK(ncclReduceScatter(receive, part, FEW / 2, ncclFloat32, ncclMax, r->comm, r->one));
    OK(cudaStreamSynchronize(r->one));
    check_floats(send, FEW, mine, 1);
    check_floats(receive, FEW, 53.5F, 2);
    check_floats(part, FEW / 2, r->number ? 53.5F + FEW / 2 : 53.5F, 2);

    OK(ncclReduce(send, send, FEW, ncclFloat32, ncclMin, 1, r->comm, r->two));
    OK(cudaStreamSynchronize(r->two));
    check_floats(send, FEW, 7, 1); /* rank 0 had that, and takes nothing */

    send = put_floats(r, FEW, mine);
    OK(ncclAllReduce(send, send, FEW, ncclFloat32, ncclAvg, r->comm, r->one)); /* in place */
    OK(cudaStreamSynchronize(r->one));
    check_floats(send, FEW, 53.5F, 1);
    /* 1.5 + 2.25 in halves and in bfloat16 */
    check_short_sum(r, ncclFloat16, r->number ? 0x3e00 : 0x4080, 0x4380);
    check_short_sum(r, ncclBfloat16, r->number ? 0x3fc0 : 0x4010, 0x4070);
    OK(ncclAllReduce(send, send, FEW, (ncclDataType_t)10, ncclSum, r->comm, r->one)
            != ncclInvalidUsage);
}

TEST(sums_over_ranks)
{
    check_both_end_well(sum_over_ranks);
}

static void gather_and_broadcast(struct rank *r)
{
    void *mine = put_floats(r, FEW, r->number ? FEW : 0), *all = put_floats(r, 2 * FEW, 9);

    OK(ncclAllGather(mine, all, FEW, ncclFloat32, r->comm, r->one));
    OK(ncclBroadcast(mine, mine, FEW, ncclFloat32, 1, r->comm, r->one));
    OK(cudaStreamSynchronize(r->one));
    check_floats(all, 2 * FEW, 0, 1);
    check_floats(mine, FEW, FEW, 1);
    mine = put_floats(r, FEW, r->number ? 5 : 6);
    OK(ncclBcast(mine, FEW, ncclFloat32, 0, r->comm, r->one));
    OK(cudaStreamSynchronize(r->one));
    check_floats(mine, FEW, 6, 1);
}

TEST(ranks_gather_and_one_tells_all)
{
    check_both_end_well(gather_and_broadcast);
}

static ncclComm_t new_late(void)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm;
    ncclUniqueId id;

    config.blocking = 0;
    OK(ncclGetUniqueId(&id));
    OK(ncclCommInitRankConfig(&comm, 1, id, 0, &config));
    return comm;
}

static void wait_for_state(ncclComm_t comm)
{
    ncclResult_t state;

    OK(ncclCommGetAsyncError(comm, &state));
    OK(state != ncclInProgress);
    OK(ncclCommGetAsyncError(comm, &state) || state);
}

static void reduce_in_progress(struct rank *r)
{
    ncclComm_t comms[2] = {new_late(), new_late()};
    void *send = put_floats(r, FEW, 3), *receive = put_floats(r, FEW, 5);
    void *more = put_floats(r, FEW, 7);

    OK(ncclAllReduce(send, receive, FEW, ncclFloat32, ncclSum, comms[0], r->one) != ncclInProgress);
    OK(ncclAllReduce(send, receive, FEW, ncclFloat32, ncclSum, comms[0], r->one)
            != ncclInvalidArgument); /* not before it was done */
    OK(cudaStreamSynchronize(r->one));
    check_floats(receive, FEW, 5, 1);
    wait_for_state(comms[0]);
    OK(cudaStreamSynchronize(r->one));
    check_floats(receive, FEW, 3, 1);
    /* a group is done as a whole, and so is what is left when a communicator goes */
    OK(ncclGroupStart());
    OK(ncclAllReduce(more, send, FEW, ncclFloat32, ncclSum, comms[0], r->one));
    OK(ncclAllReduce(receive, more, FEW, ncclFloat32, ncclSum, comms[1], r->one));
    OK(ncclGroupEnd() != ncclInProgress);
    OK(ncclCommDestroy(comms[1]));
    OK(cudaStreamSynchronize(r->one));
    check_floats(send, FEW, 7, 1);
    check_floats(more, FEW, 3, 1);
    OK(ncclGroupStart());
    OK(ncclAllReduce(more, send, FEW, ncclFloat32, ncclSum, comms[0], r->one));
    OK(ncclAllReduce(more, send, FEW, ncclFloat32, ncclSum, r->comm, r->one));
    OK(ncclGroupEnd() != ncclInvalidArgument);
    OK(ncclCommDestroy(comms[0]));
}

TEST(communicator_that_does_not_block_gives_its_work_to_the_device_later)
{
    check_both_end_well(reduce_in_progress);
}

/* Several collectives between two messages, all in one group: each waits for its turn on its channels. */
static void mixed_group(struct rank *r)
{
    void *first = put_floats(r, FEW, 1), *sum = put_floats(r, FEW, (float)r->number);
    void *mean = put_floats(r, FEW, (float)(4 * r->number)), *last = put_floats(r, FEW, 2);

    OK(ncclGroupStart());
    OK(r->number ? ncclRecv(first, FEW, ncclFloat32, 0, r->comm, r->one)
                 : ncclSend(first, FEW, ncclFloat32, 1, r->comm, r->one));
    OK(ncclAllReduce(sum, sum, FEW, ncclFloat32, ncclSum, r->comm, r->one));
    OK(ncclAllReduce(mean, mean, FEW, ncclFloat32, ncclAvg, r->comm, r->one));
    OK(ncclSend(last, FEW, ncclFloat32, r->number, r->comm, r->one)); /* to itself */
    OK(ncclRecv(first, FEW, ncclFloat32, r->number, r->comm, r->one));
    OK(ncclGroupEnd());
    OK(cudaStreamSynchronize(r->one));
    check_floats(first, FEW, 2, 1);
    check_floats(sum, FEW, 0.5F, 2);
    check_floats(mean, FEW, 2, 1);
}

TEST(group_of_messages_and_collectives)
{
    check_both_end_well(mixed_group);
}

/* An allocator hands out what is full of a former tenant's numbers, and it is sent before anybody writes it. */
static void send_what_nobody_wrote(struct rank *r)
{
    void *parts[] = {put_floats(r, FEW, 3), put_floats(r, FEW, 3)};

    if (r->number == 0) {
        __typeof__(&simcuda_witness_birth) birth = (__typeof__(&simcuda_witness_birth))dlsym(
                dlopen("libcuda.so.1", RTLD_LAZY), "simcuda_witness_birth");

        OK(!birth);
        birth((CUdeviceptr)(uintptr_t)parts[0], FEW * sizeof(float), r->one);
        OK(cudaMemsetAsync(parts[0], 0, sizeof(float), r->one));
    }
    OK(r->number ? ncclRecv(parts[1], FEW, ncclFloat32, 0, r->comm, r->one)
                 : ncclSend(parts[0], FEW, ncclFloat32, 1, r->comm, r->one));
    OK(cudaStreamSynchronize(r->one));
    if (r->number == 1) {
        float last;

        OK(cudaMemcpy(&last, (float *)parts[1] + FEW - 1, sizeof(last), cudaMemcpyDeviceToHost));
        OK(last != 0);
    }
}

TEST(what_nobody_wrote_is_sent_as_zeros)
{
    check_both_end_well(send_what_nobody_wrote);
}

static void ask_as_frameworks_do(struct rank *r)
{
    ncclResult_t error = ncclSystemError;
    ncclComm_t alone;
    ncclUniqueId id;
    void *handle, *send, *receive;
    int device = -1;

    OK(ncclCommGetAsyncError(r->comm, &error) || error);
    OK(ncclGetLastError(r->comm)[0] != '\0');
    OK(ncclCommCuDevice(r->comm, &device) || device != 0);
    OK(ncclCommRegister(r->comm, r->buffer, BYTES, &handle));
    OK(ncclCommDeregister(r->comm, handle));
    /* A communicator of one rank copies all of a tensor, not only the sampled pages. */
    OK(ncclGetUniqueId(&id));
    OK(ncclCommInitRankConfig(&alone, 1, id, 0, NULL));
    send = put_floats(r, (size_t)FEW * FEW, 3);
    receive = put_floats(r, (size_t)FEW * FEW, 0);
    OK(ncclAllReduce(send, receive, (size_t)FEW * FEW, ncclFloat32, ncclSum, alone, r->one));
    OK(ncclCommFinalize(alone));
    OK(ncclCommDestroy(alone));
    check_floats(receive, (size_t)FEW * FEW, 3, 1);
}

TEST(questions_of_frameworks_are_answered)
{
    check_both_end_well(ask_as_frameworks_do);
}

static void come_without_a_context(void)
{
    ncclComm_t alone;
    ncclUniqueId id;
    int device = -1;

    OK(ncclGetUniqueId(&id));
    OK(ncclCommInitRank(&alone, 1, id, 0));
    OK(ncclCommCuDevice(alone, &device) || device != 0);
    OK(ncclCommDestroy(alone));
}

/* Nothing was asked of the device before: Python's DistributedDataParallel begins so. */
TEST(first_call_of_a_program_may_be_this)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        come_without_a_context();
        _exit(0);
    }
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK_EQ(status, 0);
}

static void go_before_it_is_over(struct rank *r)
{
    OK(r->number ? ncclRecv(r->buffer, WORDS, ncclFloat32, 0, r->comm, r->one)
                 : ncclSend(r->buffer, WORDS, ncclFloat32, 1, r->comm, r->one));
    OK(ncclCommDestroy(r->comm));
    OK(cudaStreamQuery(r->one));
}

TEST(communicator_goes_when_what_it_was_asked_for_is_over)
{
    check_both_end_well(go_before_it_is_over);
}

static void abort_without_a_peer(struct rank *r)
{
    if (r->number == 1)
        return;
    OK(ncclSend(r->buffer, WORDS, ncclFloat32, 1, r->comm, r->one));
    OK(ncclRecv(r->buffer, WORDS, ncclFloat32, 1, r->comm, r->two));
    for (int i = 0; i < 100; i++)
        OK(cudaStreamQuery(r->one) != cudaErrorNotReady);
    OK(ncclCommAbort(r->comm));
    OK(cudaDeviceSynchronize());
}

TEST(abort_waits_for_no_peer)
{
    check_both_end_well(abort_without_a_peer);
}
