/* SPDX-License-Identifier: MIT */
/*
 * pyknown.h - the layouts of pylayout.h that are known in advance, as constants.
 *
 * In a header so that pyframe.c can be compiled once for each of them: a field's offset is then in
 * the instruction and not in memory. For pylayout.c and pyframe.c only. From the interpreters' own
 * headers; compared with running interpreters (tests/python).
 */
#ifndef KEDGE_TRACKER_PYKNOWN_H
#define KEDGE_TRACKER_PYKNOWN_H

#include "tracker/format/format.h"
#include "tracker/python/pylayout.h"

static const struct pylayout pylayout_10 = {
        .minor = 10,
        .table = FORMAT_PYTABLE_LINETABLE,
        .ip = PYLAYOUT_IP_UNITS,
        .thread_frame = 24,
        .cframe_frame = PYLAYOUT_NONE,
        .frame_code = 32,
        .frame_previous = 24,
        .frame_ip = 96,
        .frame_owner = PYLAYOUT_NONE,
        .frame_entry = PYLAYOUT_NONE,
        .code_filename = 104,
        .code_name = 112,
        .code_qualname = PYLAYOUT_NONE,
        .code_first = 40,
        .code_lines = 120,
        .code_bytecode = PYLAYOUT_NONE,
        .code_traceable = PYLAYOUT_NONE,
        .code_version = PYLAYOUT_NONE,
        .ascii_bytes = 48,
        .compact_bytes = 72,
        .text_data = 72,
};

static const struct pylayout pylayout_11 = {
        .minor = 11,
        .table = FORMAT_PYTABLE_LOCATIONS,
        .ip = PYLAYOUT_IP_POINTER,
        .thread_frame = 56,
        .cframe_frame = 8,
        .frame_code = 32,
        .frame_previous = 48,
        .frame_ip = 56,
        .frame_owner = 69,
        .frame_entry = 68,
        .code_filename = 112,
        .code_name = 120,
        .code_qualname = 128,
        .code_first = 72,
        .code_lines = 136,
        .code_bytecode = 184,
        .code_traceable = 168,
        .code_version = PYLAYOUT_NONE,
        .ascii_bytes = 48,
        .compact_bytes = 72,
        .text_data = 72,
};

/* Fields that are the same from 3.12 on. */
#define PYKNOWN_SINCE_12                                                                     \
    .table = FORMAT_PYTABLE_LOCATIONS, .ip = PYLAYOUT_IP_POINTER, .frame_code = 0,           \
    .frame_previous = 8, .frame_ip = 56, .frame_entry = PYLAYOUT_NONE, .code_filename = 112, \
    .code_name = 120, .code_qualname = 128, .code_first = 68, .code_lines = 136,             \
    .code_version = 92, .ascii_bytes = 40, .compact_bytes = 56, .text_data = 56

static const struct pylayout pylayout_12 = {
        PYKNOWN_SINCE_12,
        .minor = 12,
        .thread_frame = 56,
        .cframe_frame = 0,
        .frame_owner = 70,
        .code_bytecode = 192,
        .code_traceable = 176,
};

/* Published by every 3.13 seen, by 3.14.10 and by 3.15.2. The table has priority; fields that it
 * lacks (the two last fields of code objects, the heads of non-ASCII strings, tags) come from here,
 * those two fields only if the code objects match. */
static const struct pylayout pylayout_13 = {
        PYKNOWN_SINCE_12,
        .minor = 13,
        .thread_frame = 72,
        .cframe_frame = PYLAYOUT_NONE,
        .frame_owner = 70,
        .code_bytecode = 200,
        .code_traceable = 184,
};

static const struct pylayout pylayout_14 = {
        PYKNOWN_SINCE_12,
        .minor = 14,
        .thread_frame = 72,
        .cframe_frame = PYLAYOUT_NONE,
        .code_tags = 3, /* of a _PyStackRef */
        .frame_owner = 74,
        .code_bytecode = 208,
        .code_traceable = 192,
};

static const struct pylayout *const pylayout_known[] = {&pylayout_10, &pylayout_11, &pylayout_12};

#endif
