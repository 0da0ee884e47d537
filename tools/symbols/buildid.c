/* SPDX-License-Identifier: MIT */
#include "tools/symbols/buildid.h"

#include <stdio.h>

void buildid_text(const uint8_t *bytes, size_t count, char ret_text[static BUILDID_TEXT_MAX])
{
    for (size_t i = 0; i < count; i++)
        (void)snprintf(ret_text + 2 * i, 3, "%02x", bytes[i]);
    ret_text[2 * count] = '\0';
}
