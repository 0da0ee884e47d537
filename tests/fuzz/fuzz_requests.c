/* SPDX-License-Identifier: MIT */
/*
 * fuzz_requests - traces of allocations as `kedge whatif` reads them, a csv or a log of RMM. Whatever the bytes: either one
 * line that names the place, or requests that every policy plays twice, holding at least what is live.
 */
#include "tests/bench/models/models.h"
#include "tools/base/rowtrace.h"
#include "tools/load/load.h"
#include "tools/replay/whatif.h"

#include <stdlib.h>
#include <string.h>

enum {
    BLOCKS_MAX = 2000,
    STREAMS_MAX = 64,
};

/* Slow ones are not played: a fuzzer finds the largest sizes at once. */
#define BYTES_MAX (UINT64_C(1) << 36)

int LLVMFuzzerTestOneInput(const unsigned char *input, size_t length);

__attribute__((constructor)) static void play_all_models(void)
{
    models_add();
}

static void expect_place(const char *error)
{
    if (strncmp(error, "t:", 2) != 0 || strchr(error, '\n'))
        abort();
}

static void play(const struct workload *workload)
{
    if (workload->block_count > BLOCKS_MAX || workload->stream_count > STREAMS_MAX
            || workload->peak_live > BYTES_MAX)
        return;
    for (size_t i = 0; i < whatif_policy_count; i++) {
        struct whatif_job job = {.workload = workload, .passes = 2, .lag = 0.5};
        struct whatif answer;

        if (whatif_run(&whatif_policies[i], &job, &answer) != 0
                || answer.peak_reserved < workload->peak_live)
            abort();
        whatif_done(&answer);
    }
}

static void try_steps(FILE *in)
{
    struct workload workload;
    struct rowtrace steps;

    if (rowtrace_read_stream(in, "t", &steps) != 0) {
        expect_place(steps.error);
    } else {
        struct trace *trace = load_rowtrace(&steps, steps.alloc_count % 2 != 0);
        workload_from_trace(trace, 0, (uint32_t)trace->event_count, &workload);
        trace_free(trace);
        play(&workload);
        workload_done(&workload);
    }
    rowtrace_done(&steps);
}

int LLVMFuzzerTestOneInput(const unsigned char *input, size_t length)
{
    char *text = malloc(length + 1);
    FILE *in;

    if (!text || length == 0)
        goto free_text;
    memcpy(text, input, length);
    in = fmemopen(text, length, "r");
    if (!in)
        goto free_text;
    try_steps(in);
    (void)fclose(in);
free_text:
    free(text);
    return 0;
}
