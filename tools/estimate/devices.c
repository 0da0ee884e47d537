/* SPDX-License-Identifier: MIT */
#include "tools/estimate/devices.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/cmdexit.h"
#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tracker/base/config.h"

#define MIB (UINT64_C(1) << 20)

static const struct device table[] = {
#define DEVICE(name_, memory_, capability_, sms_, source_) \
    {.name = (name_),                                      \
            .memory = (memory_),                           \
            .capability = (capability_),                   \
            .sms = (sms_),                                 \
            .source = (source_)},
#include "tools/estimate/devices.def"
#undef DEVICE
};

/* Fills what is not stated. */
static void add_context(struct device *device)
{
    uint64_t workspace = strtol(device->capability, NULL, 10) >= 9 ? 32 * MIB : 4 * MIB;

    if (!device->least)
        device->least = 3 * MIB * device->sms;
    if (!device->most)
        device->most = 315 * MIB / 100 * device->sms + 380 * MIB + workspace;
}

/* Where a word was found: a file's line, or the option. */
struct place {
    const char *who, *file;
    unsigned line;
};

static int refuse(const struct place *place, const char *word, const char *why)
{
    if (place->file)
        render_print(
                stderr, "%s: %s:%u: %s: %s\n", place->who, place->file, place->line, word, why);
    else
        render_print(stderr, "%s: --device %s: %s\n", place->who, word, why);
    return CMD_BAD;
}

static bool is_capability(const char *text)
{
    static const char *const known[] = {"7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0"};

    for (size_t i = 0; i < CMD_COUNT(known); i++)
        if (strcmp(text, known[i]) == 0)
            return true;
    return false;
}

/* "LOW-HIGH", or one size for both. */
static bool read_range(char *text, uint64_t *ret_least, uint64_t *ret_most)
{
    char *high = strchr(text, '-');

    if (high)
        *high++ = '\0';
    return config_size(text, ret_least) == 0 && config_size(high ? high : text, ret_most) == 0
            && *ret_least <= *ret_most;
}

/* One "key=value"; 0, or an exit code after one line. */
static int read_pair(const struct place *place, char *word, struct device *device)
{
    char *value = strchr(word, '=');

    if (!value)
        return refuse(place, word, "memory=, capability=, sms=, name= or context= expected");
    *value++ = '\0';
    if (strcmp(word, "name") == 0)
        (void)snprintf(device->name, sizeof(device->name), "%s", value);
    else if (strcmp(word, "memory") == 0) {
        if (config_size(value, &device->memory) != 0 || device->memory < 2 * MIB)
            return refuse(place, value, "a size as 24G or 24564M expected");
    } else if (strcmp(word, "capability") == 0) {
        if (!is_capability(value))
            return refuse(place, value, "7.0, 7.5, 8.0, 8.6, 8.9, 9.0, 10.0 or 12.0 expected");
        (void)snprintf(device->capability, sizeof(device->capability), "%s", value);
    } else if (strcmp(word, "sms") == 0) {
        if (config_size(value, &device->sms) != 0 || device->sms < 1 || device->sms > 1024)
            return refuse(place, value, "a number of multiprocessors, 1 to 1024, expected");
    } else if (strcmp(word, "context") == 0) {
        if (!read_range(value, &device->least, &device->most))
            return refuse(place, value, "a range of sizes as 400M-900M expected");
    } else {
        return refuse(place, word, "memory, capability, sms, name or context expected");
    }
    return CMD_DONE;
}

static int read_pairs(const struct place *place, char *text, struct device *device)
{
    char *rest = NULL;
    int r = CMD_DONE;

    text[strcspn(text, "#\n")] = '\0';
    for (char *word = strtok_r(text, ", \t\r", &rest); word && r == CMD_DONE;
            word = strtok_r(NULL, ", \t\r", &rest))
        r = read_pair(place, word, device);
    return r;
}

static int devices_read_file(const char *who, const char *path, FILE *file, struct device *device)
{
    struct place place = {who, path, 0};
    char *line = NULL;
    size_t room = 0;
    int r = CMD_DONE;

    while (r == CMD_DONE && getline(&line, &room, file) > 0) {
        place.line++;
        r = read_pairs(&place, line, device);
    }
    free(line);
    return r;
}

/* The device that words describe: on the command line, or in a file. */
static int read_words(const char *who, const char *text, struct device *ret_device)
{
    struct place place = {who, NULL, 0};
    int r;

    *ret_device = (struct device){.name = "the device", .capability = "8.0", .sms = 108};
    if (strchr(text, '=')) {
        char *words = vec_text(text);
        r = read_pairs(&place, words, ret_device);
        free(words);
    } else {
        FILE *file = fopen(text, "re");
        if (!file) {
            int error = errno;
            render_print(stderr,
                    "%s: --device %s: neither a name (kedge estimate --help) nor a file: %s\n", who,
                    text, strerror(error));
            return CMD_BAD;
        }
        r = devices_read_file(who, text, file, ret_device);
        (void)fclose(file);
    }
    if (r == CMD_DONE && !ret_device->memory)
        r = refuse(&place, text, "its memory is not stated (memory=24G)");
    return r;
}

int devices_find(const char *who, const char *text, struct device *ret_device)
{
    int r = -1;

    if (!text)
        text = "h100-80g";
    for (size_t i = 0; i < CMD_COUNT(table) && r < 0; i++) {
        if (strcmp(table[i].name, text) != 0)
            continue;
        *ret_device = table[i];
        r = CMD_DONE;
    }
    if (r < 0)
        r = read_words(who, text, ret_device);
    if (r == CMD_DONE)
        add_context(ret_device);
    return r;
}

void devices_print(FILE *out)
{
    (void)fputs("\ndevices (published figures; --device memory=24G,capability=8.9,sms=128 or a "
                "file of such words for others):\n",
            out);
    for (size_t i = 0; i < CMD_COUNT(table); i++)
        (void)fprintf(out, "  %-12s %10s  capability %-4s  %3u SMs  %s\n", table[i].name,
                render_bytes(table[i].memory).text, table[i].capability, (unsigned)table[i].sms,
                table[i].source);
}
