/* SPDX-License-Identifier: MIT */
#include "alloc/base/table.h"

#include "alloc/base/meta.h"

#include <errno.h>
#include <string.h>

enum {
    TABLE_FIRST = 16, /* records of the first allocation */
};

static int table_grow(struct table *table)
{
    struct table larger = {
            .room = table->room ? table->room * 2 : TABLE_FIRST, .count = table->count};

    if (!table->bytes)
        table->bytes = sizeof(struct table_pointer);
    larger.bytes = table->bytes;
    larger.records = meta_get((size_t)larger.room * larger.bytes);
    if (!larger.records)
        return -ENOMEM;
    for (const void *at = table_next(table, NULL); at; at = table_next(table, at))
        memcpy(table_place(&larger, table_key(at)), at, larger.bytes);
    table_clear(table);
    *table = larger;
    return 0;
}

void *table_add(struct table *table, uint64_t key)
{
    void *record = table_find(table, key);

    if (record || !key)
        return record;
    if (table->count + 1 > table->room / 4 * 3 && table_grow(table) != 0)
        return NULL;
    record = table_place(table, key);
    memset(record, 0, table->bytes);
    *(uint64_t *)record = key;
    table->count++;
    return record;
}

/* The next record from this byte on. */
static void *next_from(const struct table *table, size_t at)
{
    size_t end = (size_t)table->room * table->bytes;

    while (at < end && !table_key(table->records + at))
        at += table->bytes;
    return at < end ? table->records + at : NULL;
}

static size_t offset_of(const struct table *table, const void *record)
{
    return (size_t)((const char *)record - table->records);
}

void *table_next(const struct table *table, const void *record)
{
    return next_from(table, record ? offset_of(table, record) + table->bytes : 0);
}

void *table_remove(struct table *table, void *record)
{
    uint32_t mask = table->room - 1;
    size_t first;
    uint32_t hole;

    if (!record)
        return NULL;
    first = offset_of(table, record);
    hole = (uint32_t)(first / table->bytes);
    table->count--;
    for (uint32_t at = (hole + 1) & mask; table_key(table_at(table, at)); at = (at + 1) & mask) {
        uint32_t home = table_home(table, table_key(table_at(table, at)));

        /* It stays if its home is after the hole: a search still reaches it. */
        if (((at - home) & mask) < ((at - hole) & mask))
            continue;
        memcpy(table_at(table, hole), table_at(table, at), table->bytes);
        hole = at;
    }
    *(uint64_t *)table_at(table, hole) = 0;
    return next_from(table, first);
}

void table_clear(struct table *table)
{
    meta_put(table->records, (size_t)table->room * table->bytes);
    *table = (struct table){.bytes = table->bytes};
}

void *table_get(const struct table *table, uint64_t key)
{
    const struct table_pointer *found = table_find(table, key);

    return found ? found->to : NULL;
}

int table_put(struct table *table, uint64_t key, void *to)
{
    struct table_pointer *record = table_add(table, key);

    if (!record)
        return -ENOMEM;
    record->to = to;
    return 0;
}
