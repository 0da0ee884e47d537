/* SPDX-License-Identifier: MIT */
#include "tools/base/vec.h"

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

struct vec_order {
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
    const struct vec_order *order = of_order;

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
    struct vec_order order = {keys, key_count};

    if (count)
        qsort_r(base, count, size, vec_by_keys, &order);
}

int vec_by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

int vec_by_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

int vec_by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
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
