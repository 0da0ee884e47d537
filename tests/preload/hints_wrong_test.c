/* SPDX-License-Identifier: MIT */
/*
 * A hint that is wrong, in each way that there is to be wrong, in each mode: what it does is found before anything is corrupted, or does
 * no harm. What a mode cannot see (kedge-hints(5), MODES) is what its rows say: they must stay as they are, too.
 *
 * The program has three blocks. `dead` (16 MiB) is dead after PHASE_0: a right hint names it. `used` (8 MiB) is used inside LATER: the
 * wrong hints name it. `other` takes memory after the release, and nobody but its owner may change it. Each cell is a process.
 */
#include "tests/preload/hints_kit.h"

#define USED_BYTES KIT_BYTES
#define DEAD_BYTES (16 * MB)

/* What is seen of a use, of these bits. */
enum {
    TOLD = 1,     /* the capture names the hint and the call */
    STOPPED = 2,  /* and the call was not made */
    FAULT = 4,    /* the device has stopped the kernel */
    WRITTEN = 8,  /* the late write is told after the free */
    CHANGED = 16, /* what was read is not what was written: the results are others */
    CARRIED = 32, /* the capture names the hint and a launch that was made */
};

enum use {
    USE_KERNEL,      /* a pointer in the parameters of a launch */
    USE_COPY,        /* read by a copy */
    USE_SET,         /* written by a set */
    USE_NCCL,        /* given to ncclSend */
    USE_NODE,        /* of a graph that was made before the release */
    USE_LATE_NODE,   /* of one that is made after it */
    USE_MEMORY_READ, /* by a kernel that finds the address in device memory */
    USE_MEMORY_WRITE,
    USE_QUEUED_WRITE, /* by one that is queued still when the program frees the block */
    USE_WRITE_POISON, /* by an address that nobody sees, of what poison writes itself */
    USE_VIEW,         /* a pointer inside a larger parameter, through which the kernel writes */
    USE_SENT,         /* a pointer in the parameters of a launch, after a send before the edge */
    USE_EARLY_WRITE,  /* after the edge, done before the work that the release waits for */
    USE_COUNT,
};

static const char *const modes[] = {"shadow", "poison", "trap", "live"};

struct wrong {
    const char *name;
    const char *action, *pick;
    const char *when; /* NULL: there is none */
    const char *more, *file;
    bool is_harmless; /* whatever the mode */
};

/* The program's process. */
static const struct wrong *wrong;
static enum use use;
static unsigned mode;
static unsigned expected;
static uint64_t used_site;

static CUstream stream, busy;
static CUfunction sum, sum_at, fill_at, fill_view;
static CUdeviceptr out, at, used, other;
static CUgraphExec node;

static CUfunction kernel(const char *text, const char *name)
{
    CUfunction found;
    CUmodule module;

    CU_OK(cu->cuModuleLoadData(&module, text));
    CU_OK(cu->cuModuleGetFunction(&found, module, name));
    return found;
}

#define PTX ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry "

static void start(void)
{
    client_init();
    CU_OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU_OK(cu->cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
    sum = client_sum_kernel();
    sum_at = kernel(PTX
            "kedge_sum_at(.param .u64 a, .param .u64 b, .param .u64 c)\n{\n    ret;\n}\n",
            "kedge_sum_at");
    fill_at = kernel(
            PTX "kedge_fill_at(.param .u64 a, .param .u64 b)\n{\n    ret;\n}\n", "kedge_fill_at");
    fill_view = kernel(PTX "kedge_fill_view(.param .align 8 .b8 view[16])\n{\n    ret;\n}\n",
            "kedge_fill_view");
    out = kit_alloc(512);
    at = kit_alloc(512);
    CU_OK(cu->cuMemsetD8_v2(out, 0, 512));
}

static void settle(void)
{
    (void)cu->cuCtxSynchronize();
    for (int i = 0; i < 8; i++)
        KEDGE_MARK("poll");
    (void)cu->cuCtxSynchronize();
    KEDGE_MARK("poll");
}

/* Two call sites. */
__attribute__((noinline)) static CUdeviceptr alloc_dead(void)
{
    CUdeviceptr ptr = kit_alloc(DEAD_BYTES);

    CHECK_NE(ptr, 0); /* no tail call */
    return ptr;
}

__attribute__((noinline)) static CUdeviceptr alloc_used(void)
{
    CUdeviceptr ptr = kit_alloc(USED_BYTES);

    CHECK_NE(ptr, 0);
    return ptr;
}

/* ---- uses ----------------------------------------------------------------------------------- */

static void make_node(CUresult *ret_result)
{
    uint64_t size = 64;
    void *params[] = {&out, &used, &size};
    CUDA_KERNEL_NODE_PARAMS launch = {.func = sum,
            .gridDimX = 1,
            .gridDimY = 1,
            .gridDimZ = 1,
            .blockDimX = 32,
            .blockDimY = 1,
            .blockDimZ = 1,
            .kernelParams = params};
    CUgraphNode made;
    CUgraph graph;

    CU_OK(cu->cuGraphCreate(&graph, 0));
    *ret_result = KIT_CU(cuGraphAddKernelNode_v2)(&made, graph, NULL, 0, &launch);
    if (*ret_result == CUDA_SUCCESS)
        CU_OK(cu->cuGraphInstantiateWithFlags(&node, graph, 0));
}

static CUresult peer(const char *name, CUdeviceptr buffer, CUstream on)
{
    int (*call)(const void *, size_t, int, int, void *, CUstream) = NULL;

    *(void **)&call = kit_nccl(name);
    return call((void *)(uintptr_t)buffer, 64, 0, 1, NULL, on) ? CUDA_ERROR_INVALID_VALUE
                                                               : CUDA_SUCCESS;
}

static CUresult launch(CUfunction function, void **params)
{
    return cu->cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL);
}

/* Past every hook: as a kernel with an address that it has computed. */
static CUresult set_unseen(unsigned char value)
{
    __typeof__(cu->cuMemsetD8Async) set =
            (__typeof__(cu->cuMemsetD8Async))client_driver("cuMemsetD8Async");

    return set(used, value, 4096, stream);
}

static unsigned char copied;

static CUresult use_it(void)
{
    uint64_t size = 64;
    void *read_params[] = {&out, &at, &size};
    void *write_params[] = {&at, &size};
    uint64_t view[2] = {used, size};
    void *view_params[] = {view};
    CUresult r = CUDA_SUCCESS;

    switch (use) {
    case USE_KERNEL:
    case USE_SENT:
        return client_sum(sum, out, used, 64, stream);
    case USE_COPY:
        return cu->cuMemcpyDtoH_v2(&copied, used, 1);
    case USE_SET:
        return cu->cuMemsetD8_v2(used, 0x55, 4096);
    case USE_NCCL:
        return peer("ncclSend", used, stream);
    case USE_LATE_NODE:
        make_node(&r);
        return r == CUDA_SUCCESS ? cu->cuGraphLaunch(node, stream) : r;
    case USE_NODE:
        return cu->cuGraphLaunch(node, stream);
    case USE_MEMORY_READ:
        return launch(sum_at, read_params);
    case USE_MEMORY_WRITE:
    case USE_QUEUED_WRITE:
        return launch(fill_at, write_params);
    case USE_VIEW:
        return launch(fill_view, view_params);
    case USE_WRITE_POISON:
        return set_unseen(0xff);
    default:
        return CUDA_SUCCESS;
    }
}

/* ---- the program ---------------------------------------------------------------------------- */

static bool reads(void)
{
    return use == USE_KERNEL || use == USE_SENT || use == USE_COPY || use == USE_NODE
            || use == USE_LATE_NODE || use == USE_MEMORY_READ;
}

/* 64 bytes of 0x33, as kedge_sum adds words. */
static bool is_right(void)
{
    uint64_t total = 0;

    if (use == USE_COPY)
        return copied == 0x33;
    CU_OK(cu->cuMemcpyDtoH_v2(&total, out, sizeof total));
    return total == (uint64_t)0x33333333 * (16 * 17 / 2);
}

static void check_other(void)
{
    static unsigned char bytes[USED_BYTES];

    CU_OK(cu->cuMemcpyDtoH_v2(bytes, other, sizeof bytes));
    CHECK(bytes[0] == 0x44 && memcmp(bytes, bytes + 1, sizeof bytes - 1) == 0);
}

static unsigned told(enum format_hint_what what)
{
    return kit_told(what, 0);
}

static void begin_use(void)
{
    CUresult r;

    CU_OK(cu->cuMemcpyHtoD_v2(at, &used, sizeof used));
    if (use == USE_NODE)
        make_node(&r);
    if (use == USE_SENT) {
        CU_OK(peer("ncclSend", used, stream));
        CU_OK(peer("ncclRecv", at, stream));
    }
    CU_OK(cu->cuCtxSynchronize());
    if (use == USE_EARLY_WRITE) /* the release waits for it */
        CU_OK(cu->cuMemsetD8Async(out, 0, 8, busy));
}

__attribute__((noinline)) static void run(void)
{
    CUdeviceptr dead;
    unsigned seen = 0;
    CUresult r, done;

    start();
    KEDGE_PUSH("PHASE_0");
    dead = alloc_dead();
    for (volatile int i = 0; i < 2;
            i++) { /* one call site, not unrolled; the first block is dead */
        CUdeviceptr ptr = alloc_used();

        CU_OK(cu->cuMemsetD8_v2(ptr, 0x33, USED_BYTES));
        used = ptr;
    }
    begin_use();
    KEDGE_POP();
    if (use == USE_EARLY_WRITE) {
        CU_OK(set_unseen(0x55));
        CU_OK(cu->cuStreamSynchronize(stream));
    }
    KEDGE_PUSH("LATER");
    CU_OK(client_sum(sum, at + 256, at + 128, 64, NULL)); /* a first launch */
    CU_OK(cu->cuMemFree_v2(dead));
    settle();
    other = kit_alloc(USED_BYTES);
    CU_OK(cu->cuMemsetD8_v2(other, 0x44, USED_BYTES));
    CU_OK(cu->cuCtxSynchronize());
    r = use_it();
    done = use == USE_QUEUED_WRITE ? CUDA_SUCCESS : cu->cuCtxSynchronize();
    KEDGE_POP();
    seen |= r == CUDA_ERROR_INVALID_VALUE && told(FORMAT_HINT_VIOLATION) ? STOPPED : 0;
    seen |= told(FORMAT_HINT_LATE_TOUCH) ? TOLD : 0;
    seen |= told(FORMAT_HINT_CARRIED) ? CARRIED : 0;
    if (r == CUDA_SUCCESS && done == CUDA_SUCCESS && reads() && !is_right())
        seen |= CHANGED;
    (void)cu->cuMemFree_v2(used);
    settle();
    done = cu->cuCtxSynchronize();
    seen |= done == CUDA_ERROR_ILLEGAL_ADDRESS ? FAULT : 0;
    seen |= told(FORMAT_HINT_LATE_WRITE) ? WRITTEN : 0;
    CHECK_EQ(seen, expected);
    CHECK(r == CUDA_SUCCESS || seen & (STOPPED | FAULT));
    /* Whatever was seen: shadow leaves all as it is, and where storage or access goes nobody computes with something else. */
    CHECK(!(seen & CHANGED) || mode == 1);
    if (!(seen & FAULT))
        check_other();
}

/* ---- cells ---------------------------------------------------------------------------------- */

static void write_hint(void)
{
    char tail[80], text[1024], pick[256], when[256] = "";

    snprintf(tail, sizeof tail, "wrong-%s-%d", modes[mode], (int)getpid());
    snprintf(pick, sizeof pick, wrong->pick, (unsigned long)used_site);
    if (wrong->when)
        snprintf(when, sizeof when, "    when: %s\n", wrong->when);
    kit_files(tail);
    snprintf(text, sizeof text,
            "kedge-hints: 1\n%shints:\n  - id: wrong\n    do: %s\n    pick: %s\n%s%s", wrong->file,
            wrong->action, pick, when, wrong->more);
    kit_write(text);
    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    REQUIRE(setenv("KEDGE_HINTS_MODE", modes[mode], 1) == 0);
    if (strcmp(modes[mode], "live") == 0)
        kit_allow_live();
}

static void cell(void)
{
    if (wrong->pick)
        write_hint();
    run();
    if (wrong->pick)
        kit_clean_up();
}

static void try(const struct wrong *row, enum use how, unsigned which, unsigned flags)
{
    wrong = row;
    use = how;
    mode = which;
    expected = flags;
    if (run_child(cell) != 0)
        check_that(false, __FILE__, __LINE__, row->name);
}

#define INSIDE  "inside: \"PHASE_*\""
#define SEND    "{call: ncclSend, arg: sendbuff}"
#define AT_EXIT "{anchor: \"PHASE_*\", edge: exit}"

static const struct wrong by_size = {
        "size", "release", "{size: 8388608, " INSIDE "}", AT_EXIT, "", "", false};

/* The key of alloc_used, as `kedge suggest` would find it in the capture of the program without hints. */
static void read_used_site(void)
{
    struct read_capture *capture = kit_read();

    for (size_t i = 0; i < capture->event_count && used_site == 0; i++)
        if (capture->event[i].kind == FORMAT_EVENT_ALLOC && capture->event[i].size == USED_BYTES)
            used_site = read_site(capture, capture->event[i].stack);
    read_close(capture);
    kit_clean_up();
    REQUIRE(used_site != 0);
}

/* ---- what is wrong with the hint ------------------------------------------------------------ */

static const struct wrong wrongs[] = {
        {"the site of a block that is used", "release", "{site: [\"c:%016lx\"]}", AT_EXIT, "", "",
                false},
        {"a site of nobody", "release", "{site: [\"c:0000000000000001\"]}", AT_EXIT, "", "", true},
        {"size", "release", "{size: 8388608, " INSIDE "}", AT_EXIT, "", "", false},
        {"a size of nobody", "release", "{size: 8388609, " INSIDE "}", AT_EXIT, "", "", true},
        {"a range of sizes that is too wide", "release", "{size: \">=8MiB\", " INSIDE "}", AT_EXIT,
                "", "", false},
        {"enter instead of exit", "release", "{size: 8388608, " INSIDE "}",
                "{anchor: \"LATER\", edge: enter}", "", "", false},
        {"an anchor that never comes", "release", "{size: 8388608, " INSIDE "}",
                "{anchor: \"NEVER\", edge: exit}", "", "", true},
        {"nth", "release", "{size: 8388608, " INSIDE ", nth: 1}", AT_EXIT, "", "", false},
        {"an nth of nobody", "release", "{size: 8388608, " INSIDE ", nth: 7}", AT_EXIT, "", "",
                true},
        {"device", "release", "{size: 8388608, device: 1}", AT_EXIT, "", "", true},
        {"rank", "release", "{size: 8388608, " INSIDE "}", AT_EXIT, "", "program: {rank: \"5\"}\n",
                true},
        {"a launch too early", "release", "{size: 8388608, " INSIDE "}",
                "{launch: \"kedge_sum\", count: 1}", "", "", false},
        {"an event too early", "release", "{size: 8388608, " INSIDE "}",
                "{event: {mark: \"*poll\", edge: point}}", "", "", false},
        {"an event that does not come as often", "release", "{size: 8388608, " INSIDE "}",
                "{event: {mark: \"*poll\", edge: point}, count: 1000}", "", "", true},
        {"a free of another block", "release", "{size: 8388608, " INSIDE "}", "{free-of: gone}",
                "  - {id: gone, do: release, pick: {size: 16777216}, when: {anchor: NEVER, edge: "
                "exit}}\n",
                "", false},
        {"else", "release", "{size: 8388608, " INSIDE "}", "{anchor: \"NEVER\", edge: exit}",
                "    else: " AT_EXIT "\n", "", false},
        {"a use that there is not", "release", "{size: 8388608, used-by: " SEND "}", AT_EXIT, "",
                "", true},
        {"the rank of a hint", "release", "{size: 8388608, rank: \"5\"}", AT_EXIT, "", "", true},
        {"a hold of what is freed in time", "hold", "{size: 8388608, " INSIDE "}", AT_EXIT, "", "",
                true},
        {"a hold that never ends", "hold", "{size: 8388608, " INSIDE "}",
                "{anchor: \"NEVER\", edge: exit}", "", "", true},
        {"a pin", "pin", "{size: 8388608, " INSIDE "}", NULL, "", "", true},
        {"ignore", "ignore", "{size: 8388608, " INSIDE "}", NULL, "", "", true},
        {"expect count", "release", "{size: 8388608, " INSIDE "}", AT_EXIT,
                "    expect: {count: 7}\n", "", true},
        {"expect bytes", "release", "{size: 8388608, " INSIDE "}", AT_EXIT,
                "    expect: {bytes: 8MiB}\n", "", true},
};

/* The program is always called from the same place, since that is a part of the site. */
static void try_wrongs(unsigned which, unsigned flags)
{
    static const struct wrong none = {.name = "no hint", .is_harmless = true};

    kit_files("site");
    for (size_t i = 0; i <= sizeof wrongs / sizeof wrongs[0]; i++) {
        const struct wrong *row = i ? &wrongs[i - 1] : &none;

        try(row, USE_KERNEL, which, row->is_harmless ? 0 : flags);
        if (row == &none)
            read_used_site();
    }
}

TEST(a_hint_that_is_wrong_in_any_way_changes_nothing_in_shadow)
{
    try_wrongs(0, TOLD);
}

TEST(a_hint_that_is_wrong_in_any_way_is_told_in_poison)
{
    try_wrongs(1, TOLD | CHANGED);
}

TEST(r86_a_hint_that_is_wrong_in_any_way_is_stopped_in_trap)
{
    try_wrongs(2, STOPPED);
}

TEST(r86_a_hint_that_is_wrong_in_any_way_is_stopped_in_live)
{
    try_wrongs(3, STOPPED);
}

/* ---- how the block is used ------------------------------------------------------------------ */

static const struct {
    enum use use;
    unsigned seen[4]; /* shadow, poison, trap, live */
} uses[] = {
        {USE_KERNEL, {TOLD, TOLD | CHANGED, STOPPED, STOPPED}},
        {USE_COPY, {TOLD, TOLD | CHANGED, STOPPED, STOPPED}},
        {USE_SET, {TOLD, TOLD | WRITTEN, STOPPED, STOPPED}},
        {USE_NCCL, {TOLD, TOLD, STOPPED, STOPPED}},
        {USE_LATE_NODE, {TOLD, TOLD | CHANGED, STOPPED, STOPPED}},
        {USE_NODE, {0, 0, 0, 0}}, /* pinned: it keeps its storage */
        {USE_SENT, {TOLD, TOLD | CHANGED, STOPPED, STOPPED}},
        /* the word may be another number: live only notes it, and the device finds the write */
        {USE_VIEW, {CARRIED, CARRIED | WRITTEN, STOPPED, TOLD | FAULT}},
        /* no argument has the address: not seen in shadow, where it does no harm; a read is not seen in poison */
        {USE_MEMORY_READ, {0, CHANGED, FAULT, FAULT}},
        {USE_MEMORY_WRITE, {0, WRITTEN, FAULT, FAULT}},
        {USE_QUEUED_WRITE, {0, WRITTEN, FAULT, FAULT}},
        /* what poison has written itself is no other byte */
        {USE_WRITE_POISON, {0, 0, FAULT, FAULT}},
        /* the storage was there still, and is overwritten or goes only afterwards */
        {USE_EARLY_WRITE, {0, 0, 0, 0}},
};

static void try_uses(unsigned which)
{
    for (size_t i = 0; i < sizeof uses / sizeof uses[0]; i++)
        try(&by_size, uses[i].use, which, uses[i].seen[which]);
}

TEST(shadow_tells_what_calls_name_and_lets_all_else_happen)
{
    try_uses(0);
}

TEST(poison_tells_what_calls_name_and_what_was_written)
{
    try_uses(1);
}

TEST(r57_trap_stops_each_use_by_call_or_by_fault)
{
    try_uses(2);
}

TEST(r57_live_stops_each_use_by_call_or_by_fault)
{
    try_uses(3);
}

TEST(each_use_has_a_row)
{
    bool found[USE_COUNT] = {false};

    for (size_t i = 0; i < sizeof uses / sizeof uses[0]; i++)
        found[uses[i].use] = true;
    for (int i = 0; i < USE_COUNT; i++)
        CHECK(found[i]);
}

/* A kernel may be given the address then: what it reads is found by the device alone. */
TEST(keep_meta_of_a_block_that_is_read_faults_in_trap_and_live)
{
    static const struct wrong meta = {
            "keep-meta", "keep-meta", "{size: 8388608, " INSIDE "}", AT_EXIT, "", "", false};
    static const unsigned seen[] = {CARRIED, CARRIED | CHANGED, CARRIED | FAULT, CARRIED | FAULT};

    for (unsigned i = 0; i < 4; i++)
        try(&meta, USE_KERNEL, i, seen[i]);
}

/* By the call that it is given to, and at a call that comes before its last use. */
TEST(r57_a_block_that_is_used_after_its_send_is_found_in_each_mode)
{
    static const struct wrong sent[] = {
            {"used-by", "release", "{size: 8388608, used-by: " SEND "}", AT_EXIT, "", "", false},
            {"wait", "release", "{size: 8388608, " INSIDE "}", "{event: {call: ncclRecv}}",
                    "    wait: event\n    proof: none, since it is wrong\n", "", false},
    };
    static const unsigned seen[] = {TOLD, TOLD | CHANGED, STOPPED, STOPPED};

    for (size_t k = 0; k < sizeof sent / sizeof sent[0]; k++)
        for (unsigned i = 0; i < 4; i++)
            try(&sent[k], USE_SENT, i, seen[i]);
}

/* Of these two blocks none is one of four. */
TEST(r57_what_a_canary_leaves_out_is_as_in_shadow)
{
    static const struct wrong canary = {"canary", "release", "{size: 8388608, " INSIDE "}", AT_EXIT,
            "    canary: 1/4\n", "", false};
    static const unsigned seen[] = {TOLD, TOLD | CHANGED, STOPPED, TOLD};

    for (unsigned i = 0; i < 4; i++)
        try(&canary, USE_KERNEL, i, seen[i]);
}

/* ---- work of other streams ------------------------------------------------------------------ */

/* A kernel that reads the block stands in another stream when the call comes that the hint takes for its end. */
static void read_beside_the_call(void)
{
    write_hint();
    start();
    KEDGE_PUSH("PHASE_0");
    used = alloc_used();
    CU_OK(cu->cuMemsetD8_v2(used, 0x33, USED_BYTES));
    CU_OK(cu->cuCtxSynchronize());
    CU_OK(client_sum(sum, out, used, 64, stream));
    CU_OK(peer("ncclRecv", at, busy));
    KEDGE_POP();
    CU_OK(cu->cuStreamSynchronize(busy));
    for (int i = 0; i < 8; i++)
        KEDGE_MARK("poll");
    CHECK_EQ(cu->cuCtxSynchronize(), expected & FAULT ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS);
    CHECK_EQ(told(FORMAT_HINT_LATE_TOUCH) + told(FORMAT_HINT_VIOLATION), 0);
    CHECK(mode != 0 || is_right());
    kit_clean_up();
}

TEST(r57_a_call_that_another_stream_does_not_wait_for_is_found_by_the_device_alone)
{
    static const struct wrong beside = {"wait", "release", "{size: 8388608, " INSIDE "}",
            "{event: {call: ncclRecv}}", "    wait: event\n    proof: none, since it is wrong\n",
            "", false};
    static const unsigned seen[] = {0, 0, FAULT, FAULT};

    wrong = &beside;
    use = USE_KERNEL;
    for (mode = 0; mode < 4; mode++) {
        expected = seen[mode];
        if (run_child(read_beside_the_call) != 0)
            check_that(false, __FILE__, __LINE__, modes[mode]);
    }
}
