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
 * A guess is made from the name alone, not from values, and once per kernel. It may be wrong; that makes digests say
 * less, or depend on what stood in memory before. It never makes a program that is right fail (sim_other.c).
 *
 * Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_SIM_GUESS_H
#define KEDGE_TESTS_SIM_SIM_GUESS_H

#include "tests/sim/sim_digest.h"
#include "tests/sim/sim_kernels.h"

enum sim_role {
    SIM_ROLE_NUMBER, /* goes into the digest */
    SIM_ROLE_READ,   /* points to what goes into the digest */
    SIM_ROLE_WRITE,  /* points to where the digest goes */
    SIM_ROLE_TOUCH,  /* points to something */
    SIM_ROLE_COUNT
};

struct sim_guess_word {
    uint32_t offset; /* in the parameters */
    enum sim_role role;
    bool is_parameter; /* a whole one; false: a word within one, which may be no address at all */
    /* NUMBER: bytes that it has; WRITE: bytes of an element, what elements are, and whether all are written */
    uint32_t size;
    enum sim_digest_kind kind;
    bool is_counted; /* elements are counted by `count_offset` */
};

struct sim_guess {
    struct sim_guess_word *words;
    unsigned words_count;
    int count_offset; /* of the number of elements, an int; -1: there is none */
    int fill_offset;  /* of the value that each element gets; -1: a digest */
    uint32_t fill_size;
};

void sim_guess_make(const struct sim_kernel *kernel, struct sim_guess *ret_guess);

/*
 * Finds the C++ library's demangler, if the process has one. Outside the lock: this asks the loader, which may be
 * waiting for the lock.
 */
void sim_guess_prepare(void);

#endif
