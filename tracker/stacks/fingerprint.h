/* SPDX-License-Identifier: MIT */
/*
 * fingerprint.h - identifies a loaded object that has no build-id.
 *
 * A hash of bytes that the loader maps and never writes: each read-only segment whole up to 64 KiB,
 * beyond that 16 pages of it, evenly spaced, and the beginning of the table of functions
 * (.eh_frame_hdr). Equal in memory and in the file, from run to run; a rebuild changes it, unless
 * the object is large and only code outside the samples changed. An object with text relocations
 * has none (0): the loader writes run addresses into its code.
 *
 * Reads through a function of the caller: the program's memory (modules.c), or a file
 * (readbuild.c). No malloc. Any thread.
 */
#ifndef KEDGE_TRACKER_FINGERPRINT_H
#define KEDGE_TRACKER_FINGERPRINT_H

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FINGERPRINT_READ_MAX 4096u /* bytes of one read */

struct fingerprint_source {
    const ElfW(Phdr) * segment;
    unsigned count;
    /* Copies bytes at an ELF address; false: they do not exist. */
    bool (*read)(void *data, uint64_t address, void *to, size_t bytes);
    void *data;
};

uint64_t fingerprint_take(const struct fingerprint_source *source);

/* The identity in the capture and in site keys. */
uint64_t fingerprint_identity(const char *path, uint64_t fingerprint);

/* Does a loaded, readable segment contain the wanted one's content? */
bool fingerprint_is_loaded(const ElfW(Phdr) * segment, unsigned count, const ElfW(Phdr) * wanted);

#endif
