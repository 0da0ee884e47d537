/* SPDX-License-Identifier: MIT */
/* covers: reads.c */
/* Lines about values that were not computed become places of the program. */
#include "tests/check.h"
#include "tools/estimate/reads.h"

#include <stdlib.h>
#include <unistd.h>

static const char lines[] = "nonzero\t2\troute\t/job/moe.py\t31\t<module>\t/job/moe.py\t90\n"
                            "-\t3\titem\t/v/lib/python3.12/site-packages/torch/"
                            "_tensor.py\t7\tlog\t/job/moe.py\t50\t<module>\t/job/moe.py\t91\n"
                            "nonzero\t2\troute\t/job/moe.py\t31\t<module>\t/job/moe.py\t90\n"
                            "-\t1\tfit\t/v/lib/python3.12/site-packages/lightning/loop.py\t12\n"
                            "unique\t0\n"
                            "-\t2\titem\t<string>\t1\tlog\t/job/moe.py\t50\n";

TEST(places_are_the_programs_own_lines_and_sizes_come_first)
{
    char path[] = "/tmp/kedge-reads-XXXXXX";
    struct reads reads = {0};
    int fd = mkstemp(path);

    REQUIRE(fd >= 0);
    CHECK_EQ(write(fd, lines, sizeof(lines) - 1), (ssize_t)(sizeof(lines) - 1));
    (void)close(fd);
    reads_add(&reads, path);
    reads_sort(&reads);
    (void)unlink(path);
    CHECK_EQ(reads.sizes, 3);
    CHECK_EQ(reads.others, 3);
    REQUIRE_EQ(reads.count, 4);
    CHECK_STR_EQ(reads.places[0].place, "route moe.py:31");
    CHECK_STR_EQ(reads.places[0].operator_name, "nonzero");
    CHECK_EQ(reads.places[0].count, 2);
    CHECK_STR_EQ(reads.places[1].place, "(no Python)");
    CHECK(reads_is_size(&reads.places[1]));
    CHECK_STR_EQ(reads.places[2].place, "log moe.py:50");
    CHECK_EQ(reads.places[2].count, 2);
    CHECK_STR_EQ(reads.places[3].place, "fit loop.py:12");
    CHECK(!reads_is_size(&reads.places[3]));
    reads_done(&reads);
}

TEST(a_process_without_such_a_file_has_none)
{
    struct reads reads = {0};

    reads_add(&reads, "/nowhere/1.reads");
    reads_sort(&reads);
    CHECK_EQ(reads.count, 0);
    reads_done(&reads);
}
