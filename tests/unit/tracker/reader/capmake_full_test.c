/* SPDX-License-Identifier: MIT */
/* covers: capmake.c */
/* A capture has room for so many extents, which are as short as a block here (EXTENT_MAX): 64 MiB in all. */
#include "tests/check.h"
#include "tracker/reader/capmake.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

TEST(a_capture_that_is_too_large_for_its_directory_is_refused)
{
    enum {
        MOST = FORMAT_EXTENTS_MAX * (FORMAT_CHUNK_BYTES / sizeof(struct format_live)),
    };
    int fd = memfd_create("capture", MFD_CLOEXEC);
    struct capmake *make = capmake_new(fd);
    struct format_header header = {.state = FORMAT_STATE_CLEAN};
    uint64_t put = 0;
    int r = 0;

    REQUIRE(make != NULL);
    while (r == 0 && put <= 2 * (uint64_t)MOST) {
        struct format_live slot = {.state = 2 * ++put + 1};

        r = capmake_live(make, &slot);
    }
    CHECK_EQ(r, -EFBIG);
    CHECK_GT(put, MOST - FORMAT_CHUNK_BYTES);
    CHECK_LE(put, MOST + FORMAT_CHUNK_BYTES);
    CHECK_EQ(capmake_done(make, &header), -EFBIG);
    capmake_free(make);
    (void)close(fd);
}
