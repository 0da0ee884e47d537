/* SPDX-License-Identifier: MIT */
#include "preload/driver/reach.h"

#include "preload/base/guard.h"
#include "preload/driver/contexts.h"

#include <stdatomic.h>

static _Atomic(uint64_t) devices;           /* devices that have or had a context */
static _Atomic(uint64_t) ways[DEVICES_MAX]; /* per device: devices whose memory its work may use */
/* per device: devices that its contexts' work may run on */
static _Atomic(uint64_t) runs_on[DEVICES_MAX];

static bool reach_is_device(int device)
{
    return device >= 0 && device < DEVICES_MAX;
}

uint64_t reach_bit(int device)
{
    return reach_is_device(device) ? UINT64_C(1) << device : REACH_ALL;
}

void reach_context(int device)
{
    uint64_t bit = reach_bit(device);

    if (atomic_fetch_or(&devices, bit) & ~bit || bit == REACH_ALL)
        guard_set(GUARD_DEVICES);
}

static void reach_note(_Atomic(uint64_t) rows[static DEVICES_MAX], uint64_t from, uint64_t bits)
{
    for (int i = 0; i < DEVICES_MAX; i++)
        if (from >> i & 1)
            (void)atomic_fetch_or(&rows[i], bits);
}

void reach_add(int from, int to)
{
    reach_add_all(reach_bit(from), reach_bit(to));
}

void reach_add_all(uint64_t from, uint64_t to)
{
    reach_note(ways, from, to);
}

void reach_run(uint64_t from, uint64_t on)
{
    reach_note(runs_on, from, on);
}

uint64_t reach_of(int from)
{
    uint64_t on, to;

    if (!reach_is_device(from))
        return REACH_ALL;
    on = reach_bit(from) | atomic_load(&runs_on[from]);
    to = on;
    for (int i = 0; i < DEVICES_MAX; i++)
        if (on >> i & 1)
            to |= atomic_load(&ways[i]);
    return to;
}

bool reach_has(int from, int to)
{
    return !reach_is_device(to) || reach_of(from) >> to & 1;
}
