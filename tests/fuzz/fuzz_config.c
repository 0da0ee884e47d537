/* SPDX-License-Identifier: MIT */
/*
 * fuzz_config - environments, one variable a line, read as the library reads its own (R53). Whatever the bytes, the values
 * that come out are texts that end, and keys that are there.
 */
#include "tracker/base/config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    ENTRIES_MAX = 64,
};

int LLVMFuzzerTestOneInput(const unsigned char *input, size_t length);

static void count_line(void *data, const char *line)
{
    *(size_t *)data += strlen(line);
}

int LLVMFuzzerTestOneInput(const unsigned char *input, size_t length)
{
    static struct config config;
    char *env[ENTRIES_MAX + 1];
    char *text = malloc(length + 1);
    char *rest = text;
    size_t said = 0;
    size_t n = 0;

    if (!text)
        return 0;
    memcpy(text, input, length);
    text[length] = '\0';
    while (n < ENTRIES_MAX && (env[n] = strsep(&rest, "\n")) != NULL)
        n++;
    env[n] = NULL;
    config_read(&config, env, count_line, &said);
    for (int id = 0; id < CONFIG_COUNT; id++)
        if (strlen(config_text(&config, (enum config_id)id)) >= CONFIG_TEXT_MAX)
            abort();
    if (config.used > sizeof config.arena)
        abort();
    free(text);
    return 0;
}
