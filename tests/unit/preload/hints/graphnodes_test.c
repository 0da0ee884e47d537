/* SPDX-License-Identifier: MIT */
/* covers: graphnodes.c */
/* Which graph a node is of, through all that makes one graph a part of another one and takes it away. */
#include "preload/hints/graphnodes.h"
#include "tests/check.h"

#include "alloc/base/meta.h"
#include "alloc/base/table.h"

/* Handles are numbers: graphs are 1000 and more, their nodes the thousand and some. */
enum {
    NODES = 5,
};

static void note_nodes(uint64_t graph)
{
    for (uint64_t i = 1; i <= NODES; i++)
        graphnodes_note(graph, graph + i);
}

/* Whether each node of `graph` is a node of `outer`, which may be 0: not known. */
static bool are_of(uint64_t graph, uint64_t outer)
{
    bool are = true;

    for (uint64_t i = 1; i <= NODES; i++)
        are &= graphnodes_graph(graph + i) == outer;
    return are;
}

TEST(a_node_is_of_its_graph_until_it_or_the_graph_is_gone)
{
    graphnodes_note(2000, 1);
    note_nodes(1000);
    note_nodes(2000);
    CHECK(are_of(1000, 1000));
    CHECK(are_of(2000, 2000));
    CHECK_EQ(graphnodes_owner(1000), 1000);
    CHECK_EQ(graphnodes_graph(3001), 0);
    for (uint64_t i = 1; i <= NODES; i += 2) /* the last of the list, one inside, and the first */
        graphnodes_node_gone(1000 + i);
    for (uint64_t i = 1; i <= NODES; i++)
        CHECK_EQ(graphnodes_graph(1000 + i), i % 2 ? 0 : 1000);
    graphnodes_gone(1000);
    CHECK(are_of(1000, 0));
    CHECK(are_of(2000, 2000));
    graphnodes_gone(1000);
    graphnodes_node_gone(1001);
    CHECK_EQ(graphnodes_graph(1), 2000);
    graphnodes_gone(2000);
    CHECK(are_of(2000, 0));
    CHECK_EQ(graphnodes_graph(1), 0);
}

/* A handle is another graph's node right after its own is gone, and one whose end nobody has seen moves at once. */
TEST(a_handle_that_comes_back_is_of_the_graph_that_has_it_last)
{
    note_nodes(1000);
    for (uint64_t i = 1; i <= NODES; i++)
        graphnodes_note(2000, 1000 + i);
    CHECK(are_of(1000, 2000));
    graphnodes_gone(1000);
    CHECK(are_of(1000, 2000));
    graphnodes_note(2000, 1001); /* twice is once */
    graphnodes_gone(2000);
    CHECK(are_of(1000, 0));
    graphnodes_note(3000, 1002);
    CHECK_EQ(graphnodes_graph(1002), 3000);
    graphnodes_gone(3000);
    CHECK(are_of(1000, 0));
}

TEST(what_is_inside_of_a_graph_is_of_the_outermost_and_ends_with_it)
{
    note_nodes(3000);
    graphnodes_embed(2000, 3000);
    CHECK(are_of(3000, 2000));
    note_nodes(2000);
    graphnodes_embed(1000, 2000);
    CHECK(are_of(3000, 1000));
    CHECK(are_of(2000, 1000));
    CHECK_EQ(graphnodes_owner(2000), 1000);
    CHECK_EQ(graphnodes_owner(3000), 1000);
    graphnodes_note(3000, 3000 + NODES + 1); /* one more of the innermost */
    CHECK_EQ(graphnodes_graph(3000 + NODES + 1), 1000);
    graphnodes_embed(3000, 1000); /* a graph cannot be inside of its own part */
    CHECK_EQ(graphnodes_owner(3000), 1000);
    CHECK_EQ(graphnodes_owner(1000), 1000);
    graphnodes_gone(1000);
    CHECK(are_of(3000, 0));
    CHECK(are_of(2000, 0));
    CHECK_EQ(graphnodes_graph(3000 + NODES + 1), 0);
    CHECK_EQ(graphnodes_owner(3000), 3000);
}

TEST(no_graph_and_no_node_are_nothing)
{
    uint64_t before;

    note_nodes(2000);
    before = meta_bytes();
    for (uint64_t node = 5000; node < 500000; node++)
        graphnodes_note(0, node);
    CHECK_EQ(meta_bytes(), before);
    graphnodes_note(1000, 0);
    graphnodes_embed(0, 2000);
    graphnodes_embed(2000, 0);
    CHECK_EQ(graphnodes_graph(5000), 0);
    CHECK_EQ(graphnodes_graph(0), 0);
    CHECK(are_of(2000, 2000));
    CHECK_EQ(graphnodes_owner(2000), 2000);
    CHECK_EQ(graphnodes_owner(0), 0);
}

/* Graphs that come and go, in every way, cost nothing more. */
TEST(what_is_gone_has_given_its_memory_back)
{
    uint64_t before = 0;

    for (uint64_t round = 1; round <= 50000; round++) {
        uint64_t graph = round * 3000;

        for (uint64_t i = 0; i < 3000; i += 1000)
            note_nodes(graph + i);
        graphnodes_embed(graph + 1000, graph);
        for (uint64_t i = 1; i <= NODES; i++)
            graphnodes_node_gone(graph + 2000 + i);
        graphnodes_gone(graph + 1000);
        if (round == 100)
            before = meta_bytes();
    }
    CHECK_EQ(meta_bytes(), before);
}

/* ---- without memory ------------------------------------------------------------------------- */

static int fail_at, additions;

void *__real_table_add(struct table *table, uint64_t key);
void *__wrap_table_add(struct table *table, uint64_t key);

void *__wrap_table_add(struct table *table, uint64_t key)
{
    return ++additions == fail_at ? NULL : __real_table_add(table, key);
}

static bool is_of(uint64_t node, uint64_t graph, uint64_t outer)
{
    uint64_t is = graphnodes_graph(node);

    return is == 0 || is == graph || is == outer;
}

/* What there is no memory for is not known, or is of the graph that it was of; and nothing of it is left when both are gone. */
TEST(a_node_without_memory_is_not_known)
{
    FAIL_NTH(n, has_failed)
    {
        fail_at = n;
        additions = 0;
        note_nodes(1000);
        note_nodes(2000);
        graphnodes_embed(1000, 2000);
        has_failed = additions >= n;
        fail_at = 0;
        for (uint64_t i = 1; i <= NODES; i++) {
            CHECK(is_of(1000 + i, 1000, 1000));
            CHECK(is_of(2000 + i, 2000, 1000));
        }
        CHECK(has_failed || are_of(2000, 1000));
        graphnodes_note(1000, 1001);
        CHECK_EQ(graphnodes_graph(1001), 1000);
        graphnodes_gone(1000);
        graphnodes_gone(2000);
        CHECK(are_of(1000, 0));
        CHECK(are_of(2000, 0));
    }
}
