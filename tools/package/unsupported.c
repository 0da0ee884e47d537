/* SPDX-License-Identifier: MIT */
/*
 * A function inside libarchive, for the wheel. In libarchive.a it lies beside the table of all
 * formats that can be written, and with it come libxml2 and nettle. `kedge bundle` writes regular
 * files into tar alone, and never calls it.
 */
#include <errno.h>

struct archive;
struct archive_entry;
void archive_set_error(struct archive *archive, int error, const char *format, ...);
void __archive_write_entry_filetype_unsupported(
        struct archive *archive, struct archive_entry *entry, const char *format);
void __archive_write_entry_filetype_unsupported(
        struct archive *archive, struct archive_entry *entry, const char *format)
{
    (void)entry;
    archive_set_error(archive, EINVAL, "%s: regular files only", format);
}
