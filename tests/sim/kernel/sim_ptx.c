/* SPDX-License-Identifier: MIT */
/* PTX: `.entry name (.param .u64 .ptr .global a, .param .align 8 .b8 b[24])`, and comments. */
#include "tests/sim/kernel/sim_image.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define PARAMS_MOST 1024U

/* The next character that is not in a comment or white space. */
static const char *skip_blank(const char *at)
{
    for (;;) {
        if (isspace((unsigned char)*at)) {
            at++;
        } else if (at[0] == '/' && at[1] == '/') {
            while (*at && *at != '\n')
                at++;
        } else if (at[0] == '/' && at[1] == '*') {
            const char *end = strstr(at + 2, "*/");
            at = end ? end + 2 : at + strlen(at);
        } else {
            return at;
        }
    }
}

static size_t word_length(const char *at)
{
    size_t length = 0;

    while (at[length] && (isalnum((unsigned char)at[length]) || strchr("_$.%", at[length])))
        length++;
    return length;
}

static bool is_word(const char *at, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(at, word, length) == 0;
}

/* Bytes of a type: .u64 and .f32 end in their bits. 0: it is no type. */
static unsigned type_size(const char *at, size_t length)
{
    unsigned bits = length > 2 && strchr("usbf", at[1]) ? (unsigned)strtoul(at + 2, NULL, 10) : 0;

    if (is_word(at, length, ".pred"))
        return 1;
    return bits == 8 || bits == 16 || bits == 32 || bits == 64 || bits == 128 ? bits / 8 : 0;
}

/* One declaration, from behind .param to the comma or bracket behind it, which is returned. */
static const char *read_param(const char *at, struct sim_param *ret_param)
{
    unsigned align = 0, unit = 1, count = 1;
    bool is_of_pointee = false; /* what .align says */

    *ret_param = (struct sim_param){0};
    for (at = skip_blank(at); *at && *at != ',' && *at != ')'; at = skip_blank(at)) {
        size_t length = word_length(at);
        unsigned size = type_size(at, length);

        if (is_word(at, length, ".align")) {
            at = skip_blank(at + length);
            if (!is_of_pointee)
                align = (unsigned)strtoul(at, NULL, 10);
            length = word_length(at);
        } else if (is_word(at, length, ".ptr")) {
            ret_param->is_pointer = is_of_pointee = true;
        } else if (size) {
            unit = size;
        } else if (*at == '[') {
            count = (unsigned)strtoul(at + 1, NULL, 0);
        }
        at += length ? length : 1;
    }
    ret_param->size = unit * count;
    ret_param->offset = align > unit ? align : unit; /* for now: what it is aligned to */
    return at;
}

/* The list behind an entry's name, if there is one. */
static unsigned read_params(const char *at, struct sim_param params[PARAMS_MOST])
{
    unsigned count = 0;
    uint64_t end = 0;

    at = skip_blank(at);
    for (at += *at == '(' ? 1 : strlen(at); *at && *at != ')' && count < PARAMS_MOST;) {
        size_t length;

        at = skip_blank(at);
        length = word_length(at);
        if (!is_word(at, length, ".param")) {
            at += length || *at == ')' ? length : 1;
            continue;
        }
        at = read_param(at + length, &params[count]);
        params[count].offset = (uint32_t)sim_round(end, params[count].offset);
        end = (uint64_t)params[count].offset + params[count].size;
        count++;
    }
    return count;
}

bool sim_ptx_read(struct sim_image *image, const char *text)
{
    struct sim_param *params = sim_new(PARAMS_MOST * sizeof(*params));
    bool is_ptx = false;

    for (const char *at = skip_blank(text); *at; at = skip_blank(at)) {
        size_t length = word_length(at);
        bool is_entry = is_word(at, length, ".entry");

        is_ptx |= is_word(at, length, ".version");
        at += length ? length : 1;
        if (!is_entry)
            continue;
        at = skip_blank(at);
        length = word_length(at);
        sim_image_add(image, at, length, params, read_params(at + length, params));
        at += length;
    }
    free(params);
    return is_ptx;
}
