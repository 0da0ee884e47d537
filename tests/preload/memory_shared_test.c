/* SPDX-License-Identifier: MIT */
/*
 * Mapped memory of the cudaMalloc API between processes on the simulated device (KEDGE_POOL=sync=mapped): who runs under kedge opens
 * what it is shown, at any offset; who does not gets the driver's word.
 */
#include "tests/preload/onlooker.h"
#include "tests/preload/said.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define MB ((size_t)1 << 20)

static CUdeviceptr alloc(size_t size)
{
    CUdeviceptr ptr = 0;

    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, size), CUDA_SUCCESS);
    return ptr;
}

static void fill(CUdeviceptr ptr, unsigned char value, size_t size)
{
    REQUIRE_EQ(cu->cuMemsetD8_v2(ptr, value, size), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
}

static void show(CUdeviceptr ptr, CUipcMemHandle *ret_handle)
{
    memset(ret_handle, 0xaa, sizeof *ret_handle);
    REQUIRE_EQ(cu->cuIpcGetMemHandle(ret_handle, ptr), CUDA_SUCCESS);
}

static unsigned descriptors(void)
{
    unsigned count = 0;

    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

TEST(r23_a_pooled_block_is_opened_at_its_offset)
{
    struct other other = start_onlooker();
    CUdeviceptr first, second, large;
    CUipcMemHandle handle, again;

    client_init();
    first = alloc(300 << 10);
    second = alloc(64 << 10);    /* on the handle of the first */
    large = alloc(9 * MB + 512); /* on several */
    REQUIRE_EQ(first / (2 * MB), second / (2 * MB));
    REQUIRE(large % (2 * MB) != 0);
    fill(first, 0x41, 300 << 10);
    fill(second, 0x42, 64 << 10);
    fill(large, 0x43, 9 * MB + 512);
    show(second, &handle);
    CHECK_EQ(seen_by(&other, &handle, 0x42, 64 << 10), 64 << 10);
    show(large, &handle);
    CHECK_EQ(seen_by(&other, &handle, 0x43, 9 * MB + 512), 9 * MB + 512);
    fill(large + 5 * MB, 0x44, MB); /* seen where it is, not as it was */
    CHECK_EQ(seen_at(&other, &handle, 0x44, 5 * MB, MB), MB);
    show(large + 5 * MB, &again); /* as natively: an interior address has the handle of its block */
    CHECK(memcmp(&handle, &again, sizeof handle) == 0);
    show(first, &handle);
    CHECK_EQ(seen_by(&other, &handle, 0x41, 300 << 10), 300 << 10);
    end_onlooker(&other);
}

/* The other process: without kedge if the environment says so. What the driver says of the handle is its exit status. */
static void be_the_bare_one(const char *from)
{
    CUcontext context = NULL;
    CUipcMemHandle handle;
    CUdeviceptr ptr = 0;

    REQUIRE_EQ(read(atoi(from), &handle, sizeof handle), (ssize_t)sizeof handle);
    REQUIRE(client_load());
    REQUIRE_EQ(cu->cuInit(0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSetCurrent(context), CUDA_SUCCESS);
    _exit((int)cu->cuIpcOpenMemHandle_v2(&ptr, handle, 1));
}

TEST(r23_who_is_not_under_kedge_is_refused_by_its_driver)
{
    const char *from = getenv("TEST_HANDLE_FROM");
    CUipcMemHandle handle;
    int down[2], status = 0;
    unsigned lines;
    char number[16];
    pid_t pid;

    if (from)
        be_the_bare_one(from);
    said_begin();
    REQUIRE(pipe(down) == 0);
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        (void)snprintf(number, sizeof number, "%d", down[0]);
        (void)setenv("TEST_HANDLE_FROM", number, 1);
        (void)unsetenv("LD_PRELOAD");
        (void)execl("/proc/self/exe", "bare", "r23_who_is_not_under_kedge_is_refused_by_its_driver",
                (char *)NULL);
        _exit(99);
    }
    client_init();
    show(alloc(4 * MB), &handle);
    show(alloc(64 << 10), &handle);
    CHECK_EQ(said_with("programs under kedge alone can open", &lines), 1);
    CHECK_EQ(lines, 1);
    REQUIRE_EQ(write(down[1], &handle, sizeof handle), (ssize_t)sizeof handle);
    REQUIRE_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), CUDA_ERROR_INVALID_VALUE);
}

/* A child that runs under kedge and is told handles; it says what it got for each. */
struct answer {
    CUresult result;
    CUresult close;
    int lines;            /* that it has said so far */
    unsigned descriptors; /* that it has open */
};

/* A container may refuse that a process takes descriptors of another one. */
static bool refuse_descriptors(int code)
{
    struct sock_filter filter[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_getfd, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)code),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* `refused`: the error that it gets in place of another process's descriptors, 0 = none. */
static struct other start_judge(int refused)
{
    struct other other;
    int down[2], up[2];

    REQUIRE(pipe(down) == 0 && pipe(up) == 0);
    other.pid = fork();
    REQUIRE(other.pid >= 0);
    if (other.pid == 0) {
        CUcontext context = NULL;
        CUipcMemHandle handle;

        (void)close(down[1]);
        if ((refused && !refuse_descriptors(refused)) || !client_load() || cu->cuInit(0)
                || cu->cuDevicePrimaryCtxRetain(&context, 0) || cu->cuCtxSetCurrent(context))
            _exit(1);
        while (read(down[0], &handle, sizeof handle) == (ssize_t)sizeof handle) {
            struct answer answer = {.close = CUDA_SUCCESS};
            CUdeviceptr ptr = 0;
            unsigned all;

            answer.result = cu->cuIpcOpenMemHandle_v2(&ptr, handle, 1);
            if (answer.result == CUDA_SUCCESS)
                answer.close = cu->cuIpcCloseMemHandle(ptr);
            answer.lines = (int)said_with("cannot be opened", &all);
            answer.descriptors = descriptors();
            if (write(up[1], &answer, sizeof answer) != (ssize_t)sizeof answer)
                _exit(2);
        }
        _exit(0);
    }
    (void)close(down[0]);
    (void)close(up[1]);
    other.to = down[1];
    other.from = up[0];
    return other;
}

static struct answer judged(const struct other *other, const CUipcMemHandle *handle)
{
    struct answer answer = {.lines = -1};

    REQUIRE_EQ(write(other->to, handle, sizeof *handle), (ssize_t)sizeof *handle);
    REQUIRE_EQ(read(other->from, &answer, sizeof answer), (ssize_t)sizeof answer);
    return answer;
}

TEST(r24_a_stale_or_forged_handle_is_refused_and_one_line_says_why)
{
    struct other judge;
    CUipcMemHandle handle, forged;
    CUdeviceptr ptr;

    said_begin();
    judge = start_judge(0);
    client_init();
    ptr = alloc(5 * MB);
    show(ptr, &handle);
    CHECK_EQ(judged(&judge, &handle).result, CUDA_SUCCESS);
    CHECK_EQ(judged(&judge, &handle).close, CUDA_SUCCESS);
    forged = handle;
    forged.reserved[20] ^= 1; /* no handle of ours any more: the driver says what it is */
    CHECK_EQ(judged(&judge, &forged).result, CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(judged(&judge, &forged).lines, 0);
    REQUIRE_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    CHECK_EQ(judged(&judge, &handle).result, CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(judged(&judge, &handle).lines, 2);
    show(alloc(5 * MB), &forged); /* its descriptors have the numbers of the old ones */
    CHECK_EQ(judged(&judge, &forged).result, CUDA_SUCCESS);
    CHECK_EQ(judged(&judge, &handle).result, CUDA_ERROR_INVALID_VALUE);
    end_onlooker(&judge);
}

/* The library's, too: of what another process has in /proc the content comes, and then an error, as if it had ended meanwhile. */
static bool processes_end;

__attribute__((visibility("default"))) ssize_t read(int fd, void *buffer, size_t size)
{
    char link[64], path[64];
    ssize_t length = syscall(SYS_read, fd, buffer, size);
    ssize_t end;

    if (!processes_end)
        return length;
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    end = readlink(link, path, sizeof path - 1);
    path[end > 0 ? end : 0] = '\0';
    if (strncmp(path, "/proc/", 6) != 0 || !strstr(path, "/stat"))
        return length;
    errno = ESRCH;
    return -1;
}

TEST(r24_a_process_that_ends_while_it_is_asked_has_nothing_to_open)
{
    struct other judge;
    CUipcMemHandle handle;

    said_begin();
    processes_end = true;
    judge = start_judge(0);
    processes_end = false;
    client_init();
    show(alloc(5 * MB), &handle);
    CHECK_EQ(judged(&judge, &handle).result, CUDA_ERROR_INVALID_VALUE);
    end_onlooker(&judge);
}

TEST(the_line_about_a_handle_that_cannot_be_opened_has_the_reason)
{
    static const struct {
        int code;
        const char *why;
    } cases[] = {{EPERM, "cannot be opened: this process may not take descriptors of that one"},
            {ENOSYS, "cannot be opened: the kernel has no pidfd_getfd"},
            {EBADF, "cannot be opened: it was freed there"},
            {EMFILE, "cannot be opened: Too many open files"}};
    struct other judge[4];
    CUipcMemHandle handle;
    unsigned all;

    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0)
        SKIP("the kernel has no seccomp");
    said_begin();
    for (unsigned i = 0; i < 4; i++)
        judge[i] = start_judge(cases[i].code);
    client_init();
    show(alloc(5 * MB), &handle);
    for (unsigned i = 0; i < 4; i++) {
        CHECK_EQ(said_with(cases[i].why, &all), 0);
        CHECK_EQ(judged(&judge[i], &handle).result, CUDA_ERROR_INVALID_VALUE);
        CHECK_EQ(said_with(cases[i].why, &all), 1);
        CHECK_EQ(all, i + 2); /* with that of the exporter */
    }
    for (unsigned i = 4; i-- > 0;) /* each has the pipes of those before it */
        end_onlooker(&judge[i]);
}

/* ---- what another process may have put into the place of a list ------------------------------ */

enum {
    LIST_ROOM = 1 << 18, /* more than any list has */
    LIST_FD = 40,        /* in the handle */
    SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE,
};

/* Puts a file of these bytes into the place of the list. */
static void replace_list(int list, const unsigned char *bytes, size_t size, int seals)
{
    int fd = memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    REQUIRE(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
    REQUIRE(seals == 0 || fcntl(fd, F_ADD_SEALS, seals) == 0);
    REQUIRE(dup2(fd, list) == list && close(fd) == 0);
}

static bool is_refused(const struct other *judge, const CUipcMemHandle *handle,
        const unsigned char *bytes, size_t at)
{
    uint32_t now;

    if (judged(judge, handle).result != CUDA_SUCCESS)
        return true;
    memcpy(&now, bytes + at, sizeof now);
    printf("not with %x at %zu\n", now, at);
    return false;
}

/* With each word as another one. */
static void change_words(const struct other *judge, const CUipcMemHandle *handle, int list,
        const unsigned char *bytes, size_t size)
{
    static unsigned char other[LIST_ROOM];

    for (size_t at = 0; at < size; at += 4) {
        uint32_t was, now[3];

        if (at > 40 && (at - 40) % 32 == 28)
            continue; /* behind the descriptor of each piece there is nothing */
        memcpy(&was, bytes + at, sizeof was);
        now[0] = was + 1;
        now[1] = 0;
        now[2] = UINT32_MAX;
        for (unsigned i = 0; i < 3; i++) {
            if (now[i] == was)
                continue;
            memcpy(other, bytes, size);
            memcpy(other + at, &now[i], sizeof now[i]);
            replace_list(list, other, size, SEALS);
            CHECK(is_refused(judge, handle, other, at));
        }
    }
}

/* The list is a file of the exporter's, which may do with its descriptors what it likes: each word of it, its length and its seals are
 * looked at. */
TEST(r24_a_list_that_is_not_as_it_was_is_refused)
{
    static unsigned char bytes[LIST_ROOM];
    static const int lacking[] = {F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE};
    const size_t sizes[] = {1 * MB, 5 * MB}; /* on one physical handle, and on several */
    unsigned open = 0;
    struct other judge;

    said_begin();
    judge = start_judge(0);
    client_init();
    for (unsigned k = 0; k < 2; k++) {
        CUipcMemHandle handle;
        struct answer answer;
        size_t size, lengths[4];
        ssize_t length;
        int list;

        show(alloc(sizes[k]), &handle);
        memcpy(&list, &handle.reserved[LIST_FD], sizeof list);
        length = pread(list, bytes, sizeof bytes, 0);
        REQUIRE(length > 0);
        size = (size_t)length;
        answer = judged(&judge, &handle);
        CHECK_EQ(answer.result, CUDA_SUCCESS);
        open = open ? open : answer.descriptors;
        change_words(&judge, &handle, list, bytes, size);
        for (unsigned i = 0; i < 4; i++) {
            replace_list(list, bytes, size, SEALS & ~lacking[i]);
            CHECK_EQ(judged(&judge, &handle).result, CUDA_ERROR_INVALID_VALUE);
        }
        lengths[0] = 0;
        lengths[1] = size - 1;
        lengths[2] = size + 1;
        lengths[3] = LIST_ROOM;
        for (unsigned i = 0; i < 4; i++) {
            replace_list(list, bytes, lengths[i], SEALS);
            CHECK_EQ(judged(&judge, &handle).result, CUDA_ERROR_INVALID_VALUE);
        }
        replace_list(list, bytes, size, SEALS); /* a copy is as good */
        answer = judged(&judge, &handle);
        CHECK_EQ(answer.result, CUDA_SUCCESS);
        CHECK_EQ(answer.descriptors, open);
    }
    end_onlooker(&judge);
}

/* The exporter is gone, and its handle with it. */
TEST(r24_a_handle_ends_with_its_process)
{
    struct other judge;
    CUipcMemHandle handle;
    int up[2], status = 0;
    pid_t owner;

    said_begin();
    judge = start_judge(0);
    REQUIRE(pipe(up) == 0);
    owner = fork();
    REQUIRE(owner >= 0);
    if (owner == 0) {
        client_init();
        show(alloc(4 * MB), &handle);
        (void)!write(up[1], &handle, sizeof handle);
        (void)pause();
    }
    REQUIRE_EQ(read(up[0], &handle, sizeof handle), (ssize_t)sizeof handle);
    CHECK_EQ(judged(&judge, &handle).result, CUDA_SUCCESS);
    (void)kill(owner, SIGKILL);
    REQUIRE_EQ(waitpid(owner, &status, 0), owner);
    CHECK_EQ(judged(&judge, &handle).result, CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(judged(&judge, &handle).lines, 2);
    end_onlooker(&judge);
}

/* Neither moves nor goes, while the program has it and afterwards. */
TEST(r80_what_was_exported_stays_where_it_is)
{
    struct other other = start_onlooker();
    CUdeviceptr shown, later[40];
    CUipcMemHandle handle;

    REQUIRE(setenv("KEDGE_POOL", "sync=mapped,remap=eager", 1) == 0);
    client_init();
    shown = alloc(6 * MB);
    fill(shown, 0x61, 6 * MB);
    show(shown, &handle);
    CHECK_EQ(seen_by(&other, &handle, 0x61, 6 * MB), 6 * MB);
    REQUIRE_EQ(cu->cuMemFree_v2(shown), CUDA_SUCCESS);
    for (int i = 0; i < 40; i++) {
        later[i] = alloc((1 + (size_t)i % 7) * MB);
        CHECK(later[i] + 8 * MB <= shown || later[i] >= shown + 6 * MB);
        fill(later[i], 0x62, MB);
    }
    (void)close(other.to);
    (void)waitpid(other.pid, NULL, 0);
}

TEST(r23_in_its_own_process_a_handle_is_no_address)
{
    CUdeviceptr ptr, opened = 0;
    CUipcMemHandle handle;

    client_init();
    ptr = alloc(4 * MB);
    show(ptr, &handle);
    CHECK_EQ(cu->cuIpcOpenMemHandle_v2(&opened, handle, 1), CUDA_ERROR_INVALID_CONTEXT);
}

/* Two opens are one address, which is a range of the block's size, until the second close. */
TEST(r79_an_import_is_one_range_and_leaves_no_descriptor)
{
    CUdeviceptr one = 0, two = 0, base = 0;
    CUipcMemHandle handle;
    int up[2], down[2];
    unsigned before;
    size_t size = 0;
    pid_t owner;

    REQUIRE(pipe(up) == 0 && pipe(down) == 0);
    owner = fork();
    REQUIRE(owner >= 0);
    if (owner == 0) {
        (void)close(down[1]);
        client_init();
        (void)alloc(1000);
        show(alloc(7 * MB), &handle);
        (void)!write(up[1], &handle, sizeof handle);
        (void)!read(down[0], &handle, 1);
        _exit(0);
    }
    client_init();
    REQUIRE_EQ(read(up[0], &handle, sizeof handle), (ssize_t)sizeof handle);
    before = descriptors();
    REQUIRE_EQ(cu->cuIpcOpenMemHandle_v2(&one, handle, 1), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuIpcOpenMemHandle_v2(&two, handle, 1), CUDA_SUCCESS);
    CHECK_EQ(one, two);
    REQUIRE_EQ(cu->cuMemGetAddressRange_v2(&base, &size, one + 5 * MB), CUDA_SUCCESS);
    CHECK_EQ(base, one);
    CHECK_EQ(size, 7 * MB);
    REQUIRE_EQ(
            cu->cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, one + 5 * MB),
            CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, one + 5 * MB),
            CUDA_SUCCESS);
    CHECK_EQ(base, one);
    CHECK_EQ(size, 7 * MB);
    fill(one + 6 * MB, 0x11, MB);
    CHECK_EQ(cu->cuIpcCloseMemHandle(one), CUDA_SUCCESS);
    fill(one, 0x12, MB);
    CHECK_EQ(cu->cuIpcCloseMemHandle(one), CUDA_SUCCESS);
    CHECK_EQ(cu->cuIpcCloseMemHandle(one), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(client_calls("cuMemUnmap"), 1);
    CHECK_EQ(client_calls("cuMemAddressFree"), 1);
    CHECK_LE(descriptors(),
            before + 6); /* the simulated device has a file for each mapping that it looked at */
    (void)close(down[1]);
    (void)waitpid(owner, NULL, 0);
}

TEST(r80_an_export_ends_with_its_context)
{
    struct other judge;
    CUipcMemHandle handle;
    CUcontext context = NULL;
    unsigned before;

    said_begin();
    judge = start_judge(0);
    client_init();
    before = descriptors();
    show(alloc(5 * MB), &handle);
    CHECK_EQ(judged(&judge, &handle).result, CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSetCurrent(context), CUDA_SUCCESS);
    CHECK_LE(descriptors(), before + 1); /* the simulated device's arena */
    CHECK_EQ(judged(&judge, &handle).result, CUDA_ERROR_INVALID_VALUE);
    end_onlooker(&judge);
}

/* ---- calls of ours that fail ----------------------------------------------------------------- */

static void (*fail_next)(const char *call, unsigned times, CUresult code);
static unsigned (*fail_clear)(void);

static void find_failures(void)
{
    fail_next = (__typeof__(fail_next))client_sim("simcuda_fail_next");
    fail_clear = (__typeof__(fail_clear))client_sim("simcuda_fail_clear");
    REQUIRE(fail_next && fail_clear);
}

TEST(r32_each_call_of_an_export_may_fail)
{
    static const char *const calls[] = {"cuMemRetainAllocationHandle",
            "cuMemExportToShareableHandle", "cuMemRelease", "cuThreadExchangeStreamCaptureMode",
            "cuIpcGetMemHandle"};
    struct other other = start_onlooker();
    CUipcMemHandle handle;
    unsigned before = 0;

    client_init();
    find_failures();
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        CUdeviceptr ptr = alloc(3 * MB + 512);
        unsigned failed;
        CUresult result;

        fill(ptr, 0x30, 3 * MB + 512);
        before = descriptors();
        fail_next(calls[i], 1, CUDA_ERROR_UNKNOWN);
        result = cu->cuIpcGetMemHandle(&handle, ptr);
        failed = fail_clear();
        CHECK_EQ(failed, 1);
        CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_SUPPORTED);
        if (result != CUDA_SUCCESS)
            CHECK_LE(descriptors(), before + 2); /* the device's own files of what it has shown */
        show(ptr, &handle);
        CHECK_EQ(seen_by(&other, &handle, 0x30, 3 * MB + 512), 3 * MB + 512);
    }
    end_onlooker(&other);
}

TEST(r32_each_call_of_an_open_may_fail)
{
    static const char *const calls[] = {"cuMemAddressReserve", "cuMemImportFromShareableHandle",
            "cuMemMap", "cuMemSetAccess", "cuMemRelease", "cuThreadExchangeStreamCaptureMode"};
    CUipcMemHandle handle;
    CUdeviceptr ptr = 0;
    int up[2], down[2];
    pid_t owner;

    REQUIRE(pipe(up) == 0 && pipe(down) == 0);
    owner = fork();
    REQUIRE(owner >= 0);
    if (owner == 0) {
        (void)close(down[1]);
        client_init();
        ptr = alloc(7 * MB);
        fill(ptr, 0x50, 7 * MB);
        show(ptr, &handle);
        (void)!write(up[1], &handle, sizeof handle);
        (void)!read(down[0], &handle, 1);
        _exit(0);
    }
    client_init();
    find_failures();
    REQUIRE_EQ(read(up[0], &handle, sizeof handle), (ssize_t)sizeof handle);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        unsigned char byte = 0;
        CUresult result;

        fail_next(calls[i], 1, CUDA_ERROR_OUT_OF_MEMORY);
        result = cu->cuIpcOpenMemHandle_v2(&ptr, handle, 1);
        CHECK_EQ(fail_clear(), 1);
        CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY);
        if (result != CUDA_SUCCESS)
            REQUIRE_EQ(cu->cuIpcOpenMemHandle_v2(&ptr, handle, 1), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemcpyDtoH_v2(&byte, ptr + 7 * MB - 1, 1), CUDA_SUCCESS);
        CHECK_EQ(byte, 0x50);
        fail_next("cuMemUnmap", 1, CUDA_ERROR_UNKNOWN);
        CHECK_EQ(cu->cuIpcCloseMemHandle(ptr), CUDA_ERROR_UNKNOWN); /* it is open still */
        (void)fail_clear();
        CHECK_EQ(cu->cuMemcpyDtoH_v2(&byte, ptr, 1), CUDA_SUCCESS);
        CHECK_EQ(cu->cuIpcCloseMemHandle(ptr), CUDA_SUCCESS);
    }
    CHECK_EQ(client_calls("cuMemAddressReserve"), client_calls("cuMemAddressFree") + 1);
    (void)close(down[1]);
    (void)waitpid(owner, NULL, 0);
}
