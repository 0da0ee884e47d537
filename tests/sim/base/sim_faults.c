/* SPDX-License-Identifier: MIT */
#include "tests/sim/base/sim_faults.h"

#include "tests/sim/base/sim_config.h"
#include "tests/sim/base/sim_time.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_LENGTH 64
#define TABLE_SIZE      2048 /* more than the driver has functions */

/* One row per symbol and one per plain name, found by hash. */
struct row {
    char name[NAME_MAX_LENGTH];
    uint64_t calls;
    uint64_t cost_ns;
};

struct fault {
    char name[NAME_MAX_LENGTH];
    uint64_t at;
    bool onwards;
    bool sticky;
    CUresult code;
};

/* oom:size:k */
struct shortage {
    uint64_t above;
    uint64_t until; /* 0: for good */
    uint64_t freed;
    bool met; /* something was refused */
};

static struct row table[TABLE_SIZE]; /* guarded by the lock of sim_core.c */
static struct fault faults[64];      /* fixed after reading */
static unsigned faults_count;
static struct shortage shortages[8]; /* guarded by the lock of sim_core.c */
static unsigned shortages_count;

/* cuMemAlloc_v2 and cuMemAllocAsync_ptsz without their tails. */
static void plain_name(const char *name, char *ret_plain)
{
    size_t length = strnlen(name, NAME_MAX_LENGTH - 1);

    memcpy(ret_plain, name, length);
    ret_plain[length] = '\0';
    char *tail = strrchr(ret_plain, '_');
    if (tail && (strcmp(tail, "_ptsz") == 0 || strcmp(tail, "_ptds") == 0))
        *tail = '\0';
    tail = strrchr(ret_plain, '_');
    if (tail && tail[1] == 'v' && tail[2] >= '0' && tail[2] <= '9')
        *tail = '\0';
}

static struct row *find_row(const char *name)
{
    uint32_t hash = 2166136261U;

    for (const char *c = name; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619U;
    for (unsigned i = 0; i < TABLE_SIZE; i++) {
        struct row *row = &table[(hash + i) % TABLE_SIZE];
        if (row->name[0] == '\0')
            snprintf(row->name, sizeof(row->name), "%s", name);
        if (strcmp(row->name, name) == 0)
            return row;
    }
    return &table[0]; /* cannot be: the table is larger than the driver */
}

bool sim_faults_is(const char *name, const char *call)
{
    char plain[NAME_MAX_LENGTH];

    plain_name(name, plain);
    return strcmp(call, "*") == 0 || strcmp(name, call) == 0 || strcmp(plain, call) == 0;
}

/* The code for the `number`-th call that goes by `name`. */
static CUresult injected(const char *name, uint64_t number, bool *ret_sticky)
{
    for (unsigned i = 0; i < faults_count; i++) {
        const struct fault *fault = &faults[i];
        if (strcmp(fault->name, name) != 0)
            continue;
        if (number == fault->at || (fault->onwards && number > fault->at)) {
            *ret_sticky = fault->sticky;
            return fault->code;
        }
    }
    return CUDA_SUCCESS;
}

/* What the calling thread asked for. */
static CUresult asked_for(const char *name)
{
    struct sim_thread *me = sim_self();

    if (!me->fail_call[0] || !sim_faults_is(name, me->fail_call))
        return CUDA_SUCCESS;
    me->fail_hits++;
    if (me->fail_left && --me->fail_left == 0)
        me->fail_call[0] = '\0';
    return me->fail_code;
}

void simcuda_fail_next(const char *call, unsigned times, CUresult code)
{
    struct sim_thread *me = sim_self();

    snprintf(me->fail_call, sizeof(me->fail_call), "%s", call);
    me->fail_left = times;
    me->fail_code = code;
    me->fail_hits = 0;
}

unsigned simcuda_fail_clear(void)
{
    struct sim_thread *me = sim_self();

    me->fail_call[0] = '\0';
    return me->fail_hits;
}

CUresult sim_faults_count(const char *name, bool *ret_sticky)
{
    char plain[NAME_MAX_LENGTH];
    struct row *row = find_row(name);
    CUresult code;

    plain_name(name, plain);
    row->calls++;
    sim_stats.calls++;
    uint64_t cost = row->cost_ns;
    code = injected("*", sim_stats.calls, ret_sticky);
    if (code == CUDA_SUCCESS)
        code = injected(name, row->calls, ret_sticky);
    if (strcmp(plain, name) != 0) {
        row = find_row(plain);
        row->calls++;
        cost = cost ? cost : row->cost_ns;
        if (code == CUDA_SUCCESS)
            code = injected(plain, row->calls, ret_sticky);
    }
    sim_stats.cost_ns += cost;
    sim_time_charge(cost);
    return code ? code : asked_for(name);
}

bool sim_faults_short(uint64_t held)
{
    bool refused = false;

    for (unsigned i = 0; i < shortages_count; i++) {
        struct shortage *shortage = &shortages[i];
        if (held <= shortage->above || (shortage->until && shortage->freed >= shortage->until))
            continue;
        shortage->met = true;
        refused = true;
    }
    return refused;
}

void sim_faults_freed(void)
{
    for (unsigned i = 0; i < shortages_count; i++)
        if (shortages[i].met)
            shortages[i].freed++;
}

uint64_t sim_faults_calls(const char *name)
{
    return find_row(name)->calls;
}

void sim_faults_each(void (*put)(const char *name, uint64_t calls))
{
    char plain[NAME_MAX_LENGTH];

    for (unsigned i = 0; i < TABLE_SIZE; i++) {
        if (table[i].calls == 0)
            continue;
        plain_name(table[i].name, plain);
        if (strcmp(plain, table[i].name) == 0)
            put(plain, table[i].calls);
    }
}

static bool read_code(const char *text, CUresult *ret_code)
{
    static const struct {
        const char *name;
        CUresult code;
    } names[] = {
#define ROW(name, value) {#name, (CUresult)(value)},
            CUDA_ABI_RESULTS(ROW)
#undef ROW
    };
    char *end;
    unsigned long number = strtoul(text, &end, 10);

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(text, names[i].name) == 0
                || (end != text && *end == '\0' && number == (unsigned long)names[i].code)) {
            *ret_code = names[i].code;
            return *ret_code != CUDA_SUCCESS;
        }
    }
    return false;
}

static bool read_fault(char *item, struct fault *ret_fault)
{
    static const char sticky[] = "sticky=";
    char *number = strchr(item, ':');
    char *code = number ? strchr(number + 1, ':') : NULL;
    char *end;

    if (!code || number == item || number - item >= NAME_MAX_LENGTH)
        return false;
    *number++ = '\0';
    *code++ = '\0';
    snprintf(ret_fault->name, sizeof(ret_fault->name), "%s", item);
    ret_fault->at = strtoull(number, &end, 10);
    ret_fault->onwards = *end == '+';
    if (ret_fault->onwards)
        end++;
    ret_fault->sticky = strncmp(code, sticky, strlen(sticky)) == 0;
    if (ret_fault->sticky)
        code += strlen(sticky);
    return end != number && *end == '\0' && ret_fault->at > 0 && read_code(code, &ret_fault->code);
}

static bool read_shortage(char *item, struct shortage *ret_shortage)
{
    char *until = strchr(item, ':');
    char *end = NULL;

    *ret_shortage = (struct shortage){0};
    if (until) {
        *until++ = '\0';
        ret_shortage->until = strtoull(until, &end, 10);
        if (end == until || *end != '\0' || ret_shortage->until == 0)
            return false;
    }
    return sim_config_size(item, &ret_shortage->above);
}

static void take_item(char *item)
{
    char shown[128];
    bool known;

    snprintf(shown, sizeof(shown), "%s", item);
    if (strncmp(item, "oom:", 4) == 0) {
        if (shortages_count == sizeof(shortages) / sizeof(shortages[0]))
            sim_config_refuse("SIMCUDA_FAIL", shown, "more than 8 shortages");
        known = read_shortage(item + 4, &shortages[shortages_count]);
        shortages_count += known;
    } else {
        if (faults_count == sizeof(faults) / sizeof(faults[0]))
            sim_config_refuse("SIMCUDA_FAIL", shown, "more than 64 faults");
        known = read_fault(item, &faults[faults_count]);
        faults_count += known;
    }
    if (!known)
        sim_config_refuse("SIMCUDA_FAIL", shown, "call:n:code or oom:size:k expected");
}

void sim_faults_read(const char *list)
{
    char *copy, *save = NULL;

    if (!list || !*list)
        return;
    copy = strdup(list);
    if (!copy)
        return;
    for (char *item = strtok_r(copy, ",", &save); item; item = strtok_r(NULL, ",", &save))
        take_item(item);
    free(copy);
}

static const char *cost_name(const char *op)
{
    static const char *const names[][2] = {
            {"mem_create", "cuMemCreate"},
            {"mem_map", "cuMemMap"},
            {"set_access", "cuMemSetAccess"},
            {"mem_unmap", "cuMemUnmap"},
            {"mem_release", "cuMemRelease"},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(op, names[i][0]) == 0)
            return names[i][1];
    return strncmp(op, "cu", 2) == 0 ? op : NULL;
}

void sim_faults_read_costs(const char *path)
{
    char line[256];
    FILE *file;

    if (!path || !*path)
        return;
    file = fopen(path, "re");
    if (!file)
        sim_config_refuse("SIMCUDA_COSTS", path, strerror(errno));
    while (fgets(line, sizeof(line), file)) {
        char *comma = strchr(line, ',');
        char *end;
        if (!comma)
            continue;
        *comma = '\0';
        double us = strtod(comma + 1, &end);
        const char *name = cost_name(line);
        if (name && end != comma + 1 && us >= 0 && us < 1e9)
            find_row(name)->cost_ns = (uint64_t)(us * 1000.0);
    }
    (void)fclose(file);
}
