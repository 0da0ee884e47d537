/* SPDX-License-Identifier: MIT */
/*
 * pylayout.h - where the fields of an interpreter's structs are.
 *
 * One row for each of CPython 3.10 to 3.12, as their headers have them; from 3.13 on the interpreter publishes a table of
 * offsets at the start of _PyRuntime, and that is what counts. A version after 3.15 is read if its table is arranged as that
 * of 3.15 is and every offset lies in its struct. Any other version, a free-threaded build and an alpha or beta are refused in
 * words: a wrong offset would be a wrong stack, or worse.
 *
 * Pure: reads the version's text and the table, nothing else of the process. Any thread.
 */
#ifndef KEDGE_TRACKER_PYLAYOUT_H
#define KEDGE_TRACKER_PYLAYOUT_H

#include <stddef.h>
#include <stdint.h>

#define PYLAYOUT_NONE (-1)

/* What f_lasti, prev_instr or instr_ptr is. */
enum pylayout_ip {
    PYLAYOUT_IP_UNITS,   /* int: offset in instructions of two bytes */
    PYLAYOUT_IP_POINTER, /* into the code object */
};

/* Offsets in bytes; PYLAYOUT_NONE where a version has no such field. */
struct pylayout {
    unsigned minor; /* 3.minor whose rules it follows: 14 for later ones, which have the same */
    unsigned table; /* enum format_pytable: how code.lines is read */
    enum pylayout_ip ip;  /* what frame.ip is */
    int32_t thread_frame; /* of the thread state: the innermost frame, or */
    int32_t cframe_frame; /* what holds it at this offset */
    int32_t frame_code, frame_previous, frame_ip, frame_owner;
    uint32_t code_tags;  /* bits of what is at frame_code that are no part of the address */
    int32_t frame_entry; /* bool: the frame was entered from C, and there are no shims */
    int32_t code_filename, code_name, code_qualname, code_first, code_lines;
    int32_t code_bytecode;  /* of the first instruction, for PYLAYOUT_IP_POINTER */
    int32_t code_traceable; /* int: instructions before this one belong to the call itself */
    int32_t code_version; /* uint32: differs for each code object that was made; 0 = does not say */
    int32_t ascii_bytes, compact_bytes; /* heads of strings: pure ASCII; others in one piece */
    int32_t text_data;                  /* pointer to the characters of strings in two pieces */
};

/*
 * The layout of an interpreter that calls itself `version` ("3.11.2 (main, ...) [GCC]"). `runtime` is _PyRuntime (may
 * be NULL below 3.13, where it is not read) and `runtime_bytes` how much of it can be read. Returns 0, or -ENOTSUP with the reason in
 * *ret_why, a literal.
 */
int pylayout_choose(const char *version, const void *runtime, size_t runtime_bytes,
        struct pylayout *ret_layout, const char **ret_why);

#endif
