/* SPDX-License-Identifier: MIT */
/* apicalls.h - the numbers of the calls in apicalls.def. */
#ifndef KEDGE_TRACKER_APICALLS_H
#define KEDGE_TRACKER_APICALLS_H

enum apicall {
    APICALL_NONE,
#define APICALL(name, ...) APICALL_##name,
#include "tracker/hints/apicalls.def"
    APICALL_COUNT,
};

#define APICALL_BUFFERS 2

#endif
