/* SPDX-License-Identifier: MIT */
#include "tracker/python/pycode.h"

#include "alloc/base/lock.h"
#include "alloc/base/meta.h"
#include "tracker/base/catalog.h"
#include "tracker/base/site.h"
#include "tracker/format/format.h"
#include "tracker/hints/pylines.h"
#include "tracker/python/pytext.h"
#include "tracker/stacks/intern.h"

#include <stdatomic.h>
#include <string.h>

/* As in CPython: pylayout.c compares these where a version publishes them. */
#define BYTES_LENGTH 16
#define BYTES_DATA   32

struct stamp {
    uint64_t stamp;
    uint32_t code;
    uint32_t spare;
};

/* The key of a new code object. */
struct code_key {
    struct pycode code; /* without `lines` */
    const char *lines;
};

static struct lock lock = LOCK_INIT(LOCK_RANK_TRACKER);

static bool same_code(uint32_t number, const void *key);
static bool same_stamp(uint32_t number, const void *key);
static bool pycode_same_node(uint32_t number, const void *key);
static struct catalog codes = CATALOG_OF(struct pycode, PYCODE_CODES_MAX, same_code);
static struct catalog stamps = CATALOG_OF(struct stamp, PYCODE_STAMPS_MAX, same_stamp);
static struct catalog nodes = CATALOG_OF(struct pycode_node, PYCODE_NODES_MAX, pycode_same_node);

/* guarded by lock for adding: the line tables of all code objects */
static struct span line_span = SPAN_OF(PYCODE_LINES_MAX);
static size_t lines_used;

static _Atomic uint64_t refused;

static uint32_t pycode_refuse(void)
{
    atomic_fetch_add_explicit(&refused, 1, memory_order_relaxed);
    return 0;
}

/* ---- code objects --------------------------------------------------------------------------- */

static bool same_code(uint32_t number, const void *key)
{
    const struct code_key *wanted = key;
    const struct pycode *have = catalog_at(&codes, number);
    const struct pycode *code = &wanted->code;

    return have->name == code->name && have->qualname == code->qualname && have->file == code->file
            && have->first_line == code->first_line && have->table == code->table
            && have->lines_bytes == code->lines_bytes && have->is_cut == code->is_cut
            && memcmp(line_span.base + have->lines, wanted->lines, code->lines_bytes) == 0;
}

static uint32_t add_code_locked(const struct code_key *key, uint64_t hash)
{
    size_t end = lines_used + key->code.lines_bytes;
    struct pycode code = key->code;
    uint32_t number;

    if (span_commit(&line_span, end + 1) < 0) /* an empty table has an offset, too */
        return pycode_refuse();
    memcpy(line_span.base + lines_used, key->lines, code.lines_bytes);
    code.lines = lines_used;
    number = catalog_add(&codes, hash, &code);
    if (number == 0)
        return pycode_refuse();
    lines_used = end;
    return number;
}

static uint32_t intern_text_of(const struct pylayout *at, const char *code, int32_t field)
{
    char text[INTERN_STRING_BYTES_MAX];
    const char *object;

    if (field == PYLAYOUT_NONE)
        return 0;
    memcpy(&object, code + field, sizeof object);
    return intern_string(text, pytext_utf8(at, object, text, sizeof text));
}

static uint32_t intern_code(const char *code)
{
    const struct pylayout *at = pyframe_layout();
    struct code_key key = {.code = {.table = (uint16_t)at->table}};
    const char *lines;
    uint64_t length, hash;
    uint32_t number;

    if (!pyframe_is_code(code)) {
        pyframe_refuse("its code objects are not laid out as in the versions that are known");
        return pycode_refuse();
    }
    key.code.name = intern_text_of(at, code, at->code_name);
    key.code.qualname = intern_text_of(at, code, at->code_qualname);
    key.code.file = intern_text_of(at, code, at->code_filename);
    memcpy(&key.code.first_line, code + at->code_first, sizeof key.code.first_line);
    memcpy(&lines, code + at->code_lines, sizeof lines);
    memcpy(&length, lines + BYTES_LENGTH, sizeof length);
    key.code.is_cut = length > FORMAT_PYLINES_MAX;
    key.code.lines_bytes = key.code.is_cut ? FORMAT_PYLINES_MAX : (uint32_t)length;
    key.lines = lines + BYTES_DATA;
    hash = site_frame((uint64_t)key.code.name << 32 | key.code.file,
            site_hash(key.lines, key.code.lines_bytes, (uint32_t)key.code.first_line));
    number = catalog_find(&codes, hash, &key);
    if (number != 0)
        return number;
    lock_take(&lock);
    number = catalog_find(&codes, hash, &key);
    if (number == 0)
        number = add_code_locked(&key, hash);
    lock_drop(&lock);
    return number;
}

static bool same_stamp(uint32_t number, const void *key)
{
    const struct stamp *have = catalog_at(&stamps, number);

    return have->stamp == ((const struct stamp *)key)->stamp;
}

static uint32_t code_number(const struct pyframe *frame)
{
    struct stamp stamp = {.stamp = frame->stamp};
    uint32_t known = catalog_find(&stamps, frame->stamp, &stamp);

    if (known != 0)
        return ((const struct stamp *)catalog_at(&stamps, known))->code;
    stamp.code = intern_code(frame->code);
    /* Without space it is dropped, and the code object is read again next time. */
    if (stamp.code != 0)
        (void)catalog_number(&stamps, &lock, frame->stamp, &stamp);
    return stamp.code;
}

/* ---- stacks --------------------------------------------------------------------------------- */

static bool pycode_same_node(uint32_t number, const void *key)
{
    return memcmp(catalog_at(&nodes, number), key, sizeof(struct pycode_node)) == 0;
}

static uint32_t node_number(const struct pycode_node *node)
{
    uint64_t hash = site_frame((uint64_t)node->parent << 32 | node->code,
            (uint64_t)(uint32_t)node->lasti << 1 | node->is_entry);
    uint32_t number = catalog_number(&nodes, &lock, hash, node);

    return number ? number : pycode_refuse();
}

uint32_t pycode_stack(const struct pyframe *frames, unsigned count)
{
    uint32_t leaf = 0;

    for (unsigned i = count; i-- > 0;) {
        struct pycode_node key = {.parent = leaf,
                .code = code_number(&frames[i]),
                .lasti = frames[i].lasti,
                .is_entry = frames[i].is_entry};

        leaf = key.code ? node_number(&key) : 0;
        if (leaf == 0)
            return 0; /* refused: a partial stack would be a wrong one */
    }
    return leaf;
}

bool pycode_at(uint32_t number, struct pycode *ret_code, const char **ret_lines)
{
    if (!catalog_has(&codes, number))
        return false;
    *ret_code = *(const struct pycode *)catalog_at(&codes, number);
    *ret_lines = line_span.base + ret_code->lines;
    return true;
}

bool pycode_node_at(uint32_t number, struct pycode_node *ret_node)
{
    if (!catalog_has(&nodes, number))
        return false;
    *ret_node = *(const struct pycode_node *)catalog_at(&nodes, number);
    return true;
}

bool pycode_frame_at(uint32_t number, struct pycode_frame *ret_frame)
{
    struct pycode_node node;
    struct pycode code = {0};
    const char *bytes = "";
    struct pylines lines;

    if (!pycode_node_at(number, &node))
        return false;
    (void)pycode_at(node.code, &code, &bytes);
    lines = (struct pylines){.table = (enum format_pytable)code.table,
            .bytes = (const unsigned char *)bytes,
            .length = code.lines_bytes,
            .first_line = code.first_line};
    *ret_frame = (struct pycode_frame){
            .function = intern_text(code.qualname ? code.qualname : code.name),
            .file = intern_text(code.file),
            .line = pylines_find(&lines, node.lasti)};
    return true;
}

void pycode_counts(struct pycode_counts *ret_counts)
{
    /* Nodes first: the entries that they name were added before, so the later counts cover them. */
    ret_counts->nodes = catalog_count(&nodes);
    ret_counts->codes = catalog_count(&codes);
    ret_counts->refused = atomic_load_explicit(&refused, memory_order_relaxed);
}

void pycode_fork_child(void)
{
    lock_init(&lock, LOCK_RANK_TRACKER);
}
