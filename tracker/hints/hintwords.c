/* SPDX-License-Identifier: MIT */
#include "tracker/hints/hintwords.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *hintwords_action(enum action action)
{
    static const char *const words[] = {HINTWORDS_ACTIONS};
    unsigned word = (unsigned)action - ACTION_RELEASE;

    return word < sizeof words / sizeof words[0] ? words[word] : "";
}

const char *hintwords_mode(enum hint_mode mode)
{
    static const char *const words[HINT_MODE_COUNT] = {"off", HINTWORDS_MODES};

    return (unsigned)mode < HINT_MODE_COUNT ? words[mode] : "?";
}

const struct hintwords_call hintwords_calls[APICALL_COUNT] = {
        {"", {"", ""}},
#define APICALL(name_, first_, second_) {#name_, {first_, second_}},
#include "tracker/hints/apicalls.def"
};

uint32_t hintwords_find_call(const char *name)
{
    uint32_t number = APICALL_COUNT - 1;

    while (number > 0 && strcmp(hintwords_calls[number].name, name) != 0)
        number--;
    return number;
}

bool hintwords_is_id(const char *text)
{
    return text[0] != '\0'
            && strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
            == strlen(text);
}

int hintwords_range(const struct rule_range *range, char ret_text[static HINTWORDS_RANGE_MAX])
{
    return range->lo == range->hi ? snprintf(ret_text, HINTWORDS_RANGE_MAX, "%" PRIu64, range->lo)
                                  : snprintf(ret_text, HINTWORDS_RANGE_MAX, "%" PRIu64 "..%" PRIu64,
                                          range->lo, range->hi);
}

void hintwords_tell_drift(const struct hintwords_drift *drift, char *ret_text, size_t size)
{
    bool is_count = !rule_has(&drift->expect.count, drift->seen.count);
    const struct rule_range *range = is_count ? &drift->expect.count : &drift->expect.bytes;
    uint64_t number = is_count ? drift->seen.count : drift->seen.bytes;
    char expected[HINTWORDS_RANGE_MAX];
    char instance[16] = "";

    if (drift->instance)
        (void)snprintf(instance, sizeof instance, " (%" PRIu64 ")", (uint64_t)drift->instance + 1);
    if (range->hi == UINT64_MAX)
        (void)snprintf(expected, sizeof expected, ">=%" PRIu64, range->lo);
    else
        (void)hintwords_range(range, expected);
    if (drift->seen.count == 0)
        (void)snprintf(ret_text, size,
                "its matches could not be counted at %s%s: too many instances of its anchor never "
                "ended",
                drift->path, instance);
    else
        (void)snprintf(ret_text, size, "matched %" PRIu64 " %s%s in %s%s, %s expected", number,
                is_count ? "allocation" : "byte", number == 1 ? "" : "s", drift->path, instance,
                expected);
}
