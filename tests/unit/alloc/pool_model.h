/* SPDX-License-Identifier: MIT */
/*
 * pool_model.h - a program that does whatever a string of bytes says, beside a naive model of what must hold.
 *
 * The bytes are allocations, frees (good and bad ones), device work, anchor edges, readers that are parked between their
 * guard and the driver, trims, failures of the driver, captures, dying contexts and pools. After every step:
 *
 *   - no two live blocks overlap in addresses or storage, every one is aligned (R15) and its storage is there unless a hint released it
 *   - a block is handed out only when all that its memory's earlier tenants were used for is done, or ordered before (R1); its
 *     memory is its addresses, and the storage behind them, wherever else that was mapped (R95)
 *   - frees answer as R35 and R58 say, pool_find and pool_touch as the model says
 *   - the pool's figures are the model's, and pool_check finds nothing
 *
 * The same code runs on random bytes in pool_random_test.c, with the pool's switches in pool_mutation_test.c, and under a fuzzer
 * in fuzz_pool.c.
 */
#ifndef KEDGE_TESTS_UNIT_POOL_MODEL_H
#define KEDGE_TESTS_UNIT_POOL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a run has exercised (R92). */
struct model_floors {
    uint64_t allocs, frees, refusals;
    uint64_t epochs, points, cross_reuses, followed, inserted_waits, host_waits;
    uint64_t releases, husks, shadows, remaps, moved, aliased, trims;
    uint64_t failures;   /* injected ones that fired */
    uint64_t violations; /* of R1 or of the device; 0 unless a mutation was asked for */
};

/* Runs the bytes. With `is_mutated`, violations are counted instead of failing the test. */
void model_run(const uint8_t *bytes, size_t count, bool is_mutated, struct model_floors *add);

/* Runs 4,000 random bytes; says the seed where the test has failed. */
void model_run_seed(uint64_t seed, bool is_mutated, struct model_floors *add);

/* R92: a suite that exercises nothing proves nothing. */
void model_print(const struct model_floors *floors);

#endif
