/* SPDX-License-Identifier: MIT */
/*
 * rankjob.h - compares the ranks of one job: the rank that stands out, and the reason.
 *
 *     ranksum per capture of a folder ─► one capture per rank ─► spread of peaks ─► worst rank
 *                                                             └► spread of each anchor, outliers
 *
 * The worst rank is the one with the highest peak; if only some ranks ran out of memory, the
 * highest of those. It is compared with the median rank: the one in the middle of all peaks, of an
 * even number the lower of the two, so that the differences of the call sites add up to the
 * difference of the two peaks. Of a rank with several captures the one with the highest peak
 * counts.
 *
 * Prints nothing. Threads: none. Memory: vec.h; points into the array of summaries.
 */
#ifndef KEDGE_TOOLS_RANKJOB_H
#define KEDGE_TOOLS_RANKJOB_H

#include "tools/ranks/ranksum.h"

/* A figure over the ranks that have it. */
struct rankjob_spread {
    size_t ranks; /* 0: the other members are unset */
    uint64_t min, median, max;
    const struct ranksum *least, *middle, *most; /* of equals the first */
};

struct rankjob_site {
    uint32_t stack; /* in the book */
    uint64_t bytes,
            median_bytes; /* of the worst rank and of the median rank, at the maximum of each */
};

struct rankjob_anchor {
    uint32_t path; /* in the book */
    struct rankjob_spread peak, left;
    /*
     * Farthest from the median by its peak or, if all peaks are alike, by the bytes left. NULL: all
     * are alike
     */
    const struct ranksum *outlier;
    uint64_t away; /* by so many bytes, */
    bool is_below; /* below or above */
    bool by_left;
};

/* Ranks without a capture. */
struct rankjob_gap {
    uint64_t first, last;
};

/* The capture that represents a rank. */
struct rankjob_rank {
    const struct ranksum *sum;
};

/* A rank with several captures. */
struct rankjob_twins {
    const struct ranksum *first;
    size_t count;
    bool is_restart; /* each began after the one before it had ended */
    bool has_hosts;  /* they are from several hosts */
};

struct rankjob {
    const struct ranksum *sums; /* owned by the caller: captures of one folder, by rank */
    size_t count;
    size_t unread; /* captures of the folder without a summary, counted by the caller */
    struct rankjob_rank *ranks; /* one per rank, of those that can be compared */
    size_t rank_count;
    size_t damaged, partial; /* captures: not compared; without all of their anchors */
    size_t untraced;         /* of the latter, those that KEDGE_TRACE could have kept whole */
    struct rankjob_spread peak;
    const struct ranksum *worst; /* NULL: none stands out */
    struct rankjob_site *sites;  /* sites where `worst` holds more than peak.middle, most first */
    size_t site_count;
    uint64_t less; /* bytes that it holds less at all other sites together */
    /* farthest outlier first, those by peaks before those by bytes left */
    struct rankjob_anchor *anchors;
    size_t anchor_count;
    struct rankjob_gap *gaps;
    size_t gap_count;
    struct rankjob_twins *twins;
    size_t twins_count;
};

/* `sums` are sorted by ranksum_by_rank. */
void rankjob_compare(const struct ranksum *sums, size_t count, size_t unread,
        const struct ranksum_book *book, struct rankjob *ret_job);
void rankjob_done(struct rankjob *job);

/* No capture of the folder is damaged or unread. */
bool rankjob_is_complete(const struct rankjob *job);

/* "rank 3", or the file's name if there is no rank; the caller frees it. */
char *rankjob_name(const struct ranksum *sum);

#endif
