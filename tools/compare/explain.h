/* SPDX-License-Identifier: MIT */
/*
 * explain.h - why the peaks of two runs differ, to the byte.
 *
 * Of the run with the higher peak the moment of its peak is compared with the same place of the
 * other run, `there`: the moment at which that has made the partners (explain_pairs.h) of what the
 * higher run has made, as nearly as possible; of such moments the one at which the live partners
 * differ by the fewest bytes; of these the one with the most live.
 *
 *     peak bad - peak good  =  (live bad at its peak - live good there)      block by block, below
 *                            - (peak good - live good there)                 order
 *
 *     good  ──[ x ─┐x ── y ──]── ... ── there ──      there: y
 *     bad   ──[ x ────── y ──]── ... ── peak ───      peak: x, y. The x is late, or kept
 *
 * and the same the other way round where good has the higher peak, so that bad compared with good
 * has the same causes with the other sign.
 *
 * A block that is live at only one of the two moments has the first of these causes that holds;
 * blocks of good count as negative:
 *
 *     order    its partner is not yet made at the other moment
 *     kept     it lives beyond its anchor and the last allocation, and its partner does not
 *     order    what the other run makes after the partner's free is here made before the block
 *     late     else: its partner was freed earlier
 *
 * If both of a pair are live, their difference in size is "larger".
 *
 * What the lower run has at its own peak instead of there is "kept" if it lives to the end and its
 * partner does not, else "order". But first it makes up for blocks without a partner at the same
 * row (call site or Python stack), since a run of more steps has its peak where the other one has
 * no such place. Blocks without a partner are added up by row, and the difference of the two sums
 * is
 *
 *     kept     as far as one run has more that live beyond its last allocation, unless the other
 *              run keeps all that it makes there
 *     lone     if the other run never allocates there
 *     larger   if both have as many
 *     more     if the run that has more allocates more often there
 *     late     as far as it holds more than the other run ever does there
 *     order    else
 *
 * The sum of all causes and `rest` is the difference. If events are missing, the same rules apply
 * to what each place held at its device's peak (struct read_place), where no block has a partner.
 * `rest` is then what no place holds: it is not 0 if the table of places was full, or if there
 * are several devices, whose peaks are at different moments.
 *
 * Prints nothing. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_EXPLAIN_H
#define KEDGE_TOOLS_EXPLAIN_H

#include "tools/compare/compare.h"
#include "tools/compare/compare_groups.h"
#include "tools/load/load.h"

enum explain_cause {
    EXPLAIN_KEPT,
    EXPLAIN_LATE,
    EXPLAIN_LARGER,
    EXPLAIN_MORE,
    EXPLAIN_LONE,
    EXPLAIN_ORDER,
    EXPLAIN_CAUSES,
};

/* Of bad, less those of good. */
struct explain_sum {
    int64_t bytes, count;
};

/* The blocks of a row in one run. */
struct explain_side {
    uint64_t made, kept;              /* in all: blocks */
    uint64_t most;                    /* bytes at one moment; of places the most that is known */
    struct trace_sum there, own_peak; /* live at the compared moment, and at the run's own peak */
    struct trace_sum at_peak;         /* there, without a partner */
    struct trace_sum kept_at_peak;
};

struct explain_row {
    uint32_t stack; /* of bad; of good if bad never allocates there */
    bool is_good;
    struct explain_side good, bad;
    struct explain_sum cause[EXPLAIN_CAUSES];
};

struct explain {
    int64_t difference; /* of the peaks */
    int64_t rest;       /* that no cause explains */
    struct explain_sum cause[EXPLAIN_CAUSES];
    int64_t elsewhere;        /* of EXPLAIN_ORDER: the lower peak is not `there` */
    bool is_lower;            /* bad has the lower peak: `there` is in bad, else in good */
    uint32_t good_at, bad_at; /* events that reached the peaks; TRACE_NEVER: not known */
    uint32_t there;           /* an event; TRACE_NEVER: not known */
    uint64_t there_bytes;     /* live there */
    struct explain_row *rows;
    size_t row_count, row_room;
};

/* Peak live, in bytes, of each run. */
struct explain_peaks {
    uint64_t good, bad;
};

/* From all events of the windows; `compare` is of the same sides. explain_done frees *ret. */
void explain_by_events(const struct compare_side *good, const struct compare_side *bad,
        const struct compare *compare, struct explain_peaks peaks, enum compare_groups_by by,
        struct explain *ret);

/* From the places of both runs. explain_done frees *ret. */
void explain_by_places(const struct load *good, const struct load *bad, struct explain_peaks peaks,
        enum compare_groups_by by, struct explain *ret);

void explain_done(struct explain *explain);

#endif
