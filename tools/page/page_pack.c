/* SPDX-License-Identifier: MIT */
#include "tools/page/page_pack.h"

#include <stdlib.h>
#include <string.h>

#include "tools/base/vec.h"

void page_pack_uint(struct page_pack *pack, uint64_t value)
{
    while (value >= 0x80) {
        VEC_PUSH(pack->bytes, pack->count, pack->room) = (unsigned char)(value | 0x80);
        value >>= 7;
    }
    VEC_PUSH(pack->bytes, pack->count, pack->room) = (unsigned char)value;
}

void page_pack_difference(struct page_pack *pack, uint64_t value, uint64_t before)
{
    page_pack_uint(pack, value >= before ? (value - before) << 1 : ((before - value) << 1) - 1);
}

/* Three bytes, or the last ones, as four characters. */
static void page_pack_letters(const unsigned char *bytes, size_t count, char *ret)
{
    static const char letters[] =
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t three = 0;

    for (size_t i = 0; i < 3; i++)
        three = three << 8 | (i < count ? bytes[i] : 0);
    memcpy(ret, "====", 4);
    for (size_t i = 0; i <= count; i++)
        ret[i] = letters[three >> (18 - 6 * i) & 63];
}

void page_pack_json(struct json *json, const char *key, const struct page_pack *pack)
{
    const struct json_page *form = json->page;
    char *text = vec_new((pack->count + 2) / 3 * 4 + 1, 1);
    struct json_page whole = {0};

    for (size_t i = 0; i < pack->count; i += 3)
        page_pack_letters(
                &pack->bytes[i], pack->count - i < 3 ? pack->count - i : 3, &text[i / 3 * 4]);
    if (form) { /* these texts are not the program's: they are not cut */
        whole = *form;
        whole.text_most = SIZE_MAX;
        json->page = &whole;
    }
    json_text(json, key, text);
    json->page = form;
    free(text);
}

void page_pack_done(struct page_pack *pack)
{
    free(pack->bytes);
    *pack = (struct page_pack){0};
}
