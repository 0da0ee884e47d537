/* SPDX-License-Identifier: MIT */
/* covers: bestfit.c */
#include "alloc/index/bestfit.h"
#include "tests/check.h"

#define BLOCKS 600

/* What bestfit must agree with: a list, searched from one end to the other. */
struct naive {
    struct slab slab;
    struct bestfit fit;
    bool in[BLOCKS + 1];
    uint64_t random;
};

static uint64_t next_random(struct naive *n)
{
    n->random = n->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return n->random >> 33;
}

static struct bestfit_node *node_at(const struct naive *n, uint32_t index)
{
    return slab_at(&n->slab, index);
}

static void setup(struct naive *n)
{
    memset(n, 0, sizeof(*n));
    n->random = 7;
    REQUIRE_EQ(slab_init(&n->slab, 64, BLOCKS + 2), 0);
    bestfit_init(&n->fit, &n->slab);
    for (uint32_t i = 1; i <= BLOCKS; i++)
        REQUIRE_EQ(slab_take(&n->slab), i);
}

static void put(struct naive *n, uint32_t index, uint64_t size, devptr_t base)
{
    node_at(n, index)->size = size;
    node_at(n, index)->base = base;
    bestfit_insert(&n->fit, index);
    n->in[index] = true;
}

static bool is_less(const struct bestfit_node *a, const struct bestfit_node *b)
{
    return a->size != b->size ? a->size < b->size : a->base < b->base;
}

static uint32_t naive_bound(const struct naive *n, uint64_t size, devptr_t base)
{
    struct bestfit_node at = {.base = base, .size = size};
    uint32_t best = 0;

    for (uint32_t i = 1; i <= BLOCKS; i++) {
        if (n->in[i] && !is_less(node_at(n, i), &at)
                && (!best || is_less(node_at(n, i), node_at(n, best))))
            best = i;
    }
    return best;
}

static uint64_t random_size(struct naive *n)
{
    static const uint64_t most[] = {4, 64, 4096, 1 << 20, UINT64_C(1) << 27};

    return 512 * (1 + next_random(n) % most[next_random(n) % 5]);
}

/* What a walk meets, until `left` blocks were met. */
struct walked {
    struct naive *n;
    uint32_t last;
    uint32_t left;
};

static bool next_of_walk(void *self, uint32_t index)
{
    struct walked *walked = self;
    const struct bestfit_node *last = node_at(walked->n, walked->last);

    CHECK_EQ(index, naive_bound(walked->n, last->size, last->base + 1));
    walked->last = index;
    return --walked->left > 0;
}

/* All blocks in order, or as many as it wants. */
static void walk(struct naive *n, uint32_t most)
{
    struct walked walked = {n, 0, most};

    bestfit_each(&n->fit, next_of_walk, &walked);
    CHECK_EQ(walked.left, most - (n->fit.count < most ? n->fit.count : most));
}

TEST(finds_what_a_list_finds)
{
    struct naive n;
    struct bestfit other;

    setup(&n);
    bestfit_init(&other, &n.slab);
    for (int step = 0; step < 20000; step++) {
        uint32_t index = 1 + (uint32_t)(next_random(&n) % BLOCKS);
        uint64_t size = random_size(&n);
        devptr_t base = 512 * (next_random(&n) % 100000);

        if (n.in[index]) {
            bestfit_remove(&n.fit, index);
            n.in[index] = false;
        } else {
            put(&n, index, size, base + ((devptr_t)index << 40));
        }
        CHECK_EQ(bestfit_lower_bound(&n.fit, size, 0), naive_bound(&n, size, 0));
        CHECK_EQ(bestfit_lower_bound(&n.fit, size, base), naive_bound(&n, size, base));
        CHECK_EQ(bestfit_find(&n.fit, size, 512), naive_bound(&n, size, 0));
        if (step % 500 == 0) {
            REQUIRE_EQ(bestfit_check(&n.fit), 0);
            walk(&n, 1 + (uint32_t)(next_random(&n) % (2 * BLOCKS)));
            bestfit_swap(&n.fit, &other);
            REQUIRE_EQ(bestfit_check(&n.fit) + bestfit_check(&other), 0);
            CHECK_EQ(n.fit.count, 0);
            bestfit_swap(&n.fit, &other);
        }
    }
    slab_done(&n.slab);
}

/* A block that loses an end stays in order, or is left as it was. */
TEST(what_shrinks_keeps_its_place)
{
    struct naive n;
    unsigned shrunk = 0;

    setup(&n);
    for (uint32_t i = 1; i <= BLOCKS; i++)
        put(&n, i, random_size(&n), (devptr_t)i << 40);
    for (int step = 0; step < 20000; step++) {
        uint32_t index = 1 + (uint32_t)(next_random(&n) % BLOCKS);
        struct bestfit_node before = *node_at(&n, index);
        struct bestfit_node rest = before;

        if (before.size <= 512) {
            bestfit_remove(&n.fit, index);
            put(&n, index, random_size(&n), before.base);
            continue;
        }
        rest.size -=
                512 * (1 + next_random(&n) % (before.size / 512 - 1)) / (1 + next_random(&n) % 64);
        rest.size &= ~UINT64_C(511);
        if (next_random(&n) % 2)
            rest.base += before.size - rest.size;
        if (rest.size == before.size)
            continue;
        if (bestfit_shrink(&n.fit, index, &rest)) {
            shrunk++;
        } else {
            CHECK_EQ(node_at(&n, index)->base, before.base);
            CHECK_EQ(node_at(&n, index)->size, before.size);
        }
        CHECK_EQ(bestfit_lower_bound(&n.fit, rest.size, 0), naive_bound(&n, rest.size, 0));
        if (step % 100 == 0)
            REQUIRE_EQ(bestfit_check(&n.fit), 0);
    }
    printf("%u shrunk\n", shrunk);
    CHECK_GT(shrunk, 100);
    slab_done(&n.slab);
}

TEST(an_aligned_block_fits_where_it_says)
{
    struct naive n;

    setup(&n);
    for (uint32_t i = 1; i <= BLOCKS; i++)
        put(&n, i, random_size(&n), 512 * (next_random(&n) % 100000) + ((devptr_t)i << 40));
    for (int step = 0; step < 5000; step++) {
        uint64_t size = random_size(&n);
        uint64_t align = UINT64_C(512) << next_random(&n) % 13;
        uint32_t found = bestfit_find(&n.fit, size, align);
        bool any = false;

        if (found) {
            const struct bestfit_node *node = node_at(&n, found);

            CHECK_LE(((node->base + align - 1) & ~(align - 1)) + size, node->base + node->size);
            continue;
        }
        /* nothing that is large enough wherever it lies may have been missed */
        for (uint32_t i = 1; i <= BLOCKS; i++)
            any = any || node_at(&n, i)->size >= size + align - 512;
        CHECK(!any);
    }
    slab_done(&n.slab);
}

TEST(classes_rise_with_the_size)
{
    uint32_t before = 0;

    for (uint64_t units = 1; units < UINT64_C(1) << 40; units += 1 + units / 100) {
        uint32_t class = bestfit_class(units * 512);

        CHECK_GE(class, before);
        CHECK_LT(class, BESTFIT_CLASSES);
        if (units < 64)
            CHECK_EQ(class, units);
        before = class;
    }
}

TEST(the_largest_is_the_largest)
{
    struct naive n;

    setup(&n);
    CHECK_EQ(bestfit_largest(&n.fit), 0);
    for (uint32_t i = 1; i <= BLOCKS; i++) {
        uint64_t largest = 0;

        put(&n, i, random_size(&n), (devptr_t)i << 40);
        for (uint32_t k = 1; k <= i; k++)
            largest = node_at(&n, k)->size > largest ? node_at(&n, k)->size : largest;
        REQUIRE(bestfit_largest(&n.fit) != 0);
        CHECK_EQ(node_at(&n, bestfit_largest(&n.fit))->size, largest);
    }
    slab_done(&n.slab);
}

TEST(a_damaged_index_is_noticed)
{
    struct naive n;

    setup(&n);
    for (uint32_t i = 1; i <= 50; i++)
        put(&n, i, 512 * 10, (devptr_t)i << 30);
    CHECK_EQ(bestfit_check(&n.fit), 0);
    node_at(&n, 20)->base = 0; /* out of order now */
    CHECK_NE(bestfit_check(&n.fit), 0);
    node_at(&n, 20)->base = (devptr_t)20 << 30;
    n.fit.count++;
    CHECK_NE(bestfit_check(&n.fit), 0);
    n.fit.count--;
    n.fit.map[0] = 0;
    CHECK_NE(bestfit_check(&n.fit), 0);
    slab_done(&n.slab);
}

/* Wherever in its trees: a size, an address or a way to others that is not what it was. */
TEST(a_check_finds_each_node_that_was_changed)
{
    static struct naive n;

    setup(&n);
    for (uint32_t i = 1; i <= 200; i++)
        put(&n, i, (1 + next_random(&n) % 40) * 64 * 1024, (devptr_t)i << 30);
    REQUIRE_EQ(bestfit_check(&n.fit), 0);
    for (uint32_t i = 1; i <= 200; i++) {
        struct bestfit_node *node = node_at(&n, i);
        struct bestfit_node was = *node;

        node->size *= 3;
        CHECK_NE(bestfit_check(&n.fit), 0);
        *node = was;
        if (was.left) {
            node->left = 0;
            CHECK_NE(bestfit_check(&n.fit), 0);
            *node = was;
        }
        if (was.right) {
            node->right = 0;
            CHECK_NE(bestfit_check(&n.fit), 0);
            *node = was;
        }
    }
    CHECK_EQ(bestfit_check(&n.fit), 0);
}
