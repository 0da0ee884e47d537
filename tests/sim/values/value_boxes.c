/* SPDX-License-Identifier: MIT */
/*
 * torchvision's suppression of boxes that overlap: for each box, which have lower scores, a bit for each box behind it that
 * overlaps it too much, in words of 64; then, box by box, whether it is kept.
 */
#include "tests/sim/values/value_launch.h"

#include <math.h>
#include <stdlib.h>

#define BITS 64

static void read_box(struct value_launch *l, uint64_t addr, enum value_type type, double *ret_box)
{
    for (unsigned i = 0; i < 4; i++)
        ret_box[i] = value_load(l, addr + i * value_size(type), type).f;
}

static double area(const double *box)
{
    return (box[2] - box[0]) * (box[3] - box[1]);
}

static double overlap(const double *a, const double *b)
{
    double width = fmax(fmin(a[2], b[2]) - fmax(a[0], b[0]), 0);
    double height = fmax(fmin(a[3], b[3]) - fmax(a[1], b[1]), 0);

    return width * height / (area(a) + area(b) - width * height);
}

/* (boxes' number, threshold, boxes, result) */
bool value_body_overlaps(struct value_launch *l)
{
    struct text list;
    enum value_type type = template_list(l->name, "nms_kernel_impl", &list)
            ? value_type_named(nth_item(list, 0))
            : VALUE_NONE;
    uint64_t count = (uint64_t)value_param_i64(l, 0), words = (count + BITS - 1) / BITS;
    float threshold = (float)value_read(VALUE_F64, value_param(l, 1, 0, 8)).f;
    double(*boxes)[4];

    if (type == VALUE_NONE || !value_affords(l, count, count / 8 + 5))
        return false;
    boxes = sim_new((count + 1) * sizeof(*boxes));
    for (uint64_t i = 0; i < count; i++)
        read_box(l, value_param_u64(l, 2, 0) + i * 4 * value_size(type), type, boxes[i]);
    for (uint64_t i = 0; i < count; i++)
        for (uint64_t w = i / BITS; w < words; w++) {
            uint64_t bits = 0;

            for (uint64_t k = w * BITS; k < (w + 1) * BITS && k < count; k++)
                if (k > i && (float)overlap(boxes[i], boxes[k]) > threshold)
                    bits |= (uint64_t)1 << (k % BITS);
            value_put(l, value_param_u64(l, 3, 0) + (i * words + w) * 8, 8, &bits);
        }
    free(boxes);
    return true;
}

/* (result, bits, boxes' number) */
bool value_body_kept_boxes(struct value_launch *l)
{
    uint64_t count = (uint64_t)value_param_i64(l, 2), words = (count + BITS - 1) / BITS;
    uint64_t *removed;

    if (!value_affords(l, count, words + 1))
        return false;
    removed = sim_new((words + 1) * sizeof(*removed));
    for (uint64_t i = 0; i < count && !l->has_failed; i++) {
        bool is_kept = (removed[i / BITS] >> (i % BITS) & 1) == 0;

        for (uint64_t w = i / BITS; w < words && is_kept; w++)
            removed[w] |= (uint64_t)value_load(
                    l, value_param_u64(l, 1, 0) + (i * words + w) * 8, VALUE_U64)
                                  .i;
        value_store(l, value_param_u64(l, 0, 0) + i, VALUE_BOOL, value_of_integer(is_kept));
    }
    free(removed);
    return true;
}
