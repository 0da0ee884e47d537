/* SPDX-License-Identifier: MIT */
/*
 * formatsum.h - checksums by which a reader of a capture detects damage; FORMAT.md describes them.
 *
 * A sum is stored with the value that publishes its data, or before it: a killed process leaves
 * either an unpublished record or one with a correct sum. So a wrong sum is damage, never a kill.
 * Sums detect accidents (overwritten bytes, blocks that a disk has lost), not forgery.
 *
 * Inline, since the writer computes two of them for each allocation.
 * Threads: pure functions.
 */
#ifndef KEDGE_TRACKER_FORMATSUM_H
#define KEDGE_TRACKER_FORMATSUM_H

#include "tracker/format/format.h"

#include <stddef.h>
#include <string.h>

#define FORMATSUM_FACTOR UINT64_C(0x9e3779b97f4a7c15) /* odd */

/* Adds one word. Any change of one word changes the sum: both steps are invertible. */
static inline uint64_t formatsum_word(uint64_t sum, uint64_t word)
{
    sum = (sum ^ word) * FORMATSUM_FACTOR;
    return sum ^ sum >> 32;
}

/* Adds words of 8 bytes; the last one is padded with zeroes. */
static inline uint64_t formatsum_bytes(uint64_t sum, const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    uint64_t word;

    for (; length >= sizeof word; length -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        sum = formatsum_word(sum, word);
    }
    if (length > 0) {
        word = 0;
        memcpy(&word, at, length);
        sum = formatsum_word(sum, word);
    }
    return sum;
}

/* As formatsum_bytes, if 8 bytes are readable from the beginning of the last word. */
static inline uint64_t formatsum_open(uint64_t sum, const unsigned char *at, size_t length)
{
    uint64_t word;

    for (; length >= sizeof word; length -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        sum = formatsum_word(sum, word);
    }
    if (length == 0)
        return sum;
    memcpy(&word, at, sizeof word);
    return formatsum_word(sum, word & ((UINT64_C(1) << 8 * length) - 1));
}

/* Sum of the constant fields of the header. */
static inline uint64_t formatsum_header(const struct format_header *header)
{
    uint64_t sum = formatsum_bytes(0, &header->version, 2 * sizeof(uint32_t));

    sum = formatsum_bytes(sum, &header->trace, 3 * sizeof(uint32_t));
    sum = formatsum_bytes(sum, &header->start_real_ns, 2 * sizeof(uint64_t));
    sum = formatsum_bytes(sum, header->exe, sizeof header->exe);
    sum = formatsum_bytes(sum, header->cmdline, sizeof header->cmdline);
    sum = formatsum_bytes(sum, &header->cmdline_bytes, 2 * sizeof(uint32_t));
    sum = formatsum_bytes(sum, header->host, sizeof header->host);
    sum = formatsum_bytes(sum, header->rank, sizeof header->rank);
    sum = formatsum_bytes(sum, header->program, sizeof header->program);
    sum = formatsum_bytes(sum, &header->class_count, sizeof header->class_count);
    /* Captures of earlier writers have no `run`, and a sum without it. */
    return header->run[0] ? formatsum_bytes(sum, header->run, sizeof header->run) : sum;
}

/* The seal: sum of the header except the seal itself. Calls with unknown arguments are counted by
 * threads that otherwise do not write the capture; they are covered if `loose_sum` is set, which is
 * computed after the process has ended. Never 0. */
static inline uint64_t formatsum_seal(const struct format_header *header)
{
    const size_t behind = offsetof(struct format_header, seal) + sizeof header->seal;
    const size_t unseen = offsetof(struct format_header, unseen);
    const size_t rest = unseen + sizeof header->unseen;
    uint64_t sum = formatsum_bytes(0, header, offsetof(struct format_header, seal));

    sum = formatsum_bytes(sum, (const char *)header + behind, unseen - behind);
    if (header->loose_sum != 0)
        sum = formatsum_bytes(sum, &header->unseen, sizeof header->unseen);
    sum = formatsum_bytes(sum, (const char *)header + rest, sizeof *header - rest);
    return sum ? sum : 1;
}

static inline uint32_t formatsum_extent(const struct format_extent *extent)
{
    uint64_t sum = formatsum_word(formatsum_word(0, extent->offset), extent->length);

    return (uint32_t)(formatsum_word(sum, extent->kind) >> 32);
}

/* Sum of the fields that stay constant during the block's life: all except `hint`, `rule` and the
 * uses. */
static inline uint64_t formatsum_live(const struct format_live *slot)
{
    uint64_t sum = formatsum_word(0, slot->state);

    sum = formatsum_word(sum, slot->addr);
    sum = formatsum_word(sum, slot->size);
    sum = formatsum_word(sum, slot->stream);
    sum = formatsum_word(sum, slot->time_ns);
    sum = formatsum_word(sum, (uint64_t)slot->path << 32 | slot->stack);
    sum = formatsum_word(sum, (uint64_t)slot->nth << 32 | slot->instance);
    return formatsum_word(sum,
            (uint64_t)slot->pystack << 32 | (uint32_t)slot->flags << 16 | (uint16_t)slot->device);
}

/* Sum of a place except itself and `changing`: the sum over all words i of the word times
 * FORMATSUM_FACTOR to the power i + 1. So the writer, which changes two or four words for each
 * allocation and free, adds only the changes; and any change of one word changes the sum. */
static inline uint64_t formatsum_place(const struct format_place *place)
{
    const unsigned char *at = (const unsigned char *)place;
    uint64_t factor = 1;
    uint64_t sum = 0;
    uint64_t word;

    for (size_t i = 0; i < offsetof(struct format_place, sum); i += sizeof word) {
        memcpy(&word, at + i, sizeof word);
        factor *= FORMATSUM_FACTOR;
        sum += word * factor;
    }
    return sum;
}

/* The change of a place's sum when the figure at offset `at` grows by `by`. For a constant offset
 * the factor is constant, too. */
static inline __attribute__((always_inline)) uint64_t formatsum_growth(size_t at, uint64_t by)
{
    const uint64_t square = FORMATSUM_FACTOR * FORMATSUM_FACTOR;
    const uint64_t fourth = square * square;
    size_t power = at / sizeof(uint64_t) + 1;

    by *= power & 1 ? FORMATSUM_FACTOR : 1;
    by *= power & 2 ? square : 1;
    by *= power & 4 ? fourth : 1;
    return by * (power & 8 ? fourth * fourth : 1);
}

/* Sums of data without sums of their own, since they change while the program runs: the hint and
 * the uses of live slots, and places that were being changed. These are added to FORMATSUM_FACTOR,
 * in any order, for each published record. */
static inline uint64_t formatsum_loose_live(const struct format_live *slot)
{
    const size_t from = offsetof(struct format_live, device);

    return formatsum_bytes(formatsum_word(0, slot->state), (const char *)slot + from,
            offsetof(struct format_live, sum) - from);
}

static inline uint64_t formatsum_loose_place(const struct format_place *place)
{
    return place->changing ? formatsum_bytes(0, place, sizeof *place) : 0;
}

static inline uint64_t formatsum_oom(const struct format_oom *oom)
{
    return formatsum_bytes(0, oom, offsetof(struct format_oom, sum));
}

/* Never 0. */
static inline uint64_t formatsum_record(const struct format_record *record, const void *bytes)
{
    const size_t from = offsetof(struct format_record, bytes);
    uint64_t sum = formatsum_bytes(0, (const char *)record + from, sizeof *record - from);

    sum = formatsum_bytes(sum, bytes, record->bytes);
    return sum ? sum : 1;
}

/* The first word of a definition: its kind, and in the upper bits the sum of the kind and the rest
 * of the record. */
static inline uint32_t formatsum_def(uint32_t kind, const struct format_def *def)
{
    uint64_t sum = formatsum_bytes(kind, &def->bytes, def->bytes - sizeof def->kind);

    return (uint32_t)(sum >> 40) << FORMAT_DEF_KIND_BITS | kind;
}

/* Sum of an empty chunk; formatsum_bytes adds each record. The upper half is stored with the
 * length. */
static inline uint64_t formatsum_chunk(uint64_t number)
{
    return formatsum_word(0, number);
}

static inline uint64_t formatsum_used(uint32_t used, uint64_t sum)
{
    return (sum & ~UINT64_C(0xffffffff)) | used;
}

#endif
