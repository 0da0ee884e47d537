/* SPDX-License-Identifier: MIT */
#include "preload/kinds/kindnote.h"

#include "alloc/base/meta.h"
#include "alloc/base/table.h"
#include "preload/anchors/pyhost.h"
#include "preload/base/guard.h"
#include "preload/driver/session.h"
#include "preload/kinds/tensors.h"
#include "tracker/capture/capture.h"

#include <stdio.h>
#include <string.h>

typedef struct pyhost_object object;

enum {
    NAMES = 8 << 20 /* bytes of the names of parameters in one look */
};

struct named {
    uint64_t tensor; /* the object */
    uint32_t at;     /* of its name */
    uint32_t root;
};

static struct look {
    struct table parameters; /* struct named */
    struct table by_name;    /* struct named, by a hash of the tensor's own name */
    char *names;
    uint32_t used; /* bytes of them */
    uint32_t root;
    uint64_t storages;
    uint32_t flags; /* FORMAT_DATA_* */
    bool reads_gradients;
} look;

static void kindnote_put(
        enum format_data kind, uint32_t root, uint64_t address, uint64_t size, const char *name)
{
    int r;

    guard_push();
    r = capture_data(kind, root, address, size, name, strlen(name));
    if (r > 0)
        look.flags |= FORMAT_DATA_CUT;
    session_report(r < 0 ? r : 0);
    guard_pop();
}

static void kindnote_tensor_of(
        enum format_data kind, uint32_t root, object *tensor, const char *name)
{
    struct storages_place storages[TENSORS_PARTS];
    unsigned count = tensors_storages(tensor, storages);

    for (unsigned i = 0; i < count; i++)
        kindnote_put(kind, root, storages[i].address, storages[i].size, name);
    look.storages += count;
}

void kindnote_tensor(enum format_data kind, object *tensor, const char *name)
{
    kindnote_tensor_of(kind, kind == FORMAT_DATA_INPUT ? 0 : look.root, tensor, name);
}

static uint64_t kindnote_hash(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash ? hash : 1;
}

/* A tensor that optimizers know by its own name. */
static void kindnote_remember_name(object *tensor, const struct named *named)
{
    struct named copy = *named;
    object *own = tensors_new_name(tensor);
    const char *text = own ? tensors_text(own) : NULL;
    uint64_t hash = text ? kindnote_hash(text) : 0;
    struct named *of =
            hash && !table_find(&look.by_name, hash) ? table_add(&look.by_name, hash) : NULL;

    if (of)
        *of = (struct named){.tensor = hash, .at = copy.at, .root = copy.root};
    pyhost_drop(own);
}

static void kindnote_remember(object *tensor, const char *name)
{
    size_t length = strlen(name) + 1;
    struct named *named;

    if (table_find(&look.parameters, (uintptr_t)tensor))
        return;
    named = look.names && look.used + length <= NAMES
            ? table_add(&look.parameters, (uintptr_t)tensor)
            : NULL;
    if (!named) {
        look.flags |= FORMAT_DATA_CUT;
        return;
    }
    named->at = look.used;
    named->root = look.root;
    memcpy(look.names + look.used, name, length);
    look.used += (uint32_t)length;
    kindnote_remember_name(tensor, named);
}

void kindnote_parameter(object *tensor, const char *name)
{
    object *gradient = look.reads_gradients ? tensors_new_grad(tensor) : NULL;

    kindnote_remember(tensor, name);
    kindnote_tensor(FORMAT_DATA_PARAMETER, tensor, name);
    if (gradient && tensors_class(gradient) == TENSORS_TENSOR)
        kindnote_tensor(FORMAT_DATA_GRADIENT, gradient, name);
    pyhost_drop(gradient);
}

void kindnote_join(char name[static KINDNOTE_NAME], const char *outer, object *key)
{
    const char *text = tensors_text(key);

    (void)snprintf(
            name, KINDNOTE_NAME, "%s%s%s", outer, *outer && text ? "." : "", text ? text : "");
}

const char *kindnote_name(object *tensor, uint32_t *ret_root)
{
    const struct named *named = table_find(&look.parameters, (uintptr_t)tensor);

    if (named && ret_root)
        *ret_root = named->root;
    return named ? look.names + named->at : NULL;
}

const char *kindnote_name_of(const char *own)
{
    const struct named *named = table_find(&look.by_name, kindnote_hash(own));

    return named ? look.names + named->at : NULL;
}

void kindnote_copy(object *tensor, const char *own)
{
    const struct named *named = table_find(&look.by_name, kindnote_hash(own));

    if (named)
        kindnote_remember_name(tensor, named);
}

/* ---- looks ---------------------------------------------------------------------------------- */

void kindnote_begin(bool reads_gradients)
{
    table_clear(&look.parameters);
    table_clear(&look.by_name);
    if (look.names)
        meta_unmap(look.names, NAMES);
    look = (struct look){
            .parameters = TABLE_OF(struct named),
            .by_name = TABLE_OF(struct named),
            .names = meta_map(NAMES),
            .flags = reads_gradients ? 0 : FORMAT_DATA_BUSY,
            .reads_gradients = reads_gradients,
    };
}

bool kindnote_begin_part(bool reads_gradients)
{
    look.flags = FORMAT_DATA_PART | (reads_gradients ? 0 : FORMAT_DATA_BUSY);
    look.reads_gradients = reads_gradients;
    look.storages = 0;
    return look.names;
}

void kindnote_end(void)
{
    guard_push();
    session_report(capture_data_end(look.storages, look.flags));
    guard_pop();
}

void kindnote_cut(void)
{
    look.flags |= FORMAT_DATA_CUT;
}

void kindnote_root(uint32_t number)
{
    look.root = number;
}

void kindnote_new_root(uint32_t number, const char *class)
{
    look.root = number;
    kindnote_put(FORMAT_DATA_ROOT, number, 0, 0, class);
}
