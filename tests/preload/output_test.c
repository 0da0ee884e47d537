/* SPDX-License-Identifier: MIT */
/* covers: output.c export_output.c */
/*
 * Lines of a program's output as anchors: every entry through which text gets out, pieces, and what must not change for the
 * program: results, errno, cancellation, signal handlers, forks.
 */
#include "tests/preload/told.h"

#include "preload/base/kedge.h"
#include "tests/preload/child.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <printf.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/uio.h>

enum {
    FORKS = 40,
    TALKERS = 3,
    STORM = 200,
};

static int screen = -1; /* the test's own standard output, while 1 is a file */
static char paper[64];

/* Standard output is a file from here on, as with dup2 in a shell. */
static void redirect(void)
{
    int fd;

    (void)fflush(stdout);
    (void)snprintf(paper, sizeof paper, "/tmp/kedge-test-paper-%d", (int)getpid());
    fd = open(paper, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    screen = fcntl(1, F_DUPFD_CLOEXEC, 10);
    REQUIRE(fd >= 0 && screen >= 0 && dup2(fd, 1) == 1);
    (void)close(fd);
    (void)unlink(paper);
}

/* Back; true if the file has exactly this. */
static bool redirected(const char *wanted)
{
    char text[4096] = "";

    (void)fflush(stdout);
    REQUIRE(pread(1, text, sizeof text - 1, 0) >= 0);
    REQUIRE(dup2(screen, 1) == 1);
    (void)close(screen);
    if (strcmp(text, wanted) != 0)
        printf("written: '%s', not '%s'\n", text, wanted);
    return strcmp(text, wanted) == 0;
}

/* The function that a program gets for a name, which the compiler cannot replace by another. */
#define THE(type, name) ((type)the(name))

static void *the(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);

    REQUIRE(found);
    return found;
}

/* ---- every entry ---------------------------------------------------------------------------- */

typedef ssize_t (*write_fn)(int, const void *, size_t);
typedef ssize_t (*writev_fn)(int, const struct iovec *, int);
typedef size_t (*fwrite_fn)(const void *, size_t, size_t, FILE *);
typedef int (*fputs_fn)(const char *, FILE *);
typedef int (*fputc_fn)(int, FILE *);
typedef int (*print_fn)(const char *, ...);
typedef int (*fprint_fn)(FILE *, const char *, ...);
typedef int (*dprint_fn)(int, const char *, ...);
typedef int (*print_chk_fn)(int, const char *, ...);
typedef int (*fprint_chk_fn)(FILE *, int, const char *, ...);
typedef int (*dprint_chk_fn)(int, int, const char *, ...);
typedef int (*vprint_fn)(const char *, va_list);
typedef int (*vfprint_fn)(FILE *, const char *, va_list);
typedef int (*vdprint_fn)(int, const char *, va_list);
typedef int (*vprint_chk_fn)(int, const char *, va_list);
typedef int (*vfprint_chk_fn)(FILE *, int, const char *, va_list);
typedef int (*vdprint_chk_fn)(int, int, const char *, va_list);

static const char line[] = "START x7\n";
static const int line_length = sizeof line - 1;

static void by_write(const char *name)
{
    CHECK_EQ(THE(write_fn, name)(1, line, sizeof line - 1), line_length);
}

static void by_writev(const char *name)
{
    char text[3][8] = {"STA", "RT x7", "\n"};
    const struct iovec parts[] = {{text[0], 3}, {text[1], 5}, {text[2], 1}};

    CHECK_EQ(THE(writev_fn, name)(1, parts, 3), line_length);
}

static void by_fwrite(const char *name)
{
    CHECK_EQ(THE(fwrite_fn, name)(line, 3, 3, stdout), 3); /* nine bytes */
}

static void by_fputs(const char *name)
{
    CHECK_GE(THE(fputs_fn, name)(line, stdout), 0);
}

static void by_puts(const char *name)
{
    CHECK_GE(THE(int (*)(const char *), name)("START x7"), 0);
}

static void by_fputc(const char *name)
{
    for (const char *c = line; *c; c++)
        CHECK_EQ(THE(fputc_fn, name)(*c, stdout), *c);
}

static void by_putchar(const char *name)
{
    for (const char *c = line; *c; c++)
        CHECK_EQ(THE(int (*)(int), name)(*c), *c);
}

static void by_print(const char *name)
{
    CHECK_EQ(THE(print_fn, name)("START %s%d\n", "x", 7), line_length);
}

static void by_fprint(const char *name)
{
    CHECK_EQ(THE(fprint_fn, name)(stdout, "START %s%d\n", "x", 7), line_length);
}

static void by_dprint(const char *name)
{
    CHECK_EQ(THE(dprint_fn, name)(1, "START %s%d\n", "x", 7), line_length);
}

static void by_print_chk(const char *name)
{
    CHECK_EQ(THE(print_chk_fn, name)(1, "START %s%d\n", "x", 7), line_length);
}

static void by_fprint_chk(const char *name)
{
    CHECK_EQ(THE(fprint_chk_fn, name)(stdout, 1, "START %s%d\n", "x", 7), line_length);
}

static void by_dprint_chk(const char *name)
{
    CHECK_EQ(THE(dprint_chk_fn, name)(1, 1, "START %s%d\n", "x", 7), line_length);
}

/* The v-forms, with arguments of ours. */
static void with_list(const char *name, ...)
{
    const char *format = "START %s%d\n";
    va_list args;
    int n = 0;

    va_start(args, name);
    if (strcmp(name, "vprintf") == 0)
        n = THE(vprint_fn, name)(format, args);
    else if (strcmp(name, "vfprintf") == 0)
        n = THE(vfprint_fn, name)(stdout, format, args);
    else if (strcmp(name, "vdprintf") == 0)
        n = THE(vdprint_fn, name)(1, format, args);
    else if (strcmp(name, "__vprintf_chk") == 0)
        n = THE(vprint_chk_fn, name)(1, format, args);
    else if (strcmp(name, "__vfprintf_chk") == 0)
        n = THE(vfprint_chk_fn, name)(stdout, 1, format, args);
    else
        n = THE(vdprint_chk_fn, name)(1, 1, format, args);
    va_end(args);
    CHECK_EQ(n, line_length);
}

static void by_list(const char *name)
{
    with_list(name, "x", 7);
}

static const struct {
    const char *name;
    void (*by)(const char *);
} entries[] = {
        {"write", by_write},
        {"writev", by_writev},
        {"fwrite", by_fwrite},
        {"fwrite_unlocked", by_fwrite},
        {"fputs", by_fputs},
        {"fputs_unlocked", by_fputs},
        {"puts", by_puts},
        {"fputc", by_fputc},
        {"fputc_unlocked", by_fputc},
        {"putc", by_fputc},
        {"putc_unlocked", by_fputc},
        {"_IO_putc", by_fputc},
        {"putchar", by_putchar},
        {"putchar_unlocked", by_putchar},
        {"printf", by_print},
        {"fprintf", by_fprint},
        {"dprintf", by_dprint},
        {"vprintf", by_list},
        {"vfprintf", by_list},
        {"vdprintf", by_list},
        {"__printf_chk", by_print_chk},
        {"__fprintf_chk", by_fprint_chk},
        {"__dprintf_chk", by_dprint_chk},
        {"__vprintf_chk", by_list},
        {"__vfprintf_chk", by_list},
        {"__vdprintf_chk", by_list},
};

TEST(a_line_is_an_anchor_whichever_function_wrote_it)
{
    char enter[64], wanted[64];

    told_begin();
    (void)told();
    for (unsigned i = 0; i < sizeof entries / sizeof *entries; i++) {
        redirect();
        entries[i].by(entries[i].name);
        (void)fflush(stdout); /* what the buffer held is not counted twice */
        CHECK(redirected(line));
        (void)snprintf(enter, sizeof enter, i ? "-x7#%u +x7#%u" : "+x7", i - 1, i);
        if (i == 1)
            (void)snprintf(enter, sizeof enter, "-x7 +x7#1");
        (void)snprintf(wanted, sizeof wanted, "%s", told());
        if (strcmp(wanted, enter) != 0)
            printf("by %s:\n", entries[i].name);
        CHECK_STR_EQ(wanted, enter);
        CHECK_STR_EQ(told_path(), "x7");
    }
}

/* ---- pieces --------------------------------------------------------------------------------- */

static void out(const char *text)
{
    CHECK_EQ(write(1, text, strlen(text)), (ssize_t)strlen(text));
}

TEST(pieces_make_lines_and_lines_end_ranges)
{
    static char longest[1200];

    told_begin();
    (void)told();
    redirect();
    out("STA");
    CHECK(fprintf(stdout, "%s", "RT a") > 0);
    CHECK_STR_EQ(told(), "");
    out("\nSTART b\nnothing\nSTART c");
    CHECK_STR_EQ(told(), "+a -a +b");
    out("\r10 %\r20 %\rEND c\n");
    CHECK_STR_EQ(told(), "-b +c -c");
    out("END c\nEND z\n");
    CHECK_STR_EQ(told(), "");
    out("START d\nEND e\n");
    CHECK_STR_EQ(told(), "+d");
    out("START ");
    CHECK_EQ(write(2, "END d\n", 6), 6); /* another descriptor is another line */
    CHECK_STR_EQ(told(), "-d");
    out("f\n");
    CHECK_STR_EQ(told(), "+f");
    memset(longest, 'y', sizeof longest - 1);
    out(longest);
    out("\nSTART g\n");
    CHECK_STR_EQ(told(), "-f +g");
    out("START ");
    out(longest); /* no anchor, and no end of the line */
    out(" START h\n");
    CHECK_STR_EQ(told(), "");
    printf("%s\nSTART h\n", longest); /* the first line is passed over */
    CHECK(fflush(stdout) == 0);
    out("START i\n");
    CHECK_STR_EQ(told(), "-g +h -h +i");
    errno = ENOENT;
    printf("START %m\n");
    CHECK_STR_EQ(told(), "");
    errno = 0;
    printf("START m%dx\nEND %s\n", 1, "m1x");
    CHECK_EQ(errno, 0);
    CHECK_STR_EQ(told(), "-i +m1x -m1x");
    (void)redirected("");
}

static pthread_barrier_t barrier;

static void *talk(void *argument)
{
    const char *name = argument;

    for (int i = 0; i < 4; i++) {
        (void)pthread_barrier_wait(&barrier);
        out(i == 0 ? "ST" : i == 1 ? "ART " : i == 2 ? name : "\n");
        (void)pthread_barrier_wait(&barrier);
    }
    return NULL;
}

/* Whatever a format makes, and however long: what follows is a line of its own, and so are the lines inside. */
TEST(a_long_formatted_print_is_read_like_any_other)
{
    static char text[4096];
    int n = 0;

    told_begin();
    (void)told();
    redirect();
    memset(text, 'x', sizeof text - 1);
    for (int i = 80; i < 4000; i += 80)
        text[i] = '\n';
    memcpy(text + 3000, "\nSTART in\n", 10);
    text[sizeof text - 2] = '\n';
    CHECK_EQ(THE(print_fn, "printf")("%s", text), 4095);
    CHECK_STR_EQ(told(), "+in");
    CHECK_EQ(THE(print_fn, "printf")("%s%n", text + 3100, &n), 995);
    CHECK_EQ(n, 995);
    CHECK_EQ(THE(print_fn, "printf")("START a%*d\n", 2000, 7), 2008);
    CHECK_EQ(THE(print_fn, "printf")("END in\n"), 7);
    CHECK_STR_EQ(told(), "-in");
    (void)THE(fputs_fn, "fputs")("START b\n", stdout);
    CHECK_STR_EQ(told(), "+b");
    (void)ftruncate(1, 0);
    REQUIRE(dup2(screen, 1) == 1);
}

static int numbered;

static int print_number(
        FILE *out_stream, const struct printf_info *info, const void *const *arguments)
{
    (void)info;
    (void)arguments;
    return fprintf(out_stream, "%d", ++numbered);
}

static int no_argument(const struct printf_info *info, size_t n, int *types, int *sizes)
{
    (void)info;
    (void)n;
    (void)types;
    (void)sizes;
    return 0;
}

/* A letter of its own, and one that the C library has too. */
TEST(a_conversion_of_the_programs_own_runs_once)
{
    told_begin();
    (void)told();
    redirect();
    REQUIRE(register_printf_specifier('W', print_number, no_argument) == 0);
    REQUIRE(register_printf_specifier('X', print_number, no_argument) == 0);
    CHECK_EQ(THE(print_fn, "printf")("line %W\n"), 7);
    CHECK_EQ(THE(print_fn, "printf")("line %X\n"), 7);
    CHECK_EQ(THE(print_fn, "printf")("line %5W"), 6);
    CHECK_EQ(numbered, 3);
    CHECK_EQ(THE(print_fn, "printf")("\nSTART a%d\n", 1), 10);
    CHECK_STR_EQ(told(), "+a1");
    CHECK(redirected("line 1\nline 2\nline 3\nSTART a1\n"));
}

TEST(threads_have_lines_of_their_own)
{
    static char names[2][8] = {"left", "right"};
    pthread_t threads[2];
    const char *said;

    told_begin();
    (void)told();
    redirect();
    REQUIRE(pthread_barrier_init(&barrier, NULL, 2) == 0);
    for (int i = 0; i < 2; i++)
        REQUIRE(pthread_create(&threads[i], NULL, talk, names[i]) == 0);
    for (int i = 0; i < 2; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    (void)redirected("");
    said = told();
    CHECK(strcmp(said, "+left +right") == 0 || strcmp(said, "+right +left") == 0);
}

TEST(a_printed_range_and_a_pushed_one_of_the_same_name_are_one)
{
    told_begin();
    (void)told();
    redirect();
    out("START x\n");
    KEDGE_PUSH("x");
    CHECK_STR_EQ(told_path(), "x");
    KEDGE_PUSH("inner");
    CHECK_STR_EQ(told_path(), "x/inner");
    KEDGE_POP();
    KEDGE_POP();
    CHECK_STR_EQ(told_path(), "");
    out("END x\n");
    CHECK_STR_EQ(told(), "+x +x/inner -x/inner -x");
    (void)redirected("");
}

/* ---- transparency --------------------------------------------------------------------------- */

TEST(failures_and_short_writes_are_the_programs)
{
    void *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char text[8192];
    int ends[2];
    ssize_t n, more;

    told_begin();
    (void)told();
    REQUIRE(pipe2(ends, O_NONBLOCK | O_CLOEXEC) == 0);
    REQUIRE(fcntl(ends[1], F_SETPIPE_SZ, 4096) == 4096);
    screen = fcntl(1, F_DUPFD_CLOEXEC, 10);
    REQUIRE(screen >= 0 && dup2(ends[1], 1) == 1);
    memset(text, '\n', sizeof text);
    memcpy(text + 5000, "START late\n", 11);
    n = write(1, text, sizeof text);
    errno = 0;
    more = write(1, text + 5000, 11);
    CHECK(more == -1 && errno == EAGAIN);
    CHECK_EQ(n, 4096);
    CHECK_STR_EQ(told(), ""); /* it is not out yet */
    CHECK_EQ(read(ends[0], text, 4096), 4096);
    CHECK_EQ(write(1, text + 4096, sizeof text - 4096), (ssize_t)sizeof text - 4096);
    CHECK_STR_EQ(told(), "+late");
    (void)close(1);
    errno = 0;
    n = write(1, "START x\n", 8);
    CHECK(n == -1 && errno == EBADF);
    errno = 0;
    CHECK(dprintf(1, "START %s\n", "x") < 0 && errno == EBADF);
    CHECK_STR_EQ(told(), "");
    REQUIRE(dup2(screen, 1) == 1);
    errno = 0;
    CHECK(write(1, nowhere, 8) == -1 && errno == EFAULT);
}

/* A stream without a descriptor: to ask for it sets errno. */
TEST(errno_is_what_it_was_where_a_stream_has_no_descriptor)
{
    char text[64] = "";
    FILE *stream = fmemopen(text, sizeof text, "w");

    told_begin();
    REQUIRE(stream);
    errno = ENOENT;
    CHECK_EQ(THE(fputs_fn, "fputs")("a", stream), 1);
    CHECK_EQ(THE(fputc_fn, "fputc")('b', stream), 'b');
    CHECK_EQ(THE(fwrite_fn, "fwrite")("c", 1, 1, stream), 1);
    CHECK_EQ(errno, ENOENT);
    CHECK_EQ(THE(fprint_fn, "fprintf")(stream, "%s", "d"), 1);
    CHECK_EQ(errno, ENOENT);
    CHECK(fclose(stream) == 0);
    CHECK_STR_EQ(text, "abcd");
}

static int cleaned;

static void clean(const int *unused)
{
    (void)unused;
    cleaned++;
}

static void *write_for_ever(void *argument)
{
    static char text[4096];
    int watched __attribute__((cleanup(clean))) = 0;

    (void)argument;
    (void)watched;
    for (;;)
        (void)!write(1, text, sizeof text);
    return NULL;
}

TEST(a_write_stays_a_cancellation_point_and_destructors_run)
{
    pthread_t thread;
    void *result;
    int ends[2];

    told_begin();
    (void)told();
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    screen = fcntl(1, F_DUPFD_CLOEXEC, 10);
    REQUIRE(screen >= 0 && dup2(ends[1], 1) == 1);
    REQUIRE(pthread_create(&thread, NULL, write_for_ever, NULL) == 0);
    REQUIRE(pthread_cancel(thread) == 0); /* in a write to a full pipe, or on the way to it */
    REQUIRE(pthread_join(thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED);
    CHECK_EQ(cleaned, 1);
    REQUIRE(dup2(screen, 1) == 1);
    redirect();
    out("START after\n");
    CHECK_STR_EQ(told(), "+after");
    (void)redirected("");
}

static atomic_int handled;

static void handler(int signal)
{
    int saved = errno;

    (void)signal;
    (void)!write(1, "START in_handler\n", 17);
    atomic_fetch_add(&handled, 1);
    errno = saved;
}

static void check_undamaged(void)
{
    struct read_capture *capture = NULL;

    REQUIRE(read_open_parts(told_file, READ_ALL, &capture, NULL) == 0);
    CHECK_EQ(capture->bad_records, 0);
    CHECK(!read_is_damaged(capture));
    read_close(capture);
}

/* A handler that prints, at any moment of a thread that prints, pushes and allocates. */
static void be_stormed(void)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
    CUdeviceptr ptr;

    told_begin();
    (void)told();
    REQUIRE(sigaction(SIGALRM, &action, NULL) == 0);
    redirect();
    REQUIRE(raise(SIGALRM) == 0);
    CHECK_STR_EQ(told(), "+in_handler");
    REQUIRE(setitimer(ITIMER_REAL, &often, NULL) == 0);
    while (atomic_load(&handled) < STORM) {
        KEDGE_PUSH("pushed");
        out("START printed\n");
        CHECK_EQ(cu->cuMemAlloc_v2(&ptr, 4096), CUDA_SUCCESS);
        CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
        out("END printed\n");
        KEDGE_POP();
    }
    REQUIRE(setitimer(ITIMER_REAL, &never, NULL) == 0);
    (void)redirected("");
    check_undamaged();
}

TEST(a_signal_handler_may_write_at_any_moment)
{
    be_stormed();
}

/* Without the host barrier a free goes the short way (preload/request/quick.h). */
TEST(a_signal_handler_may_write_at_any_moment_of_a_short_free)
{
    REQUIRE(setenv("KEDGE_SYNC_FREE", "0", 1) == 0);
    be_stormed();
}

/* It need not have room for what a line brings about. */
TEST(a_handler_on_a_stack_of_its_own_is_passed_over)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    size_t size = (size_t)SIGSTKSZ;
    stack_t stack = {.ss_size = size}, none = {.ss_flags = SS_DISABLE};
    char *memory;

    told_begin();
    (void)told();
    REQUIRE(posix_memalign((void **)&memory, 4096, 8192 + size) == 0);
    REQUIRE(mprotect(memory, 4096, PROT_NONE) == 0);
    stack.ss_sp = memory + 4096;
    REQUIRE(sigaltstack(&stack, NULL) == 0);
    REQUIRE(sigaction(SIGALRM, &action, NULL) == 0);
    redirect();
    out("START before\n");
    REQUIRE(raise(SIGALRM) == 0);
    CHECK_EQ(atomic_load(&handled), 1);
    CHECK_STR_EQ(told(), "+before");
    action.sa_flags = 0; /* on the thread's stack, which still has the other one */
    REQUIRE(sigaction(SIGALRM, &action, NULL) == 0);
    REQUIRE(raise(SIGALRM) == 0);
    CHECK_STR_EQ(told(), "-before +in_handler");
    (void)redirected("");
    REQUIRE(sigaltstack(&none, NULL) == 0);
    REQUIRE(mprotect(memory, 4096, PROT_READ | PROT_WRITE) == 0);
    free(memory);
}

TEST(what_was_said_before_cuda_is_where_the_program_is)
{
    told_set();
    redirect();
    out("START early\nSTART setup\nEND setup\nSTART setup\n");
    told_begin();
    CHECK_STR_EQ(told(), "+setup#1");
    CHECK_STR_EQ(told_path(), "setup");
    out("END setup\n");
    CHECK_STR_EQ(told(), "-setup#1");
    (void)redirected("");
}

/* ---- forks ---------------------------------------------------------------------------------- */

static atomic_bool enough;

static void *keep_talking(void *argument)
{
    (void)argument;
    while (!atomic_load(&enough)) {
        out("START talk\n");
        KEDGE_PUSH("inner");
        KEDGE_POP();
        out("END talk\n");
    }
    return NULL;
}

/* Each child speaks while its parent's threads were speaking: no lock of theirs may be waited for. */
static void fork_often(void)
{
    for (int i = 0; i < FORKS; i++) {
        int status = -1;
        pid_t child = fork();

        if (child == 0) {
            alarm(20);
            out("START child\n");
            KEDGE_PUSH("y");
            KEDGE_POP();
            out("END child\n");
            _exit(0);
        }
        REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
        CHECK_EQ(status, 0);
    }
}

static void with_talkers(void (*body)(void))
{
    pthread_t threads[TALKERS];

    redirect();
    atomic_store(&enough, false);
    for (int i = 0; i < TALKERS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, keep_talking, NULL) == 0);
    body();
    atomic_store(&enough, true);
    for (int i = 0; i < TALKERS; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    REQUIRE(dup2(screen, 1) == 1);
}

TEST(children_speak_while_threads_of_the_parent_did)
{
    told_set();
    with_talkers(fork_often); /* before CUDA */
    told_begin();
    with_talkers(fork_often);
    (void)told();
    redirect();
    out("START mine\n");
    CHECK_STR_EQ(told(), "+mine");
    (void)redirected("");
}

/* ---- a child's own handlers ----------------------------------------------------------------- */

static void speak_in_child(void)
{
    out("START from_child\nEND from_child\n");
}

/*
 * The program's atfork handler runs between two of ours: the locks of what records are still those of the parent's threads, and
 * the file is the parent's.
 */
TEST(what_a_child_says_before_it_is_one_of_ours_is_not_written)
{
    struct read_capture *capture;
    size_t from_child = 0, talks = 0;

    REQUIRE(pthread_atfork(NULL, NULL, speak_in_child) == 0);
    told_begin();
    with_talkers(fork_often);
    REQUIRE(read_open_parts(told_file, READ_ALL, &capture, NULL) == 0);
    CHECK_EQ(capture->bad_records, 0);
    for (size_t i = 0; i < capture->event_count; i++) {
        from_child += capture->event[i].kind == FORMAT_EVENT_EDGE
                && strstr(capture->event[i].path, "from_child") != NULL;
        talks += capture->event[i].kind == FORMAT_EVENT_EDGE
                && strcmp(capture->event[i].path, "talk") == 0;
    }
    CHECK_EQ(from_child, 0);
    CHECK_GT(talks, 0);
    read_close(capture);
}
