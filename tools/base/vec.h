/* SPDX-License-Identifier: MIT */
/*
 * vec.h - arrays that grow, and memory that is there or the command ends.
 *
 * The tools read whole captures into arrays of plain structs. A command that cannot get memory has
 * nothing left to do but say so: vec_* print one line and end the process with exit code 2. (The
 * libraries of this project never do that; this file is for the programs under tools/ only.)
 *
 *     struct item *items = NULL; size_t count = 0, room = 0;
 *     VEC_PUSH(items, count, room) = (struct item){...};
 *
 * Threads: none. Memory: malloc.
 */
#ifndef KEDGE_TOOLS_VEC_H
#define KEDGE_TOOLS_VEC_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Called by all of these when there is no memory. */
_Noreturn void vec_out_of_memory(void);

/* Room for at least `need` elements of `size` bytes; `*room` is updated. New bytes are zero. */
void *vec_grow(void *base, size_t need, size_t size, size_t *room);

/* Zeroed memory for `count` elements; never NULL. */
void *vec_new(size_t count, size_t size) __attribute__((returns_nonnull));

/* qsort, also for 0 elements, where `base` may be NULL. */
void vec_sort(void *base, size_t count, size_t size, int (*compare)(const void *, const void *));

/* A member that elements are sorted by: an unsigned number. */
struct vec_key {
    size_t offset, size;
    bool is_descending;
};

/* clang-format off */
#define VEC_UP(type_, member_)   {offsetof(type_, member_), sizeof(((type_ *)0)->member_), false}
#define VEC_DOWN(type_, member_) {offsetof(type_, member_), sizeof(((type_ *)0)->member_), true}
/* clang-format on */

/* Sorts by the first key; elements that are equal by it by the second, and so on. */
void vec_sort_by(
        void *base, size_t count, size_t size, const struct vec_key *keys, size_t key_count);

/* Lists of ascending numbers: those of list i are at[first[i]] up to at[first[i + 1]]. */
struct vec_lists {
    uint32_t *first, *at;
};

/* `count` numbers, each in the list of[number], below `lists`; UINT32_MAX: in none. */
struct vec_lists vec_lists_new(const uint32_t *of, size_t count, size_t lists);
void vec_lists_done(struct vec_lists *lists);

char *vec_text(const char *text);

/* printf into allocated memory. */
char *vec_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *vec_vformat(const char *format, va_list args) __attribute__((format(printf, 1, 0)));

/* A list of texts that it owns. {0} is empty. */
struct vec_texts {
    char **at;
    size_t count, room;
};

/* Takes ownership of `text`; returns it. */
char *vec_add_text(struct vec_texts *texts, char *text);

/* The same unless an equal text is in the list: then false, and `text` is freed. */
bool vec_add_once(struct vec_texts *texts, char *text);
void vec_free_texts(struct vec_texts *texts);

/* For vec_sort: uint64_t, uint32_t, ascending; elements that begin with a char *, by the text. */
int vec_by_number(const void *a, const void *b);
int vec_by_u32(const void *a, const void *b);
int vec_by_text(const void *a, const void *b);

/* For such functions: the order of two numbers, ascending; `then` if they are equal. */
static inline int vec_order(uint64_t a, uint64_t b, int then)
{
    return a < b ? -1 : a > b ? 1 : then;
}

/* The position in an ascending list of the first number above `limit`; `count`: there is none. */
size_t vec_first_above(const uint32_t *list, size_t count, uint32_t limit);

#define VEC_SORT(base_, count_, compare_) vec_sort((base_), (count_), sizeof(*(base_)), (compare_))

#define VEC_SORT_BY(base_, count_, keys_) \
    vec_sort_by((base_), (count_), sizeof(*(base_)), (keys_), sizeof(keys_) / sizeof(*(keys_)))

/* The next element of an array, as an lvalue. */
#define VEC_PUSH(base_, count_, room_) \
    (*((base_) = vec_grow((base_), (count_) + 1, sizeof(*(base_)), &(room_)), &(base_)[(count_)++]))

#endif
