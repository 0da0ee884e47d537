/* SPDX-License-Identifier: MIT */
#include "tools/base/vec.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void vec_out_of_memory(void)
{
    fputs("kedge: out of memory\n", stderr);
    exit(2);
}

void *vec_grow(void *base, size_t need, size_t size, size_t *room)
{
    if (need <= *room)
        return base;

    size_t more = *room ? *room * 2 : 16;
    if (more < need)
        more = need;
    /* calloc's pages take no memory before they are written */
    void *moved = base ? reallocarray(base, more, size) : calloc(more, size);
    if (!moved)
        vec_out_of_memory();
    if (base)
        memset((char *)moved + *room * size, 0, (more - *room) * size);
    *room = more;
    return moved;
}

void *vec_new(size_t count, size_t size)
{
    void *base = calloc(count ? count : 1, size);
    if (!base)
        vec_out_of_memory();
    return base;
}

void vec_sort(void *base, size_t count, size_t size, int (*compare)(const void *, const void *))
{
    if (count)
        qsort(base, count, size, compare);
}

struct vec_sorting {
    const struct vec_key *keys;
    size_t count;
};

static uint64_t vec_value(const char *element, const struct vec_key *key)
{
    uint64_t value = 0;

    memcpy(&value, element + key->offset, key->size); /* little endian */
    return value;
}

static int vec_by_keys(const void *a, const void *b, void *of_order)
{
    const struct vec_sorting *order = of_order;

    for (size_t i = 0; i < order->count; i++) {
        uint64_t x = vec_value(a, &order->keys[i]);
        uint64_t y = vec_value(b, &order->keys[i]);
        if (x != y)
            return (x < y) == order->keys[i].is_descending ? 1 : -1;
    }
    return 0;
}

void vec_sort_by(
        void *base, size_t count, size_t size, const struct vec_key *keys, size_t key_count)
{
    struct vec_sorting order = {keys, key_count};

    if (count)
        qsort_r(base, count, size, vec_by_keys, &order);
}

int vec_by_number(const void *a, const void *b)
{
    return vec_order(*(const uint64_t *)a, *(const uint64_t *)b, 0);
}

int vec_by_u32(const void *a, const void *b)
{
    return vec_order(*(const uint32_t *)a, *(const uint32_t *)b, 0);
}

int vec_by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

size_t vec_first_above(const uint32_t *list, size_t count, uint32_t limit)
{
    size_t low = 0;

    while (low < count) {
        size_t middle = low + (count - low) / 2;
        if (list[middle] <= limit)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

/* Counted two slots further on: filling moves each start to its place. */
struct vec_lists vec_lists_new(const uint32_t *of, size_t count, size_t lists)
{
    struct vec_lists out = {
            .first = vec_new(lists + 2, sizeof(uint32_t)), .at = vec_new(count, sizeof(uint32_t))};

    for (size_t i = 0; i < count; i++)
        if (of[i] != UINT32_MAX)
            out.first[of[i] + 2]++;
    for (size_t i = 2; i < lists + 2; i++)
        out.first[i] += out.first[i - 1];
    for (size_t i = 0; i < count; i++)
        if (of[i] != UINT32_MAX)
            out.at[out.first[of[i] + 1]++] = (uint32_t)i;
    return out;
}

void vec_lists_done(struct vec_lists *lists)
{
    free(lists->first);
    free(lists->at);
}

char *vec_text(const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        vec_out_of_memory();
    return copy;
}

char *vec_vformat(const char *format, va_list args)
{
    char *text = NULL;

    if (vasprintf(&text, format, args) < 0)
        vec_out_of_memory();
    return text;
}

char *vec_format(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    char *text = vec_vformat(format, args);
    va_end(args);
    return text;
}

char *vec_add_text(struct vec_texts *texts, char *text)
{
    VEC_PUSH(texts->at, texts->count, texts->room) = text;
    return text;
}

bool vec_add_once(struct vec_texts *texts, char *text)
{
    for (size_t i = 0; i < texts->count; i++) {
        if (strcmp(texts->at[i], text) == 0) {
            free(text);
            return false;
        }
    }
    (void)vec_add_text(texts, text);
    return true;
}

void vec_free_texts(struct vec_texts *texts)
{
    for (size_t i = 0; i < texts->count; i++)
        free(texts->at[i]);
    free((void *)texts->at);
    *texts = (struct vec_texts){0};
}
