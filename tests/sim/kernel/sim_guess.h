/* SPDX-License-Identifier: MIT */
/*
 * sim_guess.h - what a kernel that is not in kernels.def reads and writes, as far as its name and its binary tell.
 *
 * The binary says where parameters lie, not what they are. C++ names say their types, and so a little more:
 *
 *     T const *       is read                     T *   is written, elements of type T
 *     int, float ...  is a number                 T **  is followed by nobody: what stands there are addresses
 *     std::array<char *, N> (PyTorch)             the first is written, the others are read
 *
 * and of some of PyTorch's kernels it is known how they take their tensors (sim_guess.c). Without a type a parameter of
 * 8 bytes, and each aligned word of a larger one, is touched if it is an address of this device; nothing is written.
 *
 * A guess is made from the name alone, not from values, and once per kernel; how many places of a list of tensors are
 * used is asked of each launch. It may be wrong; that makes digests say less, or depend on what stood in memory before.
 * It never makes a program that is right fail (sim_other.c).
 *
 * Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_SIM_GUESS_H
#define KEDGE_TESTS_SIM_SIM_GUESS_H

#include "tests/sim/kernel/sim_kernels.h"
#include "tests/sim/memory/sim_digest.h"

enum sim_role {
    SIM_ROLE_NUMBER, /* goes into the digest */
    SIM_ROLE_READ,   /* points to what goes into the digest */
    SIM_ROLE_WRITE,  /* points to where the digest goes */
    SIM_ROLE_TOUCH,  /* points to something */
    SIM_ROLE_COUNT
};

#define SIM_FACTORS 5

/* A number among the parameters. */
struct sim_guess_factor {
    uint32_t offset, size;
};

/* How many elements a kernel writes: the product of some numbers, and of the blocks of its grid. */
struct sim_guess_count {
    bool is_known;
    struct sim_guess_factor factor[SIM_FACTORS];
    unsigned factors;
    bool by_x, by_y;
    /* Where the number of entries stands if the first factor is a list of that many; 0: it is none. */
    uint32_t dims;
    bool is_plan; /* the first factor is the plan of a reduction, or stands 4 bytes before it */
};

struct sim_guess_word {
    uint32_t offset; /* in the parameters */
    enum sim_role role;
    bool is_parameter; /* a whole one; false: a word within one, which may be no address at all */
    bool is_listed; /* in a list of which a launch uses the first places; sim_guess.list says how many */
    uint32_t place; /* there */
    /* NUMBER: bytes that it has; WRITE: bytes of an element, and what elements are */
    uint32_t size;
    enum sim_digest_kind kind;
    struct sim_guess_count count; /* WRITE */
    /* WRITE: where a calculator of offsets stands whose strides are signed, and for how many tensors; 0: none */
    uint32_t calculator, tensors;
};

/* How many places of its lists of tensors a launch uses. The others hold what the caller's stack held before. */
enum sim_list {
    SIM_LIST_NONE,
    SIM_LIST_X,     /* as many as the grid has blocks in x */
    SIM_LIST_Y,     /* in y */
    SIM_LIST_TABLE, /* a table says of each block in x which place it works at; the greatest counts */
};

struct sim_guess {
    struct sim_guess_word *words;
    unsigned words_count;
    bool has_types;  /* the name says them, and of as many parameters as there are */
    int fill_offset; /* of the value that each element gets; -1: a digest */
    uint32_t fill_size;
    enum sim_list list;
    uint32_t table_offset, table_size; /* where it lies, and entries */
    uint32_t table_entry;              /* bytes of one: 1 or 2 */
};

/* A C++ name as people write it, to be freed; NULL: it is none, or the process has no demangler. */
char *sim_guess_name(const char *name);

void sim_guess_make(const struct sim_kernel *kernel, struct sim_guess *ret_guess);

/*
 * Finds the C++ library's demangler, if the process has one. Outside the lock: this asks the loader, which may be
 * waiting for the lock.
 */
void sim_guess_prepare(void);

#endif
