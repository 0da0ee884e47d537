/* SPDX-License-Identifier: MIT */
#include "tests/sim/sim_config.h"

#include "tests/sim/sim_faults.h"
#include "tests/sim/sim_park.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sim_config sim_config = {
        .memory = (uint64_t)80 << 30,
        .devices = 1,
        .seed = 1,
        .version = SIM_DRIVER_VERSION,
        .oracle = true,
};

bool sim_config_size(const char *text, uint64_t *ret_value)
{
    char *end;
    uint64_t unit = 1;

    errno = 0;
    unsigned long long value = strtoull(text, &end, 0);
    if (errno || end == text || text[0] == '-')
        return false;
    switch (*end) {
    case 'K':
    case 'k':
        unit = (uint64_t)1 << 10;
        end++;
        break;
    case 'M':
    case 'm':
        unit = (uint64_t)1 << 20;
        end++;
        break;
    case 'G':
    case 'g':
        unit = (uint64_t)1 << 30;
        end++;
        break;
    default:
        break;
    }
    if (*end != '\0' || value > UINT64_MAX / unit)
        return false;
    *ret_value = value * unit;
    return true;
}

static void complain(const char *name, const char *value, const char *accepted)
{
    sim_say("%s=%s: %s expected, using the default", name, value, accepted);
}

static void read_number(
        const char *name, uint64_t low, uint64_t high, const char *accepted, uint64_t *value)
{
    const char *text = getenv(name);
    uint64_t number;

    if (!text || !*text)
        return;
    if (sim_config_size(text, &number) && number >= low && number <= high)
        *value = number;
    else
        complain(name, text, accepted);
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
    complain(name, text, accepted);
    return preset;
}

void sim_config_read(void)
{
    static const char *const schedules[] = {"eager", "lazy", "random", "timed", NULL};
    static const char *const switches[] = {"off", "on", NULL};
    static const char *const kernels[] = {"listed", "any", NULL};
    static const char *const faults[] = {"sticky", "segv", NULL};
    uint64_t devices = 1;
    uint64_t version = SIM_DRIVER_VERSION;

    read_number("SIMCUDA_MEMORY", SIM_GRANULE, (uint64_t)1 << 42,
            "a size of 2M to 4096G with a suffix K, M or G", &sim_config.memory);
    sim_config.memory -= sim_config.memory % SIM_GRANULE;
    read_number("SIMCUDA_DEVICES", 1, SIMCUDA_MAX_DEVICES, "a number from 1 to 16", &devices);
    sim_config.devices = (int)devices;
    read_number("SIMCUDA_VERSION", 11080, SIM_DRIVER_VERSION, "a version as 12040", &version);
    sim_config.version = (int)version;
    read_number("SIMCUDA_SEED", 0, UINT64_MAX, "a number", &sim_config.seed);
    read_number("SIMCUDA_BANDWIDTH", 1, (uint64_t)1 << 50, "bytes a second, as 25G",
            &sim_config.bandwidth);
    read_number("SIMCUDA_COMPUTE", 1, (uint64_t)1 << 50, "bytes a second, as 1500G",
            &sim_config.compute);
    read_number("SIMCUDA_LAG", 0, 1000000, "a number of steps", &sim_config.lag);
    read_number("SIMCUDA_PATIENCE", 0, 600000, "a number of milliseconds", &sim_config.patience);
    sim_config.schedule = (enum sim_schedule)read_word(
            "SIMCUDA_SCHED", schedules, "eager, lazy, random or timed", SIM_SCHEDULE_EAGER);
    sim_config.oracle = read_word("SIMCUDA_ORACLE", switches, "on or off", 1) == 1;
    sim_config.any_kernel = read_word("SIMCUDA_KERNELS", kernels, "any or listed", 1) == 1;
    sim_config.fault_segv = read_word("SIMCUDA_FAULT", faults, "sticky or segv", 0) == 1;
    sim_faults_read(getenv("SIMCUDA_FAIL"));
    sim_faults_read_costs(getenv("SIMCUDA_COSTS"));
    sim_park_read(getenv("SIMCUDA_PARK"));
}
