/* SPDX-License-Identifier: MIT */
/*
 * What a program asks of the library that is in it (kedge.h): its memory now, its capture, and who
 * holds a tensor. tools/python/kedge is written on these. Any thread but in a signal handler.
 */
#include "preload/base/guard.h"
#include "preload/base/kedge.h"
#include "preload/driver/life.h"
#include "preload/driver/resolve.h"
#include "preload/held/held.h"
#include "tracker/capture/capture.h"

#include <stddef.h>

#define EXPORTED __attribute__((visibility("default")))

EXPORTED const char *kedge_capture(void)
{
    resolve_note_export(EXPORT_kedge_capture);
    return life_is_wanted() && !life_is_child() ? capture_path() : NULL;
}

EXPORTED unsigned long long kedge_live(void)
{
    uint64_t peak;

    resolve_note_export(EXPORT_kedge_live);
    return capture_live_bytes(-1, &peak);
}

EXPORTED unsigned long long kedge_peak(int restart)
{
    uint64_t peak;

    resolve_note_export(EXPORT_kedge_peak);
    guard_push();
    peak = capture_recent_peak(restart != 0);
    guard_pop();
    return peak;
}

EXPORTED void *kedge_held(void *reference)
{
    resolve_note_export(EXPORT_kedge_held);
    return held_holders(reference);
}
