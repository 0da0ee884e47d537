/* SPDX-License-Identifier: MIT */
#include "tracker/capture/caprecord.h"

#include "tracker/capture/capstate.h"
#include "tracker/capture/capture.h"
#include "tracker/format/formatsum.h"

#include <stdatomic.h>
#include <string.h>

static struct capfile *record_file;
static _Atomic uint32_t records;

void caprecord_init(struct capfile *file)
{
    record_file = file;
    atomic_store(&records, 0);
}

static int caprecord_put(const struct format_record *what, const void *bytes)
{
    struct format_record *record;
    void *base = NULL;
    int cancel = capfile_begin();
    int r = capfile_grow(record_file, FORMAT_EXTENT_RECORD, sizeof *what + what->bytes, &base);

    capfile_end(cancel);
    if (r < 0)
        return r;
    record = base;
    *record = *what;
    memcpy(record + 1, bytes, what->bytes);
    /* release: a reader that sees the sum sees the rest */
    __atomic_store_n(&record->sum, formatsum_record(what, bytes), __ATOMIC_RELEASE);
    return 0;
}

int capture_record(const struct format_record *what, const void *bytes, size_t length)
{
    struct format_record record = *what;
    int r;

    if (!capstate_begin(false, &r) || atomic_fetch_add(&records, 1) >= FORMAT_RECORDS_MAX)
        return 0;
    record.sum = 0;
    record.bytes = length;
    record.time_ns = capstate_time();
    capstate_degraded(caprecord_put(&record, bytes));
    return capstate_trouble();
}
