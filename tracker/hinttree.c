/* SPDX-License-Identifier: MIT */
#include "tracker/hinttree.h"

#include "tracker/hintfile.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define PIECE_BYTES 65536u

/* Nodes and texts live in pieces that are freed together. */
struct piece {
    struct piece *next;
    size_t used, size;
    _Alignas(16) char bytes[];
};

struct hinttree {
    struct piece *pieces;
    struct hinttree_node *root;
    uint32_t nodes;
};

/* An open list or map. */
struct level {
    struct hinttree_node *node;
    struct hinttree_node *last; /* child, NULL = none yet */
    struct hinttree_node *key;  /* map: waits for its value */
    uint32_t keys;
    bool is_map;
};

struct builder {
    struct hinttree *tree;
    struct level level[HINTFILE_DEPTH_MAX];
    int depth;
    struct hinttree_node *where;
    const char **what;
    bool is_done;
};

static void *take(struct hinttree *tree, size_t bytes)
{
    struct piece *piece = tree->pieces;
    void *at;

    bytes = (bytes + 15) / 16 * 16;
    if (!piece || piece->size - piece->used < bytes) {
        size_t size = bytes > PIECE_BYTES ? bytes : PIECE_BYTES;

        piece = malloc(sizeof *piece + size);
        if (!piece)
            return NULL;
        piece->next = tree->pieces;
        piece->used = 0;
        piece->size = size;
        tree->pieces = piece;
    }
    at = piece->bytes + piece->used;
    piece->used += bytes;
    return at;
}

static int refuse(struct builder *builder, const yaml_mark_t *mark, const char *what)
{
    builder->where->line = (uint32_t)mark->line + 1;
    builder->where->column = (uint32_t)mark->column + 1;
    *builder->what = what;
    return -EINVAL;
}

static int new_node(struct builder *builder, enum hinttree_kind kind, const yaml_event_t *event,
        struct hinttree_node **ret_node)
{
    struct hinttree_node *node;

    if (++builder->tree->nodes > HINTTREE_NODES_MAX)
        return refuse(builder, &event->start_mark, "too many values in one file");
    node = take(builder->tree, sizeof *node);
    if (!node)
        return -ENOMEM;
    *node = (struct hinttree_node){
            .kind = kind,
            .line = (uint32_t)event->start_mark.line + 1,
            .column = (uint32_t)event->start_mark.column + 1,
            .text = "",
    };
    *ret_node = node;
    return 0;
}

static int set_text(struct builder *builder, struct hinttree_node *node, const yaml_event_t *event)
{
    const char *from = (const char *)event->data.scalar.value;
    size_t length = event->data.scalar.length;
    char *text;

    if (memchr(from, '\0', length))
        return refuse(builder, &event->start_mark, "a NUL byte in a text");
    text = take(builder->tree, length + 1);
    if (!text)
        return -ENOMEM;
    memcpy(text, from, length);
    text[length] = '\0';
    node->text = text;
    node->length = length;
    return 0;
}

static void append(struct level *level, struct hinttree_node *node)
{
    if (level->last)
        level->last->next = node;
    else
        level->node->child = node;
    level->last = node;
}

/* A scalar where a map wants a key. */
static int add_key(struct builder *builder, struct level *level, const yaml_event_t *event)
{
    struct hinttree_node *node = NULL;
    int r;

    if (event->type != YAML_SCALAR_EVENT)
        return refuse(builder, &event->start_mark, "a key must be a word");
    if (++level->keys > HINTTREE_KEYS_MAX)
        return refuse(builder, &event->start_mark, "too many keys in one mapping");
    r = new_node(builder, HINTTREE_KEY, event, &node);
    if (r == 0)
        r = set_text(builder, node, event);
    if (r < 0)
        return r;
    for (const struct hinttree_node *key = level->node->child; key; key = key->next)
        if (strcmp(key->text, node->text) == 0)
            return refuse(builder, &event->start_mark, "the same key twice");
    append(level, node);
    level->key = node;
    return 0;
}

/* Puts a value where it belongs: under its key, into its list, or as the root. */
static void attach(struct builder *builder, struct hinttree_node *node)
{
    struct level *level;

    if (builder->depth == 0) {
        builder->tree->root = node;
        return;
    }
    level = &builder->level[builder->depth - 1];
    if (level->key) { /* a map; lists have none */
        level->key->child = node;
        level->key = NULL;
    } else {
        append(level, node);
    }
}

static int add_value(struct builder *builder, const yaml_event_t *event, enum hinttree_kind kind)
{
    struct level *level = builder->depth > 0 ? &builder->level[builder->depth - 1] : NULL;
    struct hinttree_node *node = NULL;
    int r;

    if (level && level->is_map && !level->key)
        return add_key(builder, level, event);
    r = new_node(builder, kind, event, &node);
    if (r == 0 && kind == HINTTREE_SCALAR)
        r = set_text(builder, node, event);
    if (r < 0)
        return r;
    if (kind != HINTTREE_SCALAR && builder->depth == HINTFILE_DEPTH_MAX)
        return refuse(builder, &event->start_mark, "nested deeper than 6 levels");
    attach(builder, node);
    if (kind != HINTTREE_SCALAR)
        builder->level[builder->depth++] =
                (struct level){.node = node, .is_map = kind == HINTTREE_MAP};
    return 0;
}

static int start_document(struct builder *builder, const yaml_event_t *event)
{
    if (event->data.document_start.version_directive
            || event->data.document_start.tag_directives.start
                    != event->data.document_start.tag_directives.end)
        return refuse(builder, &event->start_mark, "directives are not allowed");
    if (builder->tree->root)
        return refuse(builder, &event->start_mark, "a second document");
    return 0;
}

static int add_event(struct builder *builder, const yaml_event_t *event)
{
    const char *decorated = "anchors and tags are not allowed";

    switch (event->type) {
    case YAML_SCALAR_EVENT:
        if (event->data.scalar.anchor || event->data.scalar.tag)
            return refuse(builder, &event->start_mark, decorated);
        return add_value(builder, event, HINTTREE_SCALAR);
    case YAML_SEQUENCE_START_EVENT:
        if (event->data.sequence_start.anchor || event->data.sequence_start.tag)
            return refuse(builder, &event->start_mark, decorated);
        return add_value(builder, event, HINTTREE_LIST);
    case YAML_MAPPING_START_EVENT:
        if (event->data.mapping_start.anchor || event->data.mapping_start.tag)
            return refuse(builder, &event->start_mark, decorated);
        return add_value(builder, event, HINTTREE_MAP);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        builder->depth--;
        return 0;
    case YAML_ALIAS_EVENT:
        return refuse(builder, &event->start_mark, "aliases are not allowed");
    case YAML_DOCUMENT_START_EVENT:
        return start_document(builder, event);
    case YAML_STREAM_END_EVENT:
        builder->is_done = true;
        return builder->tree->root ? 0
                                   : refuse(builder, &event->start_mark, "there is nothing in it");
    default:
        return 0;
    }
}

/* libyaml's texts are literals; where it names no place the mark is that of the reader. */
static int parser_trouble(struct builder *builder, const yaml_parser_t *parser)
{
    if (parser->error == YAML_MEMORY_ERROR)
        return -ENOMEM;
    if (parser->error == YAML_READER_ERROR)
        return refuse(
                builder, &parser->mark, parser->problem ? parser->problem : "not a text in UTF-8");
    return refuse(builder, &parser->problem_mark, parser->problem ? parser->problem : "not YAML");
}

static int build(struct builder *builder, yaml_parser_t *parser)
{
    int r = 0;

    while (r == 0 && !builder->is_done) {
        yaml_event_t event;

        if (!yaml_parser_parse(parser, &event))
            return parser_trouble(builder, parser);
        r = add_event(builder, &event);
        yaml_event_delete(&event);
    }
    return r;
}

int hinttree_read(const void *bytes, size_t length, struct hinttree **ret_tree,
        struct hinttree_node *ret_where, const char **ret_what)
{
    struct builder builder = {.where = ret_where, .what = ret_what};
    yaml_parser_t parser;
    int r;

    builder.tree = calloc(1, sizeof *builder.tree);
    if (!builder.tree)
        return -ENOMEM;
    if (!yaml_parser_initialize(&parser)) {
        hinttree_free(builder.tree);
        return -ENOMEM;
    }
    yaml_parser_set_input_string(&parser, bytes, length);
    r = build(&builder, &parser);
    yaml_parser_delete(&parser);
    if (r < 0) {
        hinttree_free(builder.tree);
        return r;
    }
    *ret_tree = builder.tree;
    return 0;
}

const struct hinttree_node *hinttree_root(const struct hinttree *tree)
{
    return tree->root;
}

void hinttree_free(struct hinttree *tree)
{
    struct piece *next;

    if (!tree)
        return;
    for (struct piece *piece = tree->pieces; piece; piece = next) {
        next = piece->next;
        free(piece);
    }
    free(tree);
}
