/* SPDX-License-Identifier: MIT */
#include "tools/import/import_capture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/base/cmdexit.h"
#include "tools/base/vec.h"
#include "tools/import/import.h"

FILE *import_capture_record(const char *path, const struct read_capture *capture)
{
    const struct read_record *record = &capture->record;
    FILE *in;

    if (!record->bytes) {
        (void)fprintf(stderr,
                "kedge import: %s: a capture without a record of PyTorch's tensors in it, which "
                "runs under "
                "PyTorch's own allocator have (kedge run --api framework)\n",
                path);
        return NULL;
    }
    in = fmemopen(record->bytes, record->what.bytes, "r");
    if (!in)
        vec_out_of_memory();
    return in;
}

/* Writes the tensors as a capture to `fd`. 0 or CMD_BAD. */
static int import_capture_write(
        const char *path, const struct read_capture *capture, FILE *in, int fd)
{
    struct import_job job = {.path = path, .in = in, .size = capture->record.what.bytes};
    struct import_counts counts;
    int r;

    job.import = import_new(fd, IMPORT_TORCH, path, capture->rank);
    r = import_torch(&job);
    if (r == CMD_DONE && import_done(job.import, &counts) < 0)
        r = CMD_BAD;
    import_free_books(job.import);
    import_processes_done(&job.processes);
    return r;
}

struct read_capture *import_capture_tensors(const char *path, const struct read_capture *capture)
{
    FILE *in = import_capture_record(path, capture);
    int fd = in ? memfd_create("kedge tensors", MFD_CLOEXEC) : -1;
    struct read_capture *tensors = NULL;
    struct read_error error = {{0}, 0};
    char name[32];

    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    if (fd >= 0 && import_capture_write(path, capture, in, fd) == CMD_DONE
            && read_begin(name, &tensors, &error) < 0)
        (void)fprintf(stderr, "%s: its tensors: %s\n", path, error.text);
    if (in)
        (void)fclose(in);
    if (fd >= 0)
        (void)close(fd);
    return tensors;
}
