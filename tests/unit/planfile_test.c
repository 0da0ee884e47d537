/* SPDX-License-Identifier: MIT */
#include "tests/check.h"
#include "tracker/planfile.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD                                                                              \
    "kedge-plan 1\ndevice 0\nentrance stream\nstreams one\nquantum 512\narea 8192\nlive " \
    "6656\nblocks 3\n"                                                                    \
    "# size offset until site\n"

static struct planfile *parse(const char *text, struct planfile_error *error)
{
    struct planfile *file = NULL;

    (void)planfile_read_bytes(text, strlen(text), "p", &file, error);
    return file;
}

/* True if the text is refused with exactly this line. */
static bool is_refused(const char *text, const char *with)
{
    struct planfile_error error;
    struct planfile *file = parse(text, &error);
    bool is_right = !file && strcmp(error.text, with) == 0;

    if (!is_right)
        printf("    '%s' instead of '%s'\n", file ? "(read)" : error.text, with);
    planfile_free(file);
    return is_right;
}

TEST(a_plan_is_read)
{
    struct planfile_error error;
    struct planfile *file = parse(HEAD "4096 0 2 9b1f44d0e2a7c315\n2560 4096 - 0 # it stays\n\n"
                                       "  4096\t0 3 0\n",
            &error);

    REQUIRE(file != NULL);
    CHECK_EQ(file->device, 0);
    CHECK_EQ(file->entrance, ENTRANCE_STREAM);
    CHECK(!file->all_streams);
    CHECK_EQ(file->quantum, 512u);
    CHECK_EQ(file->area, 8192u);
    CHECK_EQ(file->live, 6656u);
    CHECK_EQ(file->count, 3u);
    CHECK_EQ(file->block[0].size, 4096u);
    CHECK_EQ(file->block[0].until, 2u);
    CHECK_EQ(file->block[0].site, 0x9b1f44d0e2a7c315u);
    CHECK_EQ(file->block[1].offset, 4096u);
    CHECK_EQ(file->block[1].until, PLANNED_STAYS);
    CHECK_EQ(file->block[2].site, 0u);
    planfile_free(file);
}

TEST(what_is_wrong_in_the_head_is_said_with_its_place)
{
    CHECK(is_refused("", "p:1:1: not a plan: the first line is 'kedge-plan 1'"));
    CHECK(is_refused(
            "kedge-plan 2\n", "p:1:12: this version of a plan is not known here, only 1 is"));
    CHECK(is_refused("kedge-plan 1 0\n", "p:1:14: nothing else belongs on this line"));
    CHECK(is_refused("kedge-plan 1\n\narea 4\n", "p:3:1: 'device' is expected here"));
    CHECK(is_refused("kedge-plan 1\n", "p:2:1: 'device' is expected here"));
    CHECK(is_refused("kedge-plan 1\ndevice -1\n", "p:2:8: not a decimal number"));
    CHECK(is_refused("kedge-plan 1\ndevice 4096\n", "p:2:8: the number is too large"));
    CHECK(is_refused("kedge-plan 1\ndevice 0\nentrance both\n",
            "p:3:10: 'sync' or 'stream' is expected here"));
    CHECK(is_refused("kedge-plan 1\ndevice 0\nentrance sync\nquantum 512\n",
            "p:4:1: 'streams' is expected here"));
    CHECK(is_refused("kedge-plan 1\ndevice 0\nentrance sync\nstreams both\n",
            "p:4:9: 'one' or 'all' is expected here"));
    CHECK(is_refused("kedge-plan 1\ndevice 0\nentrance sync\nstreams all\nquantum 100\n",
            "p:5:9: a quantum is a power of two from 256 to 2097152"));
    CHECK(is_refused(
            "kedge-plan 1\ndevice 0\nentrance sync\nstreams all\nquantum 18446744073709551616\n",
            "p:5:9: the number is too large"));
    CHECK(is_refused("kedge-plan 1\ndevice 0\nentrance sync\nstreams all\nquantum 512\narea 1000\n",
            "p:6:6: an area is a multiple of the quantum, not 0, at most 64 TiB"));
    CHECK(is_refused("kedge-plan 1\ndevice 0\nentrance sync\nstreams all\nquantum 512\narea "
                     "1024\nlive 1025\n",
            "p:7:6: more is live than the area holds"));
    CHECK(is_refused("kedge-plan 1\ndevice 0\nentrance sync\nstreams all\nquantum 512\narea "
                     "1024\nlive 0\nblocks 0\n",
            "p:8:8: a plan has from 1 to 1048576 blocks"));
    CHECK(is_refused(
            "kedge-plan 1\ndevice 0\nentrance sync\nstreams all\nquantum 512\narea 1024\nlive 0\n"
            "blocks 1000000\n",
            "p:8:1: the file is too short for 1000000 blocks"));
}

TEST(what_is_wrong_in_a_block_is_said_with_its_place)
{
    CHECK(is_refused(HEAD "100 0 1 0\n4096 0 2 0\n4096 0 3 0\n",
            "p:10:1: a size is a multiple of the quantum, and not 0"));
    CHECK(is_refused(HEAD "0 0 1 0\n4096 0 2 0\n4096 0 3 0\n",
            "p:10:1: a size is a multiple of the quantum, and not 0"));
    CHECK(is_refused(HEAD "8704 0 1 0\n4096 0 2 0\n4096 0 3 0\n",
            "p:10:1: the block is larger than the area"));
    CHECK(is_refused(HEAD "512 0 1 0\n512 100 2 0\n4096 0 3 0\n",
            "p:11:5: an offset is a multiple of the quantum"));
    CHECK(is_refused(HEAD "512 0 1 0\n512 8192 2 0\n4096 0 3 0\n",
            "p:11:5: offset and size reach beyond the area"));
    CHECK(is_refused(HEAD "512 0 1 0\n512 18446744073709551104 2 0\n4096 0 3 0\n",
            "p:11:5: offset and size reach beyond the area"));
    CHECK(is_refused(HEAD "512 0 1 0\n512 0 1 0\n4096 0 3 0\n",
            "p:11:7: a block is freed after its own allocation, and before that of the next step"));
    CHECK(is_refused(HEAD "512 0 4 0\n512 0 5 0\n4096 0 3 0\n",
            "p:10:7: a block is freed after its own allocation, and before that of the next step"));
    CHECK(is_refused(
            HEAD "512 0 1\n512 0 2 0\n512 0 3 0\n", "p:10:8: the site is missing (0 = not known)"));
    CHECK(is_refused(
            HEAD "512 0 1 0\n512 0 2 G\n512 0 3 0\n", "p:11:9: a site has the digits 0-9 and a-f"));
    CHECK(is_refused(HEAD "512 0 1 0\n512 0 2 00123456789abcdef\n512 0 3 0\n",
            "p:11:9: a site has at most 16 hexadecimal digits"));
    CHECK(is_refused(HEAD "512 0 1 0 0\n512 0 2 0\n512 0 3 0\n",
            "p:10:11: nothing else belongs on this line"));
    CHECK(is_refused(HEAD "512 0 1 0 # long enough\n512 0 2 0\n",
            "p:12:1: the file ends after 2 of 3 blocks"));
    CHECK(is_refused(HEAD "512 0 1 0\n512 0 2 0\n512 0 3 0\n512 0 4 0\n",
            "p:13:1: there are more than 3 blocks"));
}

TEST(two_blocks_that_are_live_at_once_share_no_byte)
{
    CHECK(is_refused(HEAD "4096 0 2 0\n2560 3584 - 0\n512 0 3 0\n",
            "p:11:1: overlaps with the block of line 10, which is live then"));
    CHECK(is_refused(HEAD "4096 4096 2 0\n512 0 - 0\n8192 0 3 0\n",
            "p:12:1: overlaps with the block of line 11, which is live then"));
    CHECK(is_refused(HEAD "512 0 - 0\n512 0 - 0\n512 0 - 0\n",
            "p:11:1: overlaps with the block of line 10, which is live then"));
}

/* The third block is used until the second of the next step, which is where the first one stands. */
TEST(nor_do_a_block_of_one_step_and_one_of_the_next)
{
    struct planfile_error error;
    struct planfile *file;

    CHECK(is_refused(HEAD "512 0 1 0\n512 1024 2 0\n1024 0 4 0\n",
            "p:10:1: overlaps with the block of line 12, which is live then"));
    file = parse(HEAD "512 0 1 0\n512 1024 2 0\n1024 0 3 0\n", &error);
    CHECK(file != NULL);
    planfile_free(file);
}

TEST(many_blocks_are_checked_in_little_time)
{
    enum {
        COUNT = 300000
    };
    struct planned *block = calloc(COUNT, sizeof(*block));
    struct planfile file = {.entrance = ENTRANCE_STREAM,
            .quantum = 512,
            .area = (uint64_t)COUNT * 512,
            .count = COUNT,
            .block = block};
    struct planfile_error error;

    /* Each lives for the length of a step, spread over the area; only the last two share a place. */
    for (uint32_t i = 0; i < COUNT; i++)
        block[i] = (struct planned){512, (uint64_t)i * 7919 % COUNT * 512, 0, i + COUNT};
    CHECK_EQ(planfile_check(&file, &error), 0);
    block[COUNT - 1].offset = block[COUNT - 2].offset;
    CHECK_EQ(planfile_check(&file, &error), -EINVAL);
    CHECK_STR_EQ(error.text, "plan: block 299999 overlaps with block 299998, which is live then");
    free(block);
}

TEST(what_is_written_reads_the_same)
{
    struct planned block[2] = {{1024, 512, UINT64_MAX, 2}, {512, 0, 0, PLANNED_STAYS}};
    struct planfile file = {.device = 3,
            .entrance = ENTRANCE_SYNC,
            .all_streams = true,
            .quantum = 256,
            .area = 2048,
            .live = 1536,
            .count = 2,
            .block = block};
    struct planfile_error error;
    struct planfile *again;
    char *text = NULL;
    size_t length = 0;

    REQUIRE_EQ(planfile_write(&file, "of train.py\nstep 4", &text, &length, &error), 0);
    CHECK_STR_EQ(text,
            "kedge-plan 1\n# of train.py\n# step 4\ndevice 3\nentrance sync\nstreams all\nquantum "
            "256\n"
            "area 2048\nlive 1536\nblocks 2\n# size offset until site\n"
            "1024 512 2 ffffffffffffffff\n512 0 - 0\n");
    CHECK_EQ(length, strlen(text));
    again = parse(text, &error);
    REQUIRE(again != NULL);
    CHECK_EQ(again->entrance, ENTRANCE_SYNC);
    CHECK(again->all_streams);
    CHECK_EQ(again->block[0].until, 2u);
    CHECK_EQ(again->block[1].until, PLANNED_STAYS);
    planfile_free(again);
    free(text);
}

TEST(a_plan_that_would_be_refused_is_not_written)
{
    struct planned block[2] = {{1024, 512, 0, 2}, {512, 512, 0, PLANNED_STAYS}};
    struct planfile file = {.quantum = 512, .area = 2048, .count = 2, .block = block};
    struct planfile_error error;
    char *text = NULL;
    size_t length = 0;

    CHECK_EQ(planfile_write(&file, NULL, &text, &length, &error), -EINVAL);
    CHECK_STR_EQ(error.text, "plan: block 1 overlaps with block 0, which is live then");
    CHECK(text == NULL);
}

TEST(r54_a_plan_that_others_can_write_is_refused)
{
    char path[] = "/tmp/planfile_test_XXXXXX";
    static const char text[] = HEAD "512 0 1 0\n512 0 2 0\n512 0 3 0\n";
    struct planfile *file = NULL;
    struct planfile_error error;
    int fd = mkstemp(path);

    REQUIRE(fd >= 0);
    REQUIRE(write(fd, text, sizeof text - 1) == (ssize_t)sizeof text - 1);
    CHECK_EQ(planfile_read(path, &file, &error), 0);
    CHECK(file != NULL);
    planfile_free(file);
    REQUIRE(fchmod(fd, 0664) == 0);
    CHECK_EQ(planfile_read(path, &file, &error), -EPERM);
    CHECK(strstr(error.text, ": is writable by group or others") != NULL);
    (void)close(fd);
    (void)unlink(path);
    CHECK_EQ(planfile_read(path, &file, &error), -ENOENT);
    CHECK(strstr(error.text, ": no such file") != NULL);
}
