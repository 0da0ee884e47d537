/* SPDX-License-Identifier: MIT */
#include "tracker/hints/hinttree.h"

#include "tracker/hints/hintfile.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

struct builder {
    yaml_parser_t parser;
    uint32_t nodes;
    struct hinttree_node *where;
    const char **what;
};

static int hinttree_refuse(struct builder *builder, const yaml_mark_t *mark, const char *what)
{
    builder->where->line = (uint32_t)mark->line + 1;
    builder->where->column = (uint32_t)mark->column + 1;
    *builder->what = what;
    return -EINVAL;
}

/* libyaml's texts are literals; an error without a position gets the reader's. */
static int hinttree_next_event(struct builder *builder, yaml_event_t *ret_event)
{
    const yaml_parser_t *parser = &builder->parser;

    if (yaml_parser_parse(&builder->parser, ret_event))
        return 0;
    if (parser->error == YAML_MEMORY_ERROR)
        return -ENOMEM;
    if (parser->error == YAML_READER_ERROR)
        return hinttree_refuse(
                builder, &parser->mark, parser->problem ? parser->problem : "not a text in UTF-8");
    return hinttree_refuse(
            builder, &parser->problem_mark, parser->problem ? parser->problem : "not YAML");
}

static int new_node(struct builder *builder, enum hinttree_kind kind, const yaml_event_t *event,
        struct hinttree_node **ret_node)
{
    bool has_text = event->type == YAML_SCALAR_EVENT;
    size_t length = has_text ? event->data.scalar.length : 0;
    struct hinttree_node *node;

    if (++builder->nodes > HINTTREE_NODES_MAX)
        return hinttree_refuse(builder, &event->start_mark, "too many values in one file");
    if (has_text && memchr(event->data.scalar.value, '\0', length))
        return hinttree_refuse(builder, &event->start_mark, "a NUL byte in a text");
    node = calloc(1, sizeof *node + length + 1);
    if (!node)
        return -ENOMEM;
    node->kind = kind;
    node->line = (uint32_t)event->start_mark.line + 1;
    node->column = (uint32_t)event->start_mark.column + 1;
    node->length = length;
    if (has_text)
        memcpy(node->text, event->data.scalar.value, length);
    *ret_node = node;
    return 0;
}

/* Refuses what is forbidden in keys and values alike. Scalars, lists and maps begin with the same
 * two fields. */
static int check_plain(struct builder *builder, const yaml_event_t *event)
{
    if (event->type == YAML_ALIAS_EVENT)
        return hinttree_refuse(builder, &event->start_mark, "aliases are not allowed");
    if (event->data.scalar.anchor || event->data.scalar.tag)
        return hinttree_refuse(builder, &event->start_mark, "anchors and tags are not allowed");
    return 0;
}

static int read_value(struct builder *builder, const yaml_event_t *event, int depth,
        struct hinttree_node **ret_node);

/* Reads a key, which is `event`, and its value. */
static int hinttree_read_key(struct builder *builder, const yaml_event_t *event, int depth,
        const struct hinttree_node *map, struct hinttree_node **ret_key)
{
    struct hinttree_node *node;
    yaml_event_t value;
    uint32_t keys = 1;
    int r = check_plain(builder, event);

    if (r == 0 && event->type != YAML_SCALAR_EVENT)
        r = hinttree_refuse(builder, &event->start_mark, "a key must be a word");
    if (r == 0)
        r = new_node(builder, HINTTREE_KEY, event, ret_key);
    if (r < 0)
        return r;
    node = *ret_key;
    for (const struct hinttree_node *key = map->child; key != node; key = key->next, keys++)
        if (strcmp(key->text, node->text) == 0)
            return hinttree_refuse(builder, &event->start_mark, "the same key twice");
    if (keys > HINTTREE_KEYS_MAX)
        return hinttree_refuse(builder, &event->start_mark, "too many keys in one mapping");
    r = hinttree_next_event(builder, &value);
    if (r < 0)
        return r;
    r = read_value(builder, &value, depth, &node->child);
    yaml_event_delete(&value);
    return r;
}

/* Reads the children of a list or a map, until it ends. */
static int read_children(struct builder *builder, struct hinttree_node *parent, int depth)
{
    struct hinttree_node **last = &parent->child;
    bool is_end = false;
    int r = 0;

    while (r == 0 && !is_end) {
        yaml_event_t event;

        r = hinttree_next_event(builder, &event);
        if (r < 0)
            return r;
        is_end = event.type == YAML_SEQUENCE_END_EVENT || event.type == YAML_MAPPING_END_EVENT;
        if (!is_end && parent->kind == HINTTREE_MAP)
            r = hinttree_read_key(builder, &event, depth, parent, last);
        else if (!is_end)
            r = read_value(builder, &event, depth, last);
        if (*last)
            last = &(*last)->next;
        yaml_event_delete(&event);
    }
    return r;
}

/* Reads the value that begins with `event`, at this depth. */
static int read_value(struct builder *builder, const yaml_event_t *event, int depth,
        struct hinttree_node **ret_node)
{
    enum hinttree_kind kind = event->type == YAML_SCALAR_EVENT ? HINTTREE_SCALAR
            : event->type == YAML_MAPPING_START_EVENT          ? HINTTREE_MAP
                                                               : HINTTREE_LIST;
    int r = check_plain(builder, event);

    if (r == 0)
        r = new_node(builder, kind, event, ret_node);
    if (r < 0 || kind == HINTTREE_SCALAR)
        return r;
    if (depth == HINTFILE_DEPTH_MAX)
        return hinttree_refuse(builder, &event->start_mark, "nested deeper than 6 levels");
    return read_children(builder, *ret_node, depth + 1);
}

static int start_document(struct builder *builder, const yaml_event_t *event, bool is_second)
{
    if (event->data.document_start.version_directive
            || event->data.document_start.tag_directives.start
                    != event->data.document_start.tag_directives.end)
        return hinttree_refuse(builder, &event->start_mark, "directives are not allowed");
    return is_second ? hinttree_refuse(builder, &event->start_mark, "a second document") : 0;
}

static int read_stream(struct builder *builder, struct hinttree_node **ret_root)
{
    bool is_end = false;
    int r = 0;

    while (r == 0 && !is_end) {
        yaml_event_t event;

        r = hinttree_next_event(builder, &event);
        if (r < 0)
            return r;
        is_end = event.type == YAML_STREAM_END_EVENT;
        if (event.type == YAML_DOCUMENT_START_EVENT)
            r = start_document(builder, &event, *ret_root != NULL);
        else if (is_end && !*ret_root)
            r = hinttree_refuse(builder, &event.start_mark, "there is nothing in it");
        else if (!is_end && !*ret_root && event.type != YAML_STREAM_START_EVENT)
            r = read_value(builder, &event, 0, ret_root);
        yaml_event_delete(&event);
    }
    return r;
}

int hinttree_read(const void *bytes, size_t length, struct hinttree_node **ret_root,
        struct hinttree_node *ret_where, const char **ret_what)
{
    struct builder builder = {.where = ret_where, .what = ret_what};
    struct hinttree_node *root = NULL;
    int r;

    if (!yaml_parser_initialize(&builder.parser))
        return -ENOMEM;
    yaml_parser_set_input_string(&builder.parser, bytes, length);
    r = read_stream(&builder, &root);
    yaml_parser_delete(&builder.parser);
    if (r < 0)
        hinttree_free(root);
    else
        *ret_root = root;
    return r;
}

void hinttree_free(struct hinttree_node *root)
{
    while (root) {
        struct hinttree_node *next = root->next;

        hinttree_free(root->child);
        free(root);
        root = next;
    }
}
