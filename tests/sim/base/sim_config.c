/* SPDX-License-Identifier: MIT */
#include "tests/sim/base/sim_config.h"

#include "tests/sim/base/sim_faults.h"
#include "tests/sim/base/sim_park.h"
#include "tests/sim/driver/sim_attributes.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct sim_config sim_config = {
        .memory = (uint64_t)80 << 30,
        .capability = {8, 0},
        .sms = 108,
        .devices = 1,
        .seed = 1,
        .version = SIM_DRIVER_VERSION,
        .texture = 512,
        .granularity = SIM_GRANULE,
        .oracle = true,
        .managed = true,
        .alias = true,
        .handles_again = true,
        .values = (uint64_t)256 << 10,
};

bool sim_config_size(const char *text, uint64_t *ret_value)
{
    static const char units[] = "kmg";
    char *end;
    unsigned shift = 0;

    errno = 0;
    unsigned long long value = strtoull(text, &end, 0);
    if (errno || end == text || *text < '0' || *text > '9')
        return false;
    if (*end) {
        const char *unit = strchr(units, tolower((unsigned char)*end));
        if (!unit || (end[1] && strcmp(end + 1, "iB") != 0))
            return false;
        shift = 10 * (unsigned)(unit - units + 1);
    }
    if (value > UINT64_MAX >> shift)
        return false;
    *ret_value = (uint64_t)value << shift;
    return true;
}

void sim_config_refuse(const char *name, const char *value, const char *why)
{
    sim_say("%s=%s: %s", name, value, why);
    _exit(2);
}

static void read_number(
        const char *name, uint64_t low, uint64_t high, const char *accepted, uint64_t *value)
{
    const char *text = getenv(name);
    uint64_t number;

    if (!text || !*text)
        return;
    if (!sim_config_size(text, &number) || number < low || number > high)
        sim_config_refuse(name, text, accepted);
    *value = number;
}

/* Index of the variable's value among `words`, or `preset`. */
static int read_word(const char *name, const char *const *words, const char *accepted, int preset)
{
    const char *text = getenv(name);

    if (!text || !*text)
        return preset;
    for (int i = 0; words[i]; i++)
        if (strcmp(text, words[i]) == 0)
            return i;
    sim_config_refuse(name, text, accepted);
}

/* A name with a typing error would leave the default in force. */
static void check_names(void)
{
    static const char *const names[] = {"MEMORY", "DEVICES", "VERSION", "SCHED", "BANDWIDTH",
            "COMPUTE", "SEED", "LAG", "PATIENCE", "FAIL", "PARK", "LOG", "STATS", "STACKS", "COSTS",
            "ORACLE", "KERNELS", "FAULT", "TEXTURE", "MANAGED", "ALIAS", "STREAM_IDS", "HANDLES",
            "PHYSICAL", "GRANULARITY", "SHOWN", "CAPABILITY", "SMS", "PEAKS", "VALUES"};

    for (char **entry = environ; entry && *entry; entry++) {
        const char *name = *entry + strlen("SIMCUDA_");
        char shown[64];
        bool known = false;

        if (strncmp(*entry, "SIMCUDA_", strlen("SIMCUDA_")) != 0)
            continue;
        size_t length = strcspn(name, "=");
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !known; i++)
            known = strlen(names[i]) == length && memcmp(names[i], name, length) == 0;
        (void)snprintf(shown, sizeof(shown), "SIMCUDA_%.*s", (int)length, name);
        if (!known)
            sim_config_refuse(shown, name[length] ? name + length + 1 : "",
                    "the device has no such variable (tests/sim/README.md)");
    }
}

static void read_capability(void)
{
    const char *text = getenv("SIMCUDA_CAPABILITY");
    int major, minor, end = 0;

    if (!text || !*text)
        return;
    if (sscanf(text, "%2d.%1d%n", &major, &minor, &end) != 2 || text[end] // NOLINT(cert-err34-c)
            || !sim_attributes_know(major, minor))
        sim_config_refuse(
                "SIMCUDA_CAPABILITY", text, "7.0, 7.5, 8.0, 8.6, 8.9, 9.0, 10.0 or 12.0 expected");
    sim_config.capability[0] = major;
    sim_config.capability[1] = minor;
}

void sim_config_read(void)
{
    static const char *const schedules[] = {"eager", "lazy", "random", "timed", NULL};
    static const char *const switches[] = {"off", "on", NULL};
    static const char *const handles[] = {"new", "again", NULL};
    static const char *const kernels[] = {"listed", "any", NULL};
    static const char *const faults[] = {"sticky", "segv", NULL};
    static const char *const physical[] = {"memory", "file", NULL};
    static const char *const ids[] = {"process", "context", NULL};
    uint64_t devices = 1;
    uint64_t version = SIM_DRIVER_VERSION;

    check_names();
    read_number("SIMCUDA_MEMORY", SIM_GRANULE, (uint64_t)1 << 42,
            "a size of 2M to 4096G expected (K, M, G, KiB, MiB, GiB)", &sim_config.memory);
    sim_config.memory -= sim_config.memory % SIM_GRANULE;
    read_number("SIMCUDA_SHOWN", SIM_GRANULE, sim_config.memory,
            "a size of 2M to that of SIMCUDA_MEMORY expected", &sim_config.shown);
    read_number("SIMCUDA_SMS", 1, 1024, "a number of multiprocessors, 1 to 1024, expected",
            &sim_config.sms);
    read_capability();
    read_number(
            "SIMCUDA_DEVICES", 1, SIMCUDA_MAX_DEVICES, "a number from 1 to 16 expected", &devices);
    sim_config.devices = (int)devices;
    read_number("SIMCUDA_VERSION", 11080, SIM_DRIVER_VERSION + 999, "a version as 12040 expected",
            &version);
    sim_config.version = (int)version;
    read_number("SIMCUDA_SEED", 0, UINT64_MAX, "a number expected", &sim_config.seed);
    read_number("SIMCUDA_BANDWIDTH", 1, (uint64_t)1 << 50, "bytes a second, as 25G expected",
            &sim_config.bandwidth);
    read_number("SIMCUDA_COMPUTE", 1, (uint64_t)1 << 50, "bytes a second, as 1500G expected",
            &sim_config.compute);
    read_number("SIMCUDA_LAG", 0, 1000000, "a number of steps expected", &sim_config.lag);
    read_number("SIMCUDA_PATIENCE", 0, 600000, "a number of milliseconds expected",
            &sim_config.patience);
    read_number("SIMCUDA_TEXTURE", 1, SIM_GRANULE, "an alignment in bytes expected",
            &sim_config.texture);
    read_number("SIMCUDA_GRANULARITY", SIM_GRANULE, (uint64_t)1 << 30,
            "a power of two from 2M to 1G expected", &sim_config.granularity);
    if (sim_config.granularity & (sim_config.granularity - 1))
        sim_config_refuse("SIMCUDA_GRANULARITY", getenv("SIMCUDA_GRANULARITY"),
                "a power of two from 2M to 1G expected");
    sim_config.schedule = (enum sim_schedule)read_word("SIMCUDA_SCHED", schedules,
            "eager, lazy, random or timed expected", SIM_SCHEDULE_EAGER);
    sim_config.oracle = read_word("SIMCUDA_ORACLE", switches, "on or off expected", 1) == 1;
    sim_config.managed = read_word("SIMCUDA_MANAGED", switches, "on or off expected", 1) == 1;
    sim_config.handles_again =
            read_word("SIMCUDA_HANDLES", handles, "new or again expected", 1) == 1;
    sim_config.alias = read_word("SIMCUDA_ALIAS", switches, "on or off expected", 1) == 1;
    sim_config.any_kernel = read_word("SIMCUDA_KERNELS", kernels, "any or listed expected", 1) == 1;
    sim_config.fault_segv = read_word("SIMCUDA_FAULT", faults, "sticky or segv expected", 0) == 1;
    sim_config.own_ids =
            read_word("SIMCUDA_STREAM_IDS", ids, "process or context expected", 0) == 1;
    sim_config.physical_file =
            read_word("SIMCUDA_PHYSICAL", physical, "memory or file expected", 0) == 1;
    read_number("SIMCUDA_VALUES", 0, (uint64_t)1 << 40, "a number of elements expected, 0: none",
            &sim_config.values);
    sim_faults_read(getenv("SIMCUDA_FAIL"));
    sim_faults_read_costs(getenv("SIMCUDA_COSTS"));
    sim_park_read(getenv("SIMCUDA_PARK"));
}
