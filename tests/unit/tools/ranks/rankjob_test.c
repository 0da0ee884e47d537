/* SPDX-License-Identifier: MIT */
/* covers: rankjob.c vec.c ranksum.c */
#include "tests/check.h"

#include "tools/ranks/rankjob.h"

#define MOST 8

/* Ranks by hand: all of one folder, in their order. */
static struct ranksum sums[MOST];
static struct ranksum_book book;

static void begin(void)
{
    memset(sums, 0, sizeof(sums));
    book = ranksum_book_new();
}

static void set(unsigned at, const char *rank, uint64_t peak)
{
    sums[at].path = vec_format("job/%u", at);
    sums[at].folder_length = 4;
    sums[at].rank = vec_text(rank);
    sums[at].host = vec_text("host");
    sums[at].end = vec_text("");
    sums[at].is_complete = true;
    sums[at].peak_live = peak;
    sums[at].start_ns = sums[at].last_ns = at;
}

static void set_sites(unsigned at, const struct ranksum_site *sites, size_t count)
{
    sums[at].sites = vec_new(count, sizeof(*sites));
    sums[at].site_count = count;
    memcpy(sums[at].sites, sites, count * sizeof(*sites));
}

static void set_anchors(unsigned at, const struct ranksum_anchor *anchors, size_t count)
{
    sums[at].anchors = vec_new(count, sizeof(*anchors));
    sums[at].anchor_count = count;
    memcpy(sums[at].anchors, anchors, count * sizeof(*anchors));
}

static struct rankjob compare(size_t count)
{
    struct rankjob job;

    rankjob_compare(sums, count, 0, &book, &job);
    return job;
}

static void end(struct rankjob *job)
{
    rankjob_done(job);
    for (unsigned i = 0; i < MOST; i++)
        ranksum_done(&sums[i]);
    ranksum_book_done(&book);
}

TEST(the_highest_peak_is_the_worst_and_the_lower_middle_is_the_median)
{
    begin();
    set(0, "0", 50);
    set(1, "1", 10);
    set(2, "2", 90);
    set(3, "3", 20);
    struct rankjob job = compare(4);

    CHECK(job.worst == &sums[2]);
    CHECK_EQ(job.peak.min, 10);
    CHECK_EQ(job.peak.median, 20); /* 10 20 50 90 */
    CHECK(job.peak.middle == &sums[3]);
    CHECK_EQ(job.peak.max, 90);
    CHECK_EQ(job.peak.ranks, 4);
    end(&job);
}

TEST(of_equal_peaks_the_first_rank_stands_for_all)
{
    begin();
    for (unsigned i = 0; i < 5; i++)
        set(i, (const char *[]){"0", "1", "2", "3", "4"}[i], i == 4 ? 60 : 70);
    struct rankjob job = compare(5);

    CHECK(job.worst == NULL);
    CHECK(job.peak.middle == &sums[0]);
    CHECK(job.peak.most == &sums[0]);
    CHECK(job.peak.least == &sums[4]);
    end(&job);
}

TEST(a_rank_that_ran_out_of_memory_is_the_worst_unless_all_did)
{
    begin();
    set(0, "0", 90);
    set(1, "1", 30);
    set(2, "2", 40);
    set(3, "3", 80);
    sums[1].has_failed = sums[2].has_failed = true;
    struct rankjob job = compare(4);
    CHECK(job.worst == &sums[2]);
    rankjob_done(&job);

    sums[0].has_failed = sums[3].has_failed = true;
    job = compare(4);
    CHECK(job.worst == &sums[0]);
    end(&job);
}

TEST(sites_add_up_to_the_difference_of_the_peaks)
{
    begin();
    set(0, "0", 60);
    set(1, "1", 100);
    set(2, "2", 55);
    set_sites(0, (struct ranksum_site[]){{1, 20}, {3, 10}, {4, 30}}, 3);
    set_sites(1, (struct ranksum_site[]){{2, 25}, {3, 40}, {4, 30}, {7, 5}}, 4);
    struct rankjob job = compare(3);

    REQUIRE(job.worst == &sums[1] && job.peak.middle == &sums[0]);
    REQUIRE_EQ(job.site_count, 3);
    CHECK_EQ(job.sites[0].stack, 3); /* 30 more */
    CHECK_EQ(job.sites[0].median_bytes, 10);
    CHECK_EQ(job.sites[1].stack, 2);
    CHECK_EQ(job.sites[1].bytes, 25);
    CHECK_EQ(job.sites[2].stack, 7);
    CHECK_EQ(job.less, 20); /* at site 1 */
    end(&job);
}

TEST(of_a_rank_with_several_captures_the_highest_counts)
{
    begin();
    set(0, "0", 10);
    set(1, "0", 70);
    set(2, "1", 20);
    set(3, "1", 15);
    set(4, "", 30);
    set(5, "", 40);
    sums[3].start_ns = sums[2].last_ns - 1; /* its twin was still running */
    sums[3].host[0] = 'b';
    struct rankjob job = compare(6);

    CHECK_EQ(job.rank_count, 4);
    CHECK(job.worst == &sums[1]);
    REQUIRE_EQ(job.twins_count, 2);
    CHECK(job.twins[0].first == &sums[0] && job.twins[0].is_restart && !job.twins[0].has_hosts);
    CHECK(job.twins[1].count == 2 && job.twins[1].has_hosts);
    end(&job);
}

TEST(twins_that_overlap_are_no_restart)
{
    begin();
    set(0, "0", 10);
    set(1, "0", 70);
    sums[0].last_ns = 5;
    sums[1].start_ns = 4;
    struct rankjob job = compare(2);

    REQUIRE_EQ(job.twins_count, 1);
    CHECK(!job.twins[0].is_restart);
    end(&job);
}

TEST(holes_in_the_numbers_are_ranges)
{
    begin();
    set(0, "1", 10);
    set(1, "2", 10);
    set(2, "7", 10);
    set(3, "9", 10);
    set(4, "4000000000", 10);
    set(5, "a", 10); /* no number */
    struct rankjob job = compare(6);

    REQUIRE_EQ(job.gap_count, 4);
    CHECK(job.gaps[0].first == 0 && job.gaps[0].last == 0);
    CHECK(job.gaps[1].first == 3 && job.gaps[1].last == 6);
    CHECK(job.gaps[2].first == 8 && job.gaps[2].last == 8);
    CHECK(job.gaps[3].first == 10 && job.gaps[3].last == 3999999999);
    end(&job);
}

TEST(damaged_captures_are_counted_and_not_compared)
{
    begin();
    set(0, "0", 10);
    set(1, "1", 20);
    set(2, "2", UINT64_MAX);
    sums[2].is_complete = false;
    sums[1].lacks_anchors = true;
    struct rankjob job = compare(3);

    CHECK_EQ(job.damaged, 1);
    CHECK_EQ(job.partial, 1);
    CHECK_EQ(job.peak.ranks, 2);
    CHECK_EQ(job.gap_count, 0); /* there is a capture of rank 2 */
    CHECK(!rankjob_is_complete(&job));
    CHECK(job.worst == &sums[1]);
    end(&job);
}

TEST(anchors_have_the_rank_that_is_farthest_from_the_median)
{
    begin();
    (void)vec_add_text(&book.paths, vec_text("far below"));
    (void)vec_add_text(&book.paths, vec_text("leaves more"));
    (void)vec_add_text(&book.paths, vec_text("alike"));
    (void)vec_add_text(&book.paths, vec_text("of one rank"));
    for (unsigned i = 0; i < 3; i++)
        set(i, (const char *[]){"0", "1", "2"}[i], 100);
    set_anchors(0, (struct ranksum_anchor[]){{0, 1, 50, 0}, {1, 1, 9, 3}, {2, 1, 8, 1}}, 3);
    set_anchors(1,
            (struct ranksum_anchor[]){{0, 1, 10, 0}, {1, 1, 9, 7}, {2, 1, 8, 1}, {3, 1, 6, 0}}, 4);
    set_anchors(2, (struct ranksum_anchor[]){{0, 1, 55, 0}, {1, 1, 9, 4}, {2, 1, 8, 1}}, 3);
    struct rankjob job = compare(3);

    REQUIRE_EQ(job.anchor_count, 4);
    CHECK_EQ(job.anchors[0].path, 0);
    CHECK(job.anchors[0].outlier == &sums[1] && job.anchors[0].is_below);
    CHECK_EQ(job.anchors[0].away, 40);
    CHECK_EQ(job.anchors[1].path, 1);
    CHECK(job.anchors[1].outlier == &sums[1] && job.anchors[1].by_left && !job.anchors[1].is_below);
    CHECK_EQ(job.anchors[1].away, 3);
    CHECK_EQ(job.anchors[2].path, 2);
    CHECK(job.anchors[2].outlier == NULL);
    CHECK_EQ(job.anchors[3].path, 3);
    CHECK_EQ(job.anchors[3].peak.ranks, 1);
    end(&job);
}
