/* SPDX-License-Identifier: MIT */
/* covers: export_exit.c */
/*
 * What a run leaves in its capture, and what hints do to it, end to end in one process: the test is the program, reads its
 * own capture while it is open, and writes the hint file before its first CUDA call.
 */
#include "tests/preload/client.h"

#include "preload/base/kedge.h"
#include "tests/preload/capturing.h"
#include "tests/preload/child.h"
#include "tests/preload/receive.h"
#include "tracker/hints/hintfile.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MB ((size_t)1 << 20)

static const struct read_event *find_event(
        const struct read_capture *capture, enum format_event_kind kind, uint64_t addr)
{
    for (size_t i = 0; i < capture->event_count; i++)
        if (capture->event[i].kind == kind && capture->event[i].addr == addr)
            return &capture->event[i];
    return NULL;
}

static size_t count_hints(const struct read_capture *capture, enum format_hint_what what)
{
    size_t n = 0;

    for (size_t i = 0; i < capture->event_count; i++)
        n += capture->event[i].kind == FORMAT_EVENT_HINT && capture->event[i].what == what;
    return n;
}

static CUdeviceptr alloc(size_t size)
{
    CUdeviceptr ptr = 0;

    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, size), CUDA_SUCCESS);
    return ptr;
}

/* ---- the capture ---------------------------------------------------------------------------- */

TEST(every_allocation_and_free_is_written_down)
{
    struct read_capture *capture;
    const struct read_event *event;
    CUdeviceptr a, b, managed;

    capture_to("all");
    client_init();
    a = alloc(1000);
    b = alloc(5 * MB);
    REQUIRE_EQ(cu->cuMemAllocManaged(&managed, 3 * MB, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFree_v2(a), CUDA_SUCCESS);
    capture = read_now();
    CHECK_EQ(capture->state, FORMAT_STATE_OPEN);
    CHECK_EQ(capture->live_count, 2);
    CHECK_EQ(capture->total.allocated_bytes, 1000 + 8 * MB);
    CHECK_EQ(capture->total.allocated_count, 3);
    CHECK_EQ(capture->total.freed_bytes, 1000);
    CHECK_EQ(capture->total.live_bytes, 8 * MB);
    CHECK_GE(capture->total.peak_reserved_bytes, 5 * MB + 1000);
    event = find_event(capture, FORMAT_EVENT_ALLOC, b);
    REQUIRE(event);
    CHECK_EQ(event->size, 5 * MB);
    CHECK_NE(event->stack, 0);
    CHECK(!(event->flags & (FORMAT_ALLOC_NATIVE | FORMAT_ALLOC_STREAM)));
    event = find_event(capture, FORMAT_EVENT_ALLOC, managed);
    REQUIRE(event && (event->flags & FORMAT_ALLOC_NATIVE));
    CHECK(find_event(capture, FORMAT_EVENT_FREE, a));
    CHECK_EQ(capture->device_count, 1);
    read_close(capture);
    CHECK_EQ(cu->cuMemFree_v2(managed), CUDA_SUCCESS);
    capture = read_now();
    CHECK_EQ(capture->live_count, 1);
    CHECK_EQ(capture->lost.unknown_frees, 0);
    read_close(capture);
    (void)unlink(capture_file);
}

TEST(track_mode_records_what_the_driver_serves)
{
    struct read_capture *capture;
    CUdeviceptr a, b, base;
    CUstream stream;
    size_t size;

    capture_to("track");
    REQUIRE(setenv("KEDGE_MODE", "track", 1) == 0);
    client_init();
    a = alloc(1000);
    REQUIRE_EQ(cu->cuMemGetAddressRange_v2(&base, &size, a), CUDA_SUCCESS);
    CHECK_EQ(base, a);
    REQUIRE_EQ(cu->cuStreamCreate(&stream, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAllocAsync(&b, 2 * MB, stream), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemAllocAsync"), 1);
    REQUIRE_EQ(cu->cuMemFree_v2(a), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemFree_v2"), 1);
    capture = read_now();
    CHECK_EQ(capture->live_count, 1);
    CHECK_EQ(capture->total.allocated_bytes, 1000 + 2 * MB);
    CHECK_EQ(capture->total.freed_bytes, 1000);
    CHECK(capture->live[0].flags & FORMAT_ALLOC_STREAM);
    read_close(capture);
    (void)unlink(capture_file);
}

/* Own physical handles count until the last reference and mapping are gone. */
TEST(virtual_memory_is_counted_by_handle)
{
    CUmemAllocationProp prop;
    CUmemGenericAllocationHandle handle;
    struct read_capture *capture;
    CUdeviceptr ptr = 0;

    capture_to("vmm");
    client_init();
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    REQUIRE_EQ(cu->cuMemCreate(&handle, 2 * MB, &prop, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAddressReserve(&ptr, 2 * MB, 0, 0, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemMap(ptr, 2 * MB, 0, handle, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemRelease(handle), CUDA_SUCCESS);
    capture = read_now();
    CHECK_EQ(capture->total.live_bytes, 2 * MB); /* still mapped */
    read_close(capture);
    REQUIRE_EQ(cu->cuMemUnmap(ptr, 2 * MB), CUDA_SUCCESS);
    capture = read_now();
    CHECK_EQ(capture->total.live_bytes, 0);
    CHECK_EQ(capture->lost.unknown_frees, 0);
    read_close(capture);
    (void)unlink(capture_file);
}

TEST(marks_of_the_program_become_anchors)
{
    const struct read_event *event;
    struct read_capture *capture;
    CUdeviceptr a;

    capture_to("marks");
    client_init();
    REQUIRE(kedge_push); /* the weak symbol is there under kedge */
    (void)alloc(512);
    KEDGE_PUSH("step");
    KEDGE_PUSH("forward");
    a = alloc(4096);
    KEDGE_POP();
    KEDGE_POP();
    capture = read_now();
    event = find_event(capture, FORMAT_EVENT_ALLOC, a);
    REQUIRE(event);
    CHECK_STR_EQ(event->path, "step/forward");
    read_close(capture);
    (void)unlink(capture_file);
}

/* "off" and every list that does not name it. */
TEST(programs_in_python_are_watched_where_that_is_wanted)
{
    static const struct {
        const char *anchors;
        int level;
    } cases[] = {{"python=off", 0}, {"nvtx,marks", 0}, {"none", 0}, {"nvtx,python", 2},
            {"log=x {}", 2}, {"nvtx,python=steps", 1}, {"none,python=modules", 2}};
    const char *which = getenv("TEST_CASE");

    for (size_t i = 0; i < sizeof cases / sizeof *cases && !which; i++) {
        int status = 0;
        pid_t child = fork();

        if (child == 0) {
            (void)setenv("KEDGE_ANCHORS", cases[i].anchors, 1);
            _exit(((int (*)(void))dlsym(RTLD_DEFAULT, "kedge_python_level"))());
        }
        REQUIRE_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(WEXITSTATUS(status), cases[i].level);
    }
}

/* The route of each hook is in the capture, so that a report can say what it did not see. */
TEST(coverage_names_hooks_and_routes)
{
    const char *route = getenv("TEST_ROUTE");
    const char *wanted = strcmp(route, "linked") == 0 ? "symbol"
            : strcmp(route, "gpa") == 0               ? "cuGetProcAddress"
                                                      : "dlsym";
    struct read_capture *capture;
    bool found = false;

    capture_to("coverage");
    client_init();
    (void)alloc(512);
    capture = read_now();
    for (size_t i = 0; i < capture->coverage_count; i++)
        found |= strcmp(capture->coverage[i].hook, "cuMemAlloc_v2") == 0
                && strcmp(capture->coverage[i].route, wanted) == 0;
    CHECK(found);
    read_close(capture);
    (void)unlink(capture_file);
}

static uint64_t count_of(const struct read_capture *capture, const char *hook, const char *route)
{
    for (size_t i = 0; i < capture->coverage_count; i++)
        if (strcmp(capture->coverage[i].hook, hook) == 0
                && strcmp(capture->coverage[i].route, route) == 0)
            return capture->coverage[i].count;
    return 0;
}

static int run_child(void (*body)(void));

static void forty_calls(void)
{
#ifdef CLIENT_LINKED
    size_t granularity = 0;
#endif

    client_init();
    for (int i = 0; i < 40; i++)
        REQUIRE_EQ(cu->cuMemFree_v2(alloc(512)), CUDA_SUCCESS);
        /* a memory function that kedge has no hook for */
#ifdef CLIENT_LINKED
    (void)cuMemGetAllocationGranularity(&granularity, NULL, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
#else
    for (int i = 0; i < 3; i++)
        REQUIRE(dlsym(cu->libcuda, "cuMemGetAllocationGranularity"));
#endif
    CHECK(!dlsym(cu->libcuda, "cuMemNoSuchThing"));
}

/* How often, by which route, and what went past us; exact when the program has exited. */
TEST(coverage_counts_calls_and_names_what_is_not_watched)
{
    bool linked = strcmp(getenv("TEST_ROUTE"), "linked") == 0;
    struct read_capture *capture;

    capture_to("counts");
    CHECK_EQ(run_child(forty_calls), 0);
    capture = read_now();
    CHECK_EQ(count_of(capture, "cuMemAlloc_v2", "called"), 40);
    CHECK_EQ(count_of(capture, "cuMemFree_v2", "called"), 40);
    CHECK_EQ(count_of(capture, "cuMemAlloc_v2", "symbol"), linked ? 40 : 0);
    CHECK_GE(count_of(capture, "cuMemGetAllocationGranularity", "unhooked"), linked ? 1 : 3);
    CHECK_EQ(count_of(capture, "cuMemNoSuchThing", "unhooked"), 0);
    CHECK_EQ(count_of(capture, "cuMemAlloc_v2", "unhooked"), 0);
    read_close(capture);
    (void)unlink(capture_file);
}

/* ---- ends of the process -------------------------------------------------------------------- */

static void live_at_exit(void)
{
    client_init();
    (void)alloc(7 * MB);
}

static const char *setting_of(const struct read_capture *capture, const char *name)
{
    for (size_t i = 0; i < capture->setting_count; i++)
        if (strcmp(capture->setting[i].name, name) == 0)
            return capture->setting[i].value;
    return "(none)";
}

TEST(settings_say_how_the_program_was_watched)
{
    static const struct {
        const char *trace, *mode, *uses, *dead_writes;
    } cases[] = {
            {"full", "pool", "on", "on"},
            {"full,uses=order", "pool", "order", "on"},
            {"full,uses=off", "track", "off", "(none)"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct read_capture *capture;

        capture_to("settings");
        REQUIRE(setenv("KEDGE_TRACE", cases[i].trace, 1) == 0);
        REQUIRE(setenv("KEDGE_MODE", cases[i].mode, 1) == 0);
        CHECK_EQ(run_child(live_at_exit), 0);
        capture = read_now();
        CHECK_STR_EQ(setting_of(capture, "mode"), cases[i].mode);
        CHECK_STR_EQ(setting_of(capture, "uses"), cases[i].uses);
        CHECK_STR_EQ(setting_of(capture, "dead_writes"), cases[i].dead_writes);
        CHECK(strstr(setting_of(capture, "driver"), "libcuda.so.1") != NULL);
        read_close(capture);
        (void)unlink(capture_file);
    }
}

TEST(exit_with_live_blocks_is_a_clean_end)
{
    struct read_capture *capture;

    capture_to("exit");
    CHECK_EQ(run_child(live_at_exit), 0); /* no CUDA before the fork: the child begins anew */
    capture = read_now();
    CHECK_EQ(capture->state, FORMAT_STATE_CLEAN);
    CHECK_EQ(capture->total.live_bytes, 7 * MB);
    read_close(capture);
    (void)unlink(capture_file);
}

static CUdeviceptr inherited;

static void free_inherited(void)
{
    uint64_t before = client_calls("cuMemFree_v2");
    CUdeviceptr ptr;

    CHECK_EQ(cu->cuMemFree_v2(inherited), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemFree_v2"), before);
    CHECK_NE(cu->cuMemAlloc_v2(&ptr, 4096), CUDA_SUCCESS); /* the driver's own word in a child */
}

/* R39 */
TEST(r39_a_forked_child_frees_in_peace_and_writes_nothing)
{
    struct read_capture *before, *after;

    capture_to("fork");
    client_init();
    inherited = alloc(1 * MB);
    before = read_now();
    CHECK_EQ(run_child(free_inherited), 0);
    after = read_now();
    CHECK_EQ(before->event_count, after->event_count);
    CHECK_EQ(after->live_count, 1);
    CHECK_EQ(after->state, FORMAT_STATE_OPEN);
    CHECK_EQ(cu->cuMemFree_v2(inherited), CUDA_SUCCESS); /* the parent goes on */
    read_close(before);
    read_close(after);
    (void)unlink(capture_file);
}

/* ---- hints ---------------------------------------------------------------------------------- */

static char hints_file[300];

static void put(const char *path, const char *text)
{
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);

    REQUIRE(fd >= 0);
    REQUIRE(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    REQUIRE(close(fd) == 0);
}

static void write_hints(const char *text)
{
    snprintf(hints_file, sizeof hints_file, "%s.yaml", capture_file);
    put(hints_file, text);
    REQUIRE(setenv("KEDGE_HINTS", hints_file, 1) == 0);
}

static void hints_for(const char *tail, const char *mode)
{
    capture_to(tail);
    write_hints("kedge-hints: 1\n"
                "defaults: {mode: shadow}\n"
                "hints:\n"
                "  - id: unused-input\n"
                "    do: release\n"
                "    pick: {size: 8388608, inside: \"PHASE_*\", nth: all}\n"
                "    when: {anchor: \"PHASE_*\", edge: exit}\n");
    REQUIRE(setenv("KEDGE_HINTS_MODE", mode, 1) == 0);
}

static void clean_up(void)
{
    char receipt[320];

    snprintf(receipt, sizeof receipt, "%s.receipt", hints_file);
    (void)unlink(receipt);
    (void)unlink(hints_file);
    (void)unlink(capture_file);
}

/* One phase: the matched tensor is born inside and not freed by its end. */
static CUdeviceptr phase(void)
{
    CUdeviceptr tensor;

    KEDGE_PUSH("PHASE_0");
    tensor = alloc(8 * MB);
    REQUIRE_EQ(cu->cuMemsetD8_v2(tensor, 0x11, 8 * MB), CUDA_SUCCESS);
    KEDGE_POP();
    return tensor;
}

TEST(r55_shadow_notes_what_would_have_been_saved_and_changes_nothing)
{
    unsigned char back[16];
    struct read_capture *capture;
    CUdeviceptr tensor;

    hints_for("shadow", "shadow");
    client_init();
    tensor = phase();
    REQUIRE_EQ(cu->cuMemcpyDtoH_v2(back, tensor, sizeof back), CUDA_SUCCESS); /* a late use */
    CHECK_EQ(back[0], 0x11);
    capture = read_now();
    CHECK_EQ(count_hints(capture, FORMAT_HINT_PLANNED), 1);
    CHECK_EQ(count_hints(capture, FORMAT_HINT_WOULD_RELEASE), 1);
    CHECK_EQ(count_hints(capture, FORMAT_HINT_LATE_TOUCH), 1);
    CHECK_EQ(count_hints(capture, FORMAT_HINT_VIOLATION), 0);
    CHECK_EQ(capture->total.hinted_freed_bytes, 0);
    read_close(capture);
    CHECK_EQ(client_calls("cuMemCreate"), 0); /* on the plain heap, as without hints (R55) */
    CHECK_EQ(cu->cuMemFree_v2(tensor), CUDA_SUCCESS);
    clean_up();
}

/* The first byte lies before the tensor, the second row in it: rows count in elements, of a byte or of the array's 16. */
static void batches_must_be_stopped(CUdeviceptr tensor, CUdeviceptr other)
{
    CUDA_ARRAY_DESCRIPTOR desc = {
            .Width = 64, .Height = 4, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUDA_MEMCPY3D_BATCH_OP op;
    CUstream stream = NULL;
    CUarray array = NULL;

    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuArrayCreate_v2(&array, &desc), CUDA_SUCCESS);
    memset(&op, 0, sizeof op);
    op.src.type = op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    op.src.op.ptr.ptr = tensor - 1024;
    op.src.op.ptr.rowLength = 1024;
    op.dst.op.ptr.ptr = other;
    op.extent = (CUextent3D){512, 2, 1};
    op.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    CHECK_EQ(cu->cuMemcpy3DBatchAsync_v2(1, &op, 0, stream), CUDA_ERROR_INVALID_VALUE);
    op.src.op.ptr.rowLength = 64;
    op.dst.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
    op.dst.op.array.array = array;
    op.dst.op.array.offset = (CUoffset3D){0, 0, 0};
    op.extent = (CUextent3D){32, 2, 1};
    CHECK_EQ(cu->cuMemcpy3DBatchAsync_v2(1, &op, 0, stream), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(client_calls("cuMemcpy3DBatchAsync_v2"), 0);
    REQUIRE_EQ(cu->cuArrayDestroy(array), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamDestroy_v2(stream), CUDA_SUCCESS);
}

static void must_be_stopped(CUdeviceptr tensor)
{
    CUfunction sum = client_sum_kernel();
    unsigned char host[16] = {0};
    CUdeviceptr other = alloc(1 * MB);
    CUDA_MEMCPY2D rows;

    CHECK_EQ(cu->cuMemcpyDtoH_v2(host, tensor, sizeof host), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu->cuMemcpyHtoD_v2(tensor + 100, host, sizeof host), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu->cuMemcpyDtoDAsync_v2(other, tensor + 8 * MB - 16, 16, NULL),
            CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu->cuMemsetD8_v2(tensor, 0, 1), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu->cuMemsetD32_v2(tensor - 4, 0, 2), CUDA_ERROR_INVALID_VALUE);
    memset(&rows, 0, sizeof rows);
    rows.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    rows.srcDevice = tensor - 1024;
    rows.srcPitch = 1024;
    rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    rows.dstDevice = other;
    rows.dstPitch = 1024;
    rows.WidthInBytes = 512;
    rows.Height = 2; /* the second row lies in the tensor */
    CHECK_EQ(cu->cuMemcpy2D_v2(&rows), CUDA_ERROR_INVALID_VALUE);
    batches_must_be_stopped(tensor, other);
    CHECK_EQ(client_sum(sum, other, tensor + 8, 64, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(client_calls("cuLaunchKernel"), 0); /* none of it was made */
    CHECK_EQ(client_sum(sum, other, other + 64, 64, NULL), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuLaunchKernel"), 1);
    CHECK_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS); /* nothing became sticky */
    CHECK_EQ(cu->cuMemFree_v2(other), CUDA_SUCCESS);
}

TEST(r58_r86_trap_stops_each_visible_use)
{
    struct read_capture *capture;
    CUdeviceptr tensor, base;
    size_t size, available, total;

    hints_for("trap", "trap");
    client_init();
    tensor = phase();
    must_be_stopped(tensor);
    capture = read_now();
    CHECK_EQ(count_hints(capture, FORMAT_HINT_DEAD), 1);
    CHECK_GE(count_hints(capture, FORMAT_HINT_VIOLATION), 6);
    for (size_t i = 0; i < capture->event_count; i++)
        if (capture->event[i].what == FORMAT_HINT_VIOLATION) {
            CHECK_NE(capture->event[i].stack, 0);
            CHECK_STR_EQ(capture->rule[capture->event[i].rule].id, "unused-input");
        }
    read_close(capture);
    /* R79, R84: the address still answers, and the figures do not show the hint */
    REQUIRE_EQ(cu->cuMemGetAddressRange_v2(&base, &size, tensor + 5), CUDA_SUCCESS);
    CHECK_EQ(base, tensor);
    CHECK_EQ(size, 8 * MB);
    REQUIRE_EQ(cu->cuMemGetInfo_v2(&available, &total), CUDA_SUCCESS);
    CHECK_LE(available, total - 8 * MB);
    CHECK_EQ(cu->cuMemFree_v2(tensor), CUDA_SUCCESS); /* R58 */
    CHECK_EQ(cu->cuMemFree_v2(tensor), CUDA_ERROR_INVALID_VALUE);
    clean_up();
}

static void shadow_run(void)
{
    client_init();
    (void)cu->cuMemFree_v2(phase());
}

/* What `kedge verify` does at its end, with the program's name as a run of it left it. */
static void write_receipt(void)
{
    struct read_capture *capture = read_now();
    struct hintfile_error error;
    struct hintfile *file;
    char path[320];
    char *text;

    REQUIRE(hintfile_read(hints_file, &file, &error) == 0);
    text = receive_text(capture, file->hash, 1);
    snprintf(path, sizeof path, "%s.receipt", hints_file);
    put(path, text);
    free(text);
    read_close(capture);
    hintfile_free(file);
    REQUIRE(unlink(capture_file) == 0);
}

TEST(r57_r87_live_gives_the_storage_back_and_keeps_the_address)
{
    struct read_capture *capture;
    CUdeviceptr tensor, next;

    hints_for("live", "live");
    CHECK_EQ(run_child(shadow_run), 0); /* falls to shadow: there is no receipt */
    capture = read_now();
    CHECK_EQ(count_hints(capture, FORMAT_HINT_DEAD), 0);
    CHECK_EQ(count_hints(capture, FORMAT_HINT_WOULD_RELEASE), 1);
    read_close(capture);
    write_receipt();

    client_init();
    (void)alloc(512);
    tensor = phase();
    must_be_stopped(tensor);
    CHECK_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    next = phase();
    CHECK_NE(next, tensor); /* an address is never handed out before its owner freed it */
    CHECK_EQ(cu->cuMemFree_v2(tensor), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(tensor), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu->cuMemFree_v2(next), CUDA_SUCCESS);
    capture = read_now();
    CHECK_EQ(capture->total.hinted_freed_count, 2);
    CHECK_EQ(capture->total.hinted_freed_bytes, 16 * MB);
    CHECK_GE(count_hints(capture, FORMAT_HINT_UNMAPPED), 1);
    CHECK_EQ(capture->total.live_bytes, 512);
    read_close(capture);
    clean_up();
}

enum {
    STEPS = 300, /* of 8 MiB that the program keeps: more than the 2 GiB of the device */
};

static int steps_that_fit(void)
{
    CUdeviceptr tensor;
    int n = 0;

    client_init();
    for (; n < STEPS; n++) {
        KEDGE_PUSH("PHASE_1");
        if (cu->cuMemAlloc_v2(&tensor, 8 * MB) != CUDA_SUCCESS)
            break;
        KEDGE_POP();
    }
    return n;
}

static void all_steps_in_shadow(void)
{
    int n = steps_that_fit();

    CHECK_LT(n, 257);
    CHECK_GT(n, 200);
}

/* R88: proved by the device, whose memory holds 256 of them. */
TEST(r88_a_live_hint_makes_a_program_fit)
{
    hints_for("fit", "live");
    CHECK_EQ(run_child(all_steps_in_shadow), 0);
    write_receipt();
    CHECK_EQ(steps_that_fit(), STEPS);
    clean_up();
}

/* The driver serves stream-ordered requests while the heap has no addresses; the report says so, and the heap asks again. */
TEST(addresses_that_are_refused_are_on_record_and_asked_for_again)
{
    struct read_capture *capture;
    CUdeviceptr ptr;
    CUstream stream;
    size_t notes = 0;

    capture_to("addresses");
    client_init();
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ((__typeof__(&simcuda_fail_next))client_sim("simcuda_fail_next"))(
            "cuMemAddressReserve", 100, CUDA_ERROR_OUT_OF_MEMORY);
    REQUIRE_EQ(cu->cuMemAllocAsync(&ptr, MB, stream), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemAllocAsync"), 1);
    CHECK_GT(((__typeof__(&simcuda_fail_clear))client_sim("simcuda_fail_clear"))(), 0);
    for (int i = 0; i < 100; i++)
        REQUIRE_EQ(cu->cuMemAllocAsync(&ptr, MB, stream), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemAllocAsync"), 16);
    capture = read_now();
    for (size_t i = 0; i < capture->note_count; i++)
        notes += strstr(capture->note[i].text, "no addresses") != NULL;
    CHECK_EQ(notes, 1);
    read_close(capture);
    (void)unlink(capture_file);
}

TEST(a_bad_hint_file_is_one_line_and_no_hints)
{
    struct read_capture *capture;

    capture_to("bad");
    write_hints("kedge-hints: 1\nhints:\n  - {id: x, do: evict, pick: {size: 1}}\n");
    client_init();
    REQUIRE_EQ(cu->cuMemFree_v2(phase()), CUDA_SUCCESS);
    capture = read_now();
    CHECK_EQ(capture->rule_count, 0);
    read_close(capture);
    clean_up();
}

TEST(a_file_for_another_program_is_passed_over)
{
    struct read_capture *capture;

    capture_to("other");
    write_hints(
            "kedge-hints: 1\nprogram: {argv: \"*some-trainer*\"}\ndefaults: {mode: trap}\nhints:\n"
            "  - {id: x, do: release, pick: {size: 8388608}, when: {anchor: \"*\", edge: exit}}\n");
    client_init();
    REQUIRE_EQ(cu->cuMemFree_v2(phase()), CUDA_SUCCESS);
    capture = read_now();
    CHECK_EQ(capture->rule_count, 0);
    read_close(capture);
    clean_up();
}
