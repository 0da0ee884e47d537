/* SPDX-License-Identifier: MIT */
/*
 * The PTX text of the trainers, run by an interpreter of the few instructions that it uses, against the C of
 * kernels_host.c. So that the kernels that a GPU runs and those that results are compared with are the same.
 */
#include "tests/check.h"
#include "tests/trainers/kernels.ptx.h"
#include "tests/trainers/kernels_host.h"
#include "tests/trainers/sample.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINES_MOST = 128,
    WORDS_MOST = 6,
    REGISTERS_MOST = 64,
    STEPS_MOST = 1000000,
    WORD_SIZE = 32,
};

/* One instruction, split at blanks, commas and brackets: "@%p", "bra", "NEXT" or "add.u64", "%w", "%w", "%t". */
struct instruction {
    char words[WORDS_MOST][WORD_SIZE];
    int count;
};

struct program {
    struct instruction lines[LINES_MOST];
    int count;
    char params[8][WORD_SIZE];
    int params_count;
};

struct machine {
    const struct program *program;
    const uint64_t *args;
    char names[REGISTERS_MOST][WORD_SIZE];
    uint64_t values[REGISTERS_MOST];
    int registers;
    uint64_t thread, threads_per_block, block, blocks;
};

/* ---- reading ---- */

static void split(char *line, struct instruction *ret)
{
    ret->count = 0;
    for (char *word = strtok(line, " \t,[]()"); word; word = strtok(NULL, " \t,[]()")) {
        REQUIRE(ret->count < WORDS_MOST);
        (void)snprintf(ret->words[ret->count++], WORD_SIZE, "%s", word);
    }
}

/* Parameters in the order in which they are declared between the name and the opening brace. */
static void read_params(const char *from, const char *to, struct program *p)
{
    for (const char *at = strstr(from, "p_"); at && at < to; at = strstr(at, "p_")) {
        int n = 0;

        while (isalnum((unsigned char)at[n]) || at[n] == '_')
            n++;
        (void)snprintf(p->params[p->params_count++], WORD_SIZE, "%.*s", n, at);
        at += n;
    }
}

static void read_kernel(const char *name, struct program *p)
{
    const char *head = strstr(kernels_ptx, name);
    const char *body = head ? strchr(head, '{') : NULL;
    const char *end = body ? strchr(body, '}') : NULL;
    char line[256];

    memset(p, 0, sizeof(*p));
    REQUIRE(end);
    read_params(head, body, p);
    for (const char *at = body + 2; at < end;) {
        const char *stop = strchr(at, '\n');

        (void)snprintf(line, sizeof(line), "%.*s", (int)(stop - at), at);
        at = stop + 1;
        line[strcspn(line, ";:")] = '\0';
        if (!strstr(line, ".reg")) {
            REQUIRE(p->count < LINES_MOST);
            split(line, &p->lines[p->count++]);
        }
    }
}

/* ---- running ---- */

static uint64_t *reg(struct machine *m, const char *name)
{
    for (int i = 0; i < m->registers; i++) {
        if (strcmp(m->names[i], name) == 0)
            return &m->values[i];
    }
    REQUIRE(m->registers < REGISTERS_MOST);
    (void)snprintf(m->names[m->registers], WORD_SIZE, "%s", name);
    m->values[m->registers] = 0;
    return &m->values[m->registers++];
}

static uint64_t operand(struct machine *m, const char *word)
{
    if (strcmp(word, "%ctaid.x") == 0)
        return m->block;
    if (strcmp(word, "%nctaid.x") == 0)
        return m->blocks;
    if (strcmp(word, "%tid.x") == 0)
        return m->thread;
    if (strcmp(word, "%ntid.x") == 0)
        return m->threads_per_block;
    if (word[0] == '%')
        return *reg(m, word);
    for (int i = 0; i < m->program->params_count; i++) {
        if (strcmp(word, m->program->params[i]) == 0)
            return m->args[i];
    }
    return strtoull(word, NULL, 10);
}

static bool is_64(const char *op)
{
    const char *dot = strrchr(op, '.');

    return dot && strcmp(dot + 2, "64") == 0;
}

static bool begins(const char *op, const char *with)
{
    return strncmp(op, with, strlen(with)) == 0;
}

static void *pointer(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

/* dst = a op b, wide results and conversions included. */
static bool arithmetic(const char *op, uint64_t a, uint64_t b, uint64_t *ret)
{
    if (begins(op, "mov.") || begins(op, "cvt.") || begins(op, "cvta.") || begins(op, "ld.param"))
        *ret = a;
    else if (begins(op, "add."))
        *ret = a + b;
    else if (begins(op, "sub."))
        *ret = a - b;
    else if (begins(op, "mul.lo"))
        *ret = a * b;
    else if (begins(op, "mul.wide.u32"))
        *ret = (uint64_t)(uint32_t)a * (uint32_t)b;
    else if (begins(op, "div."))
        *ret = a / b;
    else if (begins(op, "shr."))
        *ret = a >> b;
    else if (begins(op, "shl."))
        *ret = a << b;
    else if (begins(op, "and."))
        *ret = a & b;
    else if (begins(op, "xor."))
        *ret = a ^ b;
    else if (begins(op, "setp.le"))
        *ret = a <= b;
    else if (begins(op, "setp.lt"))
        *ret = a < b;
    else if (begins(op, "setp.ge"))
        *ret = a >= b;
    else
        return false;
    return true;
}

/* True if the instruction was a load, a store or an atomic addition. */
static bool memory(struct machine *m, const struct instruction *i, int at)
{
    const char *op = i->words[at];

    if (begins(op, "ld.global.u32")) {
        *reg(m, i->words[at + 1]) = *(uint32_t *)pointer(operand(m, i->words[at + 2]));
        return true;
    }
    if (begins(op, "ld.global.u64")) {
        *reg(m, i->words[at + 1]) = *(uint64_t *)pointer(operand(m, i->words[at + 2]));
        return true;
    }
    if (begins(op, "st.global.u32")) {
        *(uint32_t *)pointer(operand(m, i->words[at + 1])) = (uint32_t)operand(m, i->words[at + 2]);
        return true;
    }
    if (begins(op, "red.global.add.u64")) {
        *(uint64_t *)pointer(operand(m, i->words[at + 1])) += operand(m, i->words[at + 2]);
        return true;
    }
    return false;
}

static int label(const struct program *p, const char *name)
{
    for (int i = 0; i < p->count; i++) {
        if (p->lines[i].count == 1 && strcmp(p->lines[i].words[0], name) == 0)
            return i;
    }
    REQUIRE(false);
    return 0;
}

static void compute(struct machine *m, const struct instruction *i, int at)
{
    const char *op = i->words[at];
    uint64_t a = operand(m, i->words[at + 2]);
    uint64_t b = i->count > at + 3 ? operand(m, i->words[at + 3]) : 0;
    uint64_t result = 0;

    if (!is_64(op)) {
        a = (uint32_t)a;
        b = (uint32_t)b;
    }
    if (!arithmetic(op, a, b, &result)) {
        printf("    unknown instruction %s\n", op);
        REQUIRE(false);
    }
    /* wide products and conversions to 64 bits keep what does not fit into 32 */
    if (!is_64(op) && !begins(op, "mul.wide") && !begins(op, "cvt.u64"))
        result = (uint32_t)result;
    if (begins(op, "cvt.u32"))
        result = (uint32_t)result;
    *reg(m, i->words[at + 1]) = result;
}

static void run_thread(struct machine *m)
{
    const struct program *p = m->program;

    m->registers = 0;
    for (int pc = 0, steps = 0; pc < p->count; pc++, steps++) {
        const struct instruction *i = &p->lines[pc];
        int at = i->words[0][0] == '@';

        REQUIRE(steps < STEPS_MOST);
        if (i->count == 0 || i->count == 1) {
            if (i->count == 1 && strcmp(i->words[0], "ret") == 0)
                return;
            continue; /* a label */
        }
        if (at && operand(m, i->words[0] + 1) == 0)
            continue;
        if (strcmp(i->words[at], "bra") == 0)
            pc = label(p, i->words[at + 1]);
        else if (!memory(m, i, at))
            compute(m, i, at);
    }
}

static void run_grid(const char *kernel, const uint64_t *args, uint64_t blocks, uint64_t threads)
{
    static struct program program;
    struct machine m = {
            .program = &program, .args = args, .threads_per_block = threads, .blocks = blocks};

    read_kernel(kernel, &program);
    for (m.block = 0; m.block < blocks; m.block++) {
        for (m.thread = 0; m.thread < threads; m.thread++)
            run_thread(&m);
    }
}

/* ---- comparing ---- */

/* Edges: whole and sampled, one step and several, pages that overlap, bytes that are no multiple of 4. */
static const uint64_t sizes[] = {4, 64, 4096, 8188, 8192, 8195, 8196, 10000, 12288, 65536, 2097148,
        2097152, 2097156, 2098000, 2101248, 2101252, 2105344, 2105348, 3538944, 4194304, 4200004,
        7077888};

enum {
    SIZES = sizeof(sizes) / sizeof(sizes[0]),
};

struct pair {
    unsigned char *ptx, *c;
    size_t bytes;
};

static struct pair pair_new(uint64_t bytes)
{
    struct pair p = {.bytes = bytes + 64};

    p.ptx = host_tensor_new(p.bytes);
    p.c = host_tensor_new(p.bytes);
    REQUIRE(p.ptx && p.c);
    return p;
}

static void pair_check_and_free(struct pair *p)
{
    CHECK_EQ(memcmp(p->ptx, p->c, p->bytes), 0);
    host_tensor_free(p->ptx, p->bytes);
    host_tensor_free(p->c, p->bytes);
}

static uint64_t address(const void *p)
{
    return (uintptr_t)p;
}

TEST(fill_in_ptx_is_fill_in_c)
{
    for (int i = 0; i < SIZES; i++) {
        struct pair p = pair_new(sizes[i]);
        uint64_t args[] = {address(p.ptx), sizes[i], 77};

        run_grid("kedge_fill", args, 3, 32);
        host_fill(p.c, sizes[i], 77);
        pair_check_and_free(&p);
    }
}

TEST(mix_in_ptx_is_mix_in_c)
{
    for (int i = 0; i < SIZES; i++) {
        struct pair dst = pair_new(sizes[i]);
        struct pair src = pair_new(sizes[i]);
        uint64_t args[] = {address(dst.ptx), address(src.ptx), sizes[i]};

        host_fill(dst.ptx, sizes[i], 1);
        host_fill(dst.c, sizes[i], 1);
        host_fill(src.ptx, sizes[i], 2);
        host_fill(src.c, sizes[i], 2);
        run_grid("kedge_mix", args, 2, 64);
        host_mix(dst.c, src.c, sizes[i]);
        CHECK_NE(*(uint32_t *)(void *)dst.ptx, *(uint32_t *)(void *)src.ptx);
        pair_check_and_free(&dst);
        pair_check_and_free(&src);
    }
}

/* Of the tensor itself, or of what stands at an address. */
static void check_sum(const char *kernel, bool is_at)
{
    for (int i = 0; i < SIZES; i++) {
        struct pair src = pair_new(sizes[i]);
        uint64_t out = 5;
        uint64_t expected = 5;
        uint64_t at = address(src.ptx);
        uint64_t args[] = {address(&out), is_at ? address(&at) : at, sizes[i]};

        memset(src.ptx, 0x5a, src.bytes); /* between the pages too: it must not count */
        host_fill(src.ptx, sizes[i], 3);
        memset(src.c, 0x5a, src.bytes);
        host_fill(src.c, sizes[i], 3);
        run_grid(kernel, args, 1, 96);
        host_sum(&expected, src.c, sizes[i]);
        CHECK_EQ(out, expected);
        CHECK_NE(out, 5);
        pair_check_and_free(&src);
    }
}

TEST(sum_in_ptx_is_sum_in_c)
{
    check_sum("kedge_sum", false);
}

TEST(sum_at_an_address_in_memory_is_sum_in_c)
{
    check_sum("kedge_sum_at", true);
}

TEST(strided_copy_in_ptx_is_strided_copy_in_c)
{
    static const struct {
        uint64_t rows, row_bytes, stride;
    } shapes[] = {{1, 4, 4}, {3, 100, 200}, {1024, 8, 20}, {512, 4096, 8192}, {1152, 3072, 6144},
            {700, 6272, 6400}};

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        uint64_t bytes = shapes[i].rows * shapes[i].row_bytes;
        uint64_t span = shapes[i].rows * shapes[i].stride;
        struct pair dst = pair_new(bytes);
        uint32_t *src = host_tensor_new(span);
        uint64_t args[] = {address(dst.ptx), address(src), shapes[i].rows, shapes[i].row_bytes,
                shapes[i].stride};

        REQUIRE(src);
        for (uint64_t w = 0; w < span / 4; w++)
            src[w] = (uint32_t)w * 2654435761U;
        run_grid("kedge_copy_strided", args, 2, 48);
        host_copy_strided(dst.c, src, shapes[i].rows, shapes[i].row_bytes, shapes[i].stride);
        pair_check_and_free(&dst);
        host_tensor_free(src, span);
    }
}

/* The sample itself: ends included, each word once. */
TEST(sample_has_each_word_once_and_both_ends)
{
    for (int i = 0; i < SIZES; i++) {
        uint64_t words = sizes[i] / 4;
        unsigned char *seen = calloc(words, 1);
        uint64_t count = 0;

        REQUIRE(seen);
        for (uint64_t item = 0; item < sample_items(sizes[i]); item++) {
            uint64_t w = sample_word(sizes[i], item);

            if (w == SAMPLE_NONE)
                continue;
            REQUIRE(w < words);
            CHECK_EQ(seen[w], 0);
            seen[w] = 1;
            count++;
        }
        CHECK_EQ(seen[0], 1);
        for (uint64_t w = words - (words < 1024 ? words : 1024); w < words; w++)
            CHECK_EQ(seen[w], 1);
        if (sizes[i] <= SAMPLE_WHOLE)
            CHECK_EQ(count, words);
        else
            CHECK_LE(count, (sample_steps(sizes[i]) + 1) * SAMPLE_PAGE_WORDS);
        free(seen);
    }
}
