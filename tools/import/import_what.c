/* SPDX-License-Identifier: MIT */
/*
 * Recognises files that kedge import cannot read: a packed snapshot, one in another form, another
 * tool's file.
 */
#include "tools/import/import.h"

#include <string.h>

#include "tools/base/cmdexit.h"
#include "tools/base/rowtrace.h"
#include "tracker/format/format.h"

#define DUMP \
    "a snapshot of PyTorch is imported as the pickle that torch.cuda.memory._dump_snapshot writes"
#define OLD_PICKLE                                                                     \
    "a pickle of protocol 0 or 1, protocols 2 to 5 are read: write the snapshot with " \
    "pickle.dump(snapshot, file)"

static const struct {
    const char *magic;
    size_t length;
    const char *what;
} boxes[] = {
        {"\x1f\x8b", 2, "it is compressed: unpack it with gunzip first"},
        {"\xfd"
         "7zXZ",
                5, "it is compressed: unpack it with unxz first"},
        {"\x28\xb5\x2f\xfd", 4, "it is compressed: unpack it with unzstd first"},
        {"BZh", 3, "it is compressed: unpack it with bunzip2 first"},
        {"PK\x03\x04", 4, "it is a zip archive, as torch.save writes one: " DUMP},
        {"SQLite format 3", 15, "it is a database of SQLite, which is not read"},
        {FORMAT_MAGIC, 8, "it is a capture of kedge: every command reads it as it is"},
        {"(dp", 3, OLD_PICKLE},
        {"(lp", 3, OLD_PICKLE},
        {"}q", 2, OLD_PICKLE},
        {"]q", 2, OLD_PICKLE},
};

const char *import_what(const unsigned char *head, size_t length, bool *ret_is_sure)
{
    const char *text = (const char *)head;
    size_t at = 0;

    *ret_is_sure = true;
    if (length == 0)
        return "it is empty";
    for (size_t i = 0; i < CMD_COUNT(boxes); i++)
        if (length >= boxes[i].length && memcmp(head, boxes[i].magic, boxes[i].length) == 0)
            return boxes[i].what;
    *ret_is_sure = false;
    while (at < length && strchr(" \t\r\n", text[at]) && text[at])
        at++;
    if (at < length && (text[at] == '{' || text[at] == '['))
        return "it looks like JSON, which is not read: " DUMP;
    if (memchr(head, '\0', length) == NULL && rowtrace_is_rmm(text))
        return "rows of RMM without their first line (" ROWTRACE_RMM_HEAD
               ") are read with --from rmm";
    return NULL;
}
