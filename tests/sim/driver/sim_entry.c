/* SPDX-License-Identifier: MIT */
/*
 * The door: start, versions, names of errors, and the look-up of entry points.
 *
 * entries.def is the table (name, CUDA version, per-thread flag) -> symbol for what is
 * implemented here; the look-up takes the newest form that is not newer than asked for.
 * cuGetExportTable is refused: what stands behind it is a private matter of NVIDIA's.
 */
#include "tests/sim/base/sim_core.h"

#include <string.h>

CUresult cuInit(unsigned int flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_NOTHING);

    if (r == 0 && flags)
        r = CUDA_ERROR_INVALID_VALUE;
    return sim_leave(&call, r);
}

CUresult cuDriverGetVersion(int *ret_version)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_NOTHING);

    if (r == 0 && !ret_version)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_version = sim_config.version;
    return sim_leave(&call, r);
}

/* ---- errors ---- */

static const char *error_name(CUresult error)
{
    switch (error) {
#define ROW(name, value) \
    case name:           \
        return #name;
        CUDA_ABI_RESULTS(ROW)
#undef ROW
    }
    return NULL;
}

CUresult cuGetErrorName(CUresult error, const char **ret_name)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_NOTHING);

    if (r == 0 && !ret_name)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0) {
        *ret_name = error_name(error);
        r = *ret_name ? 0 : CUDA_ERROR_INVALID_VALUE;
    }
    return sim_leave(&call, r);
}

/* The commonest in words; all others say their name. */
static const char *error_text(CUresult error)
{
    static const struct {
        CUresult error;
        const char *text;
    } texts[] = {
            {CUDA_SUCCESS, "no error"},
            {CUDA_ERROR_INVALID_VALUE, "invalid argument"},
            {CUDA_ERROR_OUT_OF_MEMORY, "out of memory"},
            {CUDA_ERROR_NOT_INITIALIZED, "initialization error"},
            {CUDA_ERROR_INVALID_CONTEXT, "invalid device context"},
            {CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"},
            {CUDA_ERROR_NOT_FOUND, "named symbol not found"},
            {CUDA_ERROR_NOT_READY, "device not ready"},
            {CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"},
            {CUDA_ERROR_NOT_PERMITTED, "operation not permitted"},
            {CUDA_ERROR_NOT_SUPPORTED, "operation not supported"},
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (texts[i].error == error)
            return texts[i].text;
    return error_name(error);
}

CUresult cuGetErrorString(CUresult error, const char **ret_text)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_NOTHING);

    if (r == 0 && !ret_text)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0) {
        *ret_text = error_text(error);
        r = *ret_text ? 0 : CUDA_ERROR_INVALID_VALUE;
    }
    return sim_leave(&call, r);
}

/* ---- the look-up ---- */

struct entry {
    const char *name;
    int version;
    bool per_thread;
    const char *symbol;
    void (*address)(void);
};

static const struct entry entries[] = {
#define ENTRY(name, version, per_thread, symbol) \
    {#name, version, per_thread, #symbol, (void (*)(void))symbol},
#include "tests/sim/base/entries.def"
#undef ENTRY
};

/* The newest form of `name` of that kind for `version`; *ret_newer if there are newer ones only. */
static const struct entry *find_entry(
        const char *name, int version, bool per_thread, bool *ret_newer)
{
    const struct entry *best = NULL;

    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        const struct entry *entry = &entries[i];
        if (entry->per_thread != per_thread || entry->version > sim_config.version
                || strcmp(entry->name, name) != 0)
            continue;
        if (entry->version > version)
            *ret_newer = true;
        else if (!best || entry->version > best->version)
            best = entry;
    }
    return best;
}

static int look_up(const char *name, void **ret_address, int version, cuuint64_t flags,
        CUdriverProcAddressQueryResult *ret_status)
{
    const struct entry *found = NULL;
    bool newer = false;

    if (!name || !ret_address || version > SIM_DRIVER_VERSION + 999
            || flags
                    & ~(cuuint64_t)(CU_GET_PROC_ADDRESS_LEGACY_STREAM
                            | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM))
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        found = find_entry(name, version, true, &newer);
    if (!found)
        found = find_entry(name, version, false, &newer);
    *ret_address = NULL;
    if (found)
        memcpy(ret_address, &found->address, sizeof(*ret_address));
    if (ret_status)
        *ret_status = found ? CU_GET_PROC_ADDRESS_SUCCESS
                : newer     ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                            : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return found ? 0 : CUDA_ERROR_NOT_FOUND;
}

/* 11.3: a name that is not found is an error. */
CUresult cuGetProcAddress(const char *name, void **ret_address, int version, cuuint64_t flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_NOTHING);

    if (r == 0)
        r = look_up(name, ret_address, version, flags, NULL);
    sim_note(&call, " name=%s version=%d flags=%llu", name ? name : "(null)", version,
            (unsigned long long)flags);
    return sim_leave(&call, r);
}

/* 12.0: the status says whether it was found; the call succeeds either way. */
CUresult cuGetProcAddress_v2(const char *name, void **ret_address, int version, cuuint64_t flags,
        CUdriverProcAddressQueryResult *ret_status)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_NOTHING);

    if (r == 0)
        r = look_up(name, ret_address, version, flags, ret_status);
    if (r == CUDA_ERROR_NOT_FOUND)
        r = CUDA_SUCCESS;
    sim_note(&call, " name=%s version=%d flags=%llu", name ? name : "(null)", version,
            (unsigned long long)flags);
    return sim_leave(&call, r);
}

CUresult cuGetExportTable(const void **ret_table, const CUuuid *id)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_NOTHING);

    if (r == 0 && (!ret_table || !id))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0) {
        const unsigned char *b = (const unsigned char *)id->bytes;
        *ret_table = NULL;
        sim_note(&call, " id=%02x%02x%02x%02x refused", b[3], b[2], b[1], b[0]);
        r = CUDA_ERROR_NOT_FOUND;
    }
    return sim_leave(&call, r);
}

/* ---- profiler: nothing listens ---- */

CUresult cuProfilerInitialize(const char *config, const char *output, CUoutput_mode mode)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_NOTHING);

    (void)config;
    (void)output;
    (void)mode;
    return sim_leave(&call, r ? r : CUDA_ERROR_PROFILER_DISABLED);
}

CUresult cuProfilerStart(void)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    return sim_leave(&call, r);
}

CUresult cuProfilerStop(void)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    return sim_leave(&call, r);
}
