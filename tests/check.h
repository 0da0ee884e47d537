/* SPDX-License-Identifier: MIT */
/*
 * check.h - the test framework: one header, one linker section, no library.
 *
 * A test program is one .c file that includes this header and holds tests:
 *
 *     TEST(freed_block_waits)
 *     {
 *         REQUIRE(pool_open(&p) == 0);           stops this test
 *         CHECK_EQ(pool_live_bytes(&p), 512);    prints both sides and goes on
 *         if (!gpu)
 *             SKIP("no GPU here");               the test counts as skipped, never as passed
 *     }
 *
 * Each TEST puts a pointer to itself into the section "kedge_tests", so there is no list to keep. TEST stands
 * at the start of a line: CMake finds the names there and registers one ctest for each (kedge_unit_test).
 *
 *     prog              runs all tests     prog NAME...   runs these      prog --list   prints the names
 *
 * The last line is "N passed, N failed, N skipped". Exit 0 passed, 1 something failed (or no such test),
 * 77 all that ran were skipped. A program with several .c files defines KEDGE_CHECK_NO_MAIN in all but one.
 *
 * A table of cases is one loop over its rows. CHECK_ROW(name) at the head of the loop's body names the row: failures
 * print the name, until the next row or the end of the test.
 *
 * CHECK and REQUIRE may be used in helper functions and in other threads; REQUIRE and SKIP in a thread that the test
 * started end that thread only (SKIP is then the caller's business). Does not fork: a crash ends the program,
 * which is why ctest runs the tests one by one.
 */
#ifndef KEDGE_TESTS_CHECK_H
#define KEDGE_TESTS_CHECK_H

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct check_test {
    const char *name;
    void (*run)(void);
};

struct check_state {
    atomic_int failures; /* of the running test */
    const char *skipped; /* the reason, once SKIP ran */
    const char *row;     /* what CHECK_ROW said last, NULL */
    pthread_t thread;    /* the one that may jump */
    jmp_buf stop;
};

extern struct check_state check_state;

#define TEST(name_)                                                                              \
    static void test_##name_(void);                                                              \
    static const struct check_test check_test_##name_ = {#name_, test_##name_};                  \
    __attribute__((used,                                                                         \
            section("kedge_tests"))) static const struct check_test *const check_entry_##name_ = \
            &check_test_##name_;                                                                 \
    static void test_##name_(void)

/* A number or pointer of any type, so that CHECK_EQ needs no format. */
struct check_value {
    enum {
        CHECK_SIGNED,
        CHECK_UNSIGNED,
        CHECK_POINTER,
        CHECK_DOUBLE
    } kind;
    long long i;
    unsigned long long u;
    double d;
};

static inline struct check_value check_signed(long long v)
{
    return (struct check_value){CHECK_SIGNED, v, (unsigned long long)v, (double)v};
}

static inline struct check_value check_unsigned(unsigned long long v)
{
    return (struct check_value){CHECK_UNSIGNED, (long long)v, v, (double)v};
}

static inline struct check_value check_pointer(const volatile void *v)
{
    return (struct check_value){CHECK_POINTER, 0, (unsigned long long)(size_t)v, 0};
}

static inline struct check_value check_double(double v)
{
    return (struct check_value){CHECK_DOUBLE, 0, 0, v};
}

/* clang-format off */
#define CHECK_VALUE(x_) _Generic((x_), \
    _Bool: check_unsigned, char: check_signed, signed char: check_signed, short: check_signed, \
    int: check_signed, long: check_signed, long long: check_signed, unsigned char: check_unsigned, \
    unsigned short: check_unsigned, unsigned: check_unsigned, unsigned long: check_unsigned, \
    unsigned long long: check_unsigned, float: check_double, double: check_double, \
    default: check_pointer)(x_)
/* clang-format on */

/* -1, 0 or 1 by value, whatever the types: -1 is less than 1u here. */
static inline int check_order(struct check_value a, struct check_value b)
{
    if (a.kind == CHECK_DOUBLE || b.kind == CHECK_DOUBLE)
        return (a.d > b.d) - (a.d < b.d);
    bool a_neg = a.kind == CHECK_SIGNED && a.i < 0;
    bool b_neg = b.kind == CHECK_SIGNED && b.i < 0;
    if (a_neg != b_neg)
        return a_neg ? -1 : 1;
    return (a.u > b.u) - (a.u < b.u);
}

static inline void check_print_value(const char *expr, struct check_value v)
{
    printf("    %s = ", expr);
    if (v.kind == CHECK_SIGNED)
        printf("%lld\n", v.i);
    else if (v.kind == CHECK_UNSIGNED)
        printf("%llu (0x%llx)\n", v.u, v.u);
    else if (v.kind == CHECK_POINTER)
        printf("0x%llx\n", v.u);
    else
        printf("%.17g\n", v.d);
}

static inline bool check_that(bool ok, const char *file, int line, const char *what)
{
    const char *row = check_state.row;

    if (!ok) {
        atomic_fetch_add(&check_state.failures, 1);
        printf("%s:%d: failed: %s%s%s%s\n", file, line, what, row ? " (row: " : "", row ? row : "",
                row ? ")" : "");
    }
    return ok;
}

enum check_op {
    CHECK_OP_EQ,
    CHECK_OP_NE,
    CHECK_OP_LT,
    CHECK_OP_LE,
    CHECK_OP_GT,
    CHECK_OP_GE
};

static inline bool check_holds(enum check_op op, int order)
{
    switch (op) {
    case CHECK_OP_EQ:
        return order == 0;
    case CHECK_OP_NE:
        return order != 0;
    case CHECK_OP_LT:
        return order < 0;
    case CHECK_OP_LE:
        return order <= 0;
    case CHECK_OP_GT:
        return order > 0;
    case CHECK_OP_GE:
        return order >= 0;
    }
    return false;
}

static inline bool check_compare(const char *file, int line, const char *what, enum check_op op,
        const char *expr_a, struct check_value a, const char *expr_b, struct check_value b)
{
    bool ok = check_that(check_holds(op, check_order(a, b)), file, line, what);

    if (!ok) {
        check_print_value(expr_a, a);
        check_print_value(expr_b, b);
    }
    return ok;
}

static inline bool check_strings(
        const char *file, int line, const char *what, const char *a, const char *b)
{
    bool ok = a && b ? strcmp(a, b) == 0 : a == b;

    if (!check_that(ok, file, line, what))
        printf("    left  \"%s\"\n    right \"%s\"\n", a ? a : "(null)", b ? b : "(null)");
    return ok;
}

/* Ends the running test; in a thread of the test's own, ends that thread. */
static inline _Noreturn void check_stop(void)
{
    if (pthread_equal(pthread_self(), check_state.thread))
        longjmp(check_state.stop, 1);
    pthread_exit(NULL);
}

static inline _Noreturn void check_skip(const char *why)
{
    check_state.skipped = why;
    check_stop();
}

/* Every operand is evaluated once. */
/* clang-format off */
#define CHECK_CMP(a_, op_, sign_, b_) \
    check_compare(__FILE__, __LINE__, #a_ " " sign_ " " #b_, op_, #a_, CHECK_VALUE(a_), #b_, CHECK_VALUE(b_))
#define CHECK(cond_)         ((void)check_that(!!(cond_), __FILE__, __LINE__, #cond_))
#define CHECK_EQ(a_, b_)     ((void)CHECK_CMP(a_, CHECK_OP_EQ, "==", b_))
#define CHECK_NE(a_, b_)     ((void)CHECK_CMP(a_, CHECK_OP_NE, "!=", b_))
#define CHECK_LT(a_, b_)     ((void)CHECK_CMP(a_, CHECK_OP_LT, "<", b_))
#define CHECK_LE(a_, b_)     ((void)CHECK_CMP(a_, CHECK_OP_LE, "<=", b_))
#define CHECK_GT(a_, b_)     ((void)CHECK_CMP(a_, CHECK_OP_GT, ">", b_))
#define CHECK_GE(a_, b_)     ((void)CHECK_CMP(a_, CHECK_OP_GE, ">=", b_))
#define CHECK_STR_EQ(a_, b_) ((void)check_strings(__FILE__, __LINE__, #a_ " is " #b_, a_, b_))
#define REQUIRE(cond_) \
    (check_that(!!(cond_), __FILE__, __LINE__, #cond_) ? (void)0 : check_stop())
#define REQUIRE_EQ(a_, b_) (CHECK_CMP(a_, CHECK_OP_EQ, "==", b_) ? (void)0 : check_stop())
#define REQUIRE_STR_EQ(a_, b_) \
    (check_strings(__FILE__, __LINE__, #a_ " is " #b_, a_, b_) ? (void)0 : check_stop())
/* clang-format on */
#define SKIP(why_)       check_skip(why_)
#define CHECK_ROW(name_) ((void)(check_state.row = (name_)))

/*
 * Repeats a scenario with its first, second, ... call failing until a round in which none failed (sqlite's habit):
 *
 *     FAIL_NTH(n, fired) {
 *         struct fake fake = {.fail_at = n};   the n-th call of this round fails, counted from 1
 *         scenario(&fake);                     must leave everything whole, whichever call failed
 *         fired = fake.failed;                 false ends the loop: every call has had its turn
 *     }
 *
 * A body that forgets to set `fired` would run for ever, so 100,000 rounds count as a failure.
 */
#define FAIL_NTH(n_, fired_) \
    for (int n_ = 1, fired_ = 1; fired_ && check_nth(n_, __FILE__, __LINE__); n_++)

static inline bool check_nth(int n, const char *file, int line)
{
    return check_that(n <= 100000, file, line, "FAIL_NTH comes to an end");
}

#ifndef KEDGE_CHECK_NO_MAIN

struct check_state check_state;

extern const struct check_test *const __start_kedge_tests[];
extern const struct check_test *const __stop_kedge_tests[];

enum check_result {
    CHECK_PASSED,
    CHECK_FAILED,
    CHECK_SKIPPED,
    CHECK_COUNT
};

/* Apart from check_run, so that no local variable is alive across the jump. */
static void check_guarded(const struct check_test *test)
{
    if (setjmp(check_state.stop) == 0)
        test->run();
}

static enum check_result check_run(const struct check_test *test)
{
    atomic_store(&check_state.failures, 0);
    check_state.skipped = NULL;
    check_state.row = NULL;
    check_state.thread = pthread_self();
    check_guarded(test);
    if (atomic_load(&check_state.failures) > 0) {
        printf("FAILED %s\n", test->name);
        return CHECK_FAILED;
    }
    if (check_state.skipped) {
        printf("skipped %s\nSKIP: %s\n", test->name, check_state.skipped);
        return CHECK_SKIPPED;
    }
    printf("ok %s\n", test->name);
    return CHECK_PASSED;
}

static bool check_wanted(const char *name, int argc, char **argv)
{
    bool wanted = argc < 2;

    for (int i = 1; i < argc; i++)
        wanted |= strcmp(argv[i], name) == 0;
    return wanted;
}

int main(int argc, char **argv)
{
    const struct check_test *const *end = __stop_kedge_tests;
    bool list = argc == 2 && strcmp(argv[1], "--list") == 0;
    int count[CHECK_COUNT] = {0};
    int ran = 0;

    setvbuf(stdout, NULL, _IOLBF, 0); /* what was printed before a crash is the best clue */
    for (const struct check_test *const *t = __start_kedge_tests; t < end; t++) {
        if (list)
            puts((*t)->name);
        else if (check_wanted((*t)->name, argc, argv)) {
            count[check_run(*t)]++;
            ran++;
        }
    }
    if (list)
        return 0;
    if (ran == 0 || (argc > 1 && ran != argc - 1)) {
        printf("not every test that was asked for exists here\n");
        count[CHECK_FAILED]++;
    }
    printf("%d passed, %d failed, %d skipped\n", count[CHECK_PASSED], count[CHECK_FAILED],
            count[CHECK_SKIPPED]);
    if (count[CHECK_FAILED] > 0)
        return EXIT_FAILURE;
    return count[CHECK_PASSED] > 0 ? EXIT_SUCCESS : 77;
}

#endif /* KEDGE_CHECK_NO_MAIN */
#endif
