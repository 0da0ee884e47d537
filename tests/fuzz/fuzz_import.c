/* SPDX-License-Identifier: MIT */
/*
 * Any snapshot and any log is imported or refused, without a crash, a leak or endless work; and whatever is written is a capture in
 * which nothing is damaged, whose totals are those of its events.
 */
#include "tools/import/import.h"
#include "tools/load/load.h"
#include "tools/trace/model.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const unsigned char *input, size_t length);

static void judge_capture(int fd)
{
    struct model_figures figures;
    struct load load;
    char path[64];

    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (load_open(path, &load) != 0 || read_is_damaged(load.capture) || load.capture->bad_records)
        abort();
    model_figure(load.trace, model_whole(load.trace), NULL, &figures);
    if (figures.remaining != load.capture->total.live_bytes
            || figures.peak_live != load.capture->total.peak_bytes)
        abort();
    load_close(&load);
}

static void import_by(
        int (*reader)(struct import_job *job), const unsigned char *input, size_t length)
{
    int fd = memfd_create("import", MFD_CLOEXEC);
    struct import_job job = {.path = "input", .size = length};
    struct import_counts counts;
    const char *why;

    job.in = fmemopen((void *)(uintptr_t)input, length, "r");
    if (fd < 0 || !job.in || loglines_add(&job.patterns, LOGLINES_DEFAULT, &why) != 0)
        abort();
    int r;
    for (;;) {
        job.import = import_new(fd, "input", "input", NULL);
        r = reader(&job);
        if (r != IMPORT_AGAIN)
            break;
        import_free_books(job.import);
        rewind(job.in);
        if (ftruncate(fd, 0) != 0)
            abort();
    }
    if (r == 0) {
        if (import_done(job.import, &counts) != 0)
            abort();
        judge_capture(fd);
    }
    import_free_books(job.import);
    import_processes_done(&job.processes);
    (void)fclose(job.in);
    (void)close(fd);
}

/* What users are told is not looked at here. */
int LLVMFuzzerTestOneInput(const unsigned char *input, size_t length)
{
    FILE *shown = stderr;
    FILE *nowhere = length ? fopen("/dev/null", "we") : NULL;

    if (!nowhere)
        return 0;
    stderr = nowhere;
    import_by(import_is_torch(input, length) ? import_torch : import_paddle, input, length);
    stderr = shown;
    (void)fclose(nowhere);
    return 0;
}
