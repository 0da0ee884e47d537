/* SPDX-License-Identifier: MIT */
#include "alloc/base/table.h"
#include "tracker/capture/capdefs.h"
#include "tracker/capture/caplive.h"
#include "tracker/capture/capstate.h"
#include "tracker/capture/capture.h"

static struct table known = {.bytes = sizeof(uint64_t)}; /* hashes of what is on record */
static uint64_t looks;                                   /* that have ended */

/* One word after the other, as FNV-1a does with bytes. */
static uint64_t capdata_mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static uint64_t capdata_hash(const struct format_def_data *def, const char *text, size_t length)
{
    uint64_t hash = capdata_mix(def->def.id, def->seq);

    hash = capdata_mix(hash, def->address);
    hash = capdata_mix(hash, def->size);
    hash = capdata_mix(hash, def->root);
    if (def->seq == 0 && def->address)
        hash = capdata_mix(hash, looks);
    for (size_t i = 0; i < length; i++)
        hash = capdata_mix(hash, (unsigned char)text[i]);
    return hash ? hash : 1;
}

static int capdata_put(struct format_def_data *def, const char *text, size_t length)
{
    def->time_ns = capstate_time();
    capstate_degraded(capdefs_put(&def->def, sizeof *def, text, length));
    return capstate_trouble();
}

int capture_data(enum format_data kind, uint32_t root, uint64_t addr, uint64_t size,
        const char *text, size_t length)
{
    struct format_def_data def = {
            .def = {.kind = FORMAT_DEF_DATA, .id = (uint32_t)kind},
            .address = addr,
            .size = size,
            .root = root,
    };
    uint64_t hash;
    int r;

    if (!capstate_begin(false, &r))
        return 0;
    def.seq = kind == FORMAT_DATA_ROOT ? 0 : caplive_seq(addr, size + FORMAT_DATA_SLACK);
    hash = capdata_hash(&def, text, length);
    if (table_find(&known, hash))
        return 0;
    if (known.count == FORMAT_DATA_MAX || !table_add(&known, hash))
        return 1;
    return capdata_put(&def, text, length);
}

int capture_data_end(uint64_t storages, uint32_t flags)
{
    struct format_def_data def = {
            .def = {.kind = FORMAT_DEF_DATA, .id = FORMAT_DATA_LOOK},
            .size = storages,
            .flags = flags,
    };
    int r;

    looks++;
    return capstate_begin(false, &r) ? capdata_put(&def, NULL, 0) : 0;
}
