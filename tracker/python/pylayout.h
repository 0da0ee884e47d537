/* SPDX-License-Identifier: MIT */
/*
 * pylayout.h - the offsets of fields in an interpreter's structs.
 *
 * One row for each of CPython 3.10 to 3.12, from their headers; from 3.13 on the interpreter
 * publishes a table of offsets at the start of _PyRuntime, which has priority. A version after 3.15
 * is supported if its table is arranged like that of 3.15 and every offset lies in its struct. Any
 * other version, a free-threaded build and an alpha or beta are refused with a reason: a wrong
 * offset would give a wrong stack, or worse.
 *
 * Pure: reads the version's text and the table, nothing else of the process. Any thread.
 */
#ifndef KEDGE_TRACKER_PYLAYOUT_H
#define KEDGE_TRACKER_PYLAYOUT_H

#include <stddef.h>
#include <stdint.h>

#define PYLAYOUT_NONE (-1)

/* The form of f_lasti, prev_instr or instr_ptr. */
enum pylayout_ip {
    PYLAYOUT_IP_UNITS,   /* int: offset in instructions of two bytes */
    PYLAYOUT_IP_POINTER, /* into the code object */
};

/* Offsets in bytes; PYLAYOUT_NONE where a version has no such field. */
struct pylayout {
    unsigned minor;       /* 3.minor whose rules it follows: 14 for later ones, too */
    unsigned table;       /* enum format_pytable: the encoding of code.lines */
    enum pylayout_ip ip;  /* the form of frame.ip */
    int32_t thread_frame; /* of the thread state: the innermost frame, or */
    int32_t cframe_frame; /* of the object that holds it at this offset */
    int32_t frame_code, frame_previous, frame_ip, frame_owner;
    uint32_t code_tags;  /* bits at frame_code that are not part of the address */
    int32_t frame_entry; /* bool: the frame was entered from C, and there are no shims */
    int32_t code_filename, code_name, code_qualname, code_first, code_lines;
    int32_t code_bytecode;  /* of the first instruction, for PYLAYOUT_IP_POINTER */
    int32_t code_traceable; /* int: instructions before this one belong to the call itself */
    int32_t code_version;   /* uint32: unique for each code object; 0 = unknown */
    int32_t ascii_bytes, compact_bytes; /* sizes of string heads: pure ASCII; others in one piece */
    int32_t text_data;                  /* pointer to the characters of strings in two pieces */
};

/* Chooses the layout of an interpreter with this `version` text ("3.11.2 (main, ...) [GCC]").
 * `runtime` is _PyRuntime (may be NULL below 3.13, where it is not read), of which `runtime_bytes`
 * are readable. Returns 0, or -ENOTSUP with the reason in *ret_why, a literal. */
int pylayout_choose(const char *version, const void *runtime, size_t runtime_bytes,
        struct pylayout *ret_layout, const char **ret_why);

#endif
