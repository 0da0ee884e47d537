/* SPDX-License-Identifier: MIT */
#include "preload/anchors/pytoken.h"

#include "alloc/base/table.h"
#include "preload/anchors/pyhost.h"

#include <stdint.h>
#include <string.h>

typedef struct pyhost_object object;

/* Our references to a token. */
struct kept {
    uint64_t token;
    uint64_t count;
};

static struct table kept = TABLE_OF(struct kept);
static object *keys[4];

static object *pytoken_of(object *of)
{
    static const char *const names[] = {"_non_persistent_buffers_set", "_zero_grad_profile_name",
            "_non_persistable_buffer_names_set", "_opti_name_list"};
    object *token = NULL;

    for (unsigned i = 0; i < sizeof names / sizeof *names && !token; i++) {
        if (!keys[i])
            keys[i] = pyhost_new_key(names[i]);
        token = keys[i] ? pyhost_own_at(of, keys[i]) : NULL;
    }
    return token;
}

object *pytoken_keep(object *of)
{
    object *token = pytoken_of(of);
    struct kept *ours = token ? table_find(&kept, (uintptr_t)token) : NULL;

    if (token && !ours)
        ours = table_add(&kept, (uintptr_t)token);
    if (!ours)
        return NULL;
    ours->count++;
    return pyhost_keep(token);
}

void pytoken_drop(object *token)
{
    struct kept *ours = token ? table_find(&kept, (uintptr_t)token) : NULL;

    if (ours && --ours->count == 0)
        (void)table_remove(&kept, ours);
    pyhost_drop(token);
}

bool pytoken_is_of(const object *token, object *of)
{
    return pytoken_of(of) == token;
}

/* The lower half of ob_refcnt, which is all of it in every CPython that is known. */
bool pytoken_has_ended(const object *token)
{
    const struct kept *ours = table_find(&kept, (uintptr_t)token);
    uint32_t references;

    memcpy(&references, token, sizeof references);
    return ours && references == ours->count;
}

void pytoken_forget(void)
{
    table_clear(&kept);
    memset(keys, 0, sizeof keys);
}
