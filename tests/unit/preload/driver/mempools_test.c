/* SPDX-License-Identifier: MIT */
/* covers: mempools.c */
/* The program's memory pools by number, which the driver gives out again. */
#include "preload/driver/contexts.h"
#include "preload/driver/mempools.h"
#include "preload/driver/resolve.h"
#include "tests/check.h"

/* No driver: nothing here asks it. */
void *resolve_real[SLOT_COUNT];

bool resolve_has(enum resolve_slot slot)
{
    (void)slot;
    return false;
}

/* Nobody remembers anything. */
void context_changed(void)
{
}

static CUmemoryPool handle(uintptr_t number)
{
    return (CUmemoryPool)number;
}

static CUmemPoolProps props_of(int device)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};

    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = device;
    return props;
}

TEST(r77_pools_that_can_leave_the_process_are_not_served)
{
    CUmemPoolProps props = props_of(1);
    struct mempool found;

    mempool_created(handle(1), &props);
    REQUIRE(mempool_find(handle(1), &found));
    CHECK_EQ(found.device, 1);
    CHECK(!mempool_is_host(handle(1)));
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    mempool_created(handle(2), &props);
    CHECK(!mempool_find(handle(2), &found));
    props = props_of(0);
    props.maxSize = 4096;
    mempool_created(handle(3), &props);
    CHECK(!mempool_find(handle(3), &found));
    props = props_of(0);
    props.location.type = CU_MEM_LOCATION_TYPE_HOST;
    mempool_created(handle(4), &props);
    CHECK(!mempool_find(handle(4), &found));
    CHECK(mempool_is_host(handle(4)));
}

/* Between the driver's destruction of a pool and the return of that call another thread may get its number. */
TEST(r77_a_number_that_comes_back_while_its_pool_is_destroyed_is_the_new_pool)
{
    CUmemPoolProps props = props_of(0);
    struct mempool old, found;
    uint64_t id;

    mempool_created(handle(7), &props);
    REQUIRE(mempool_find(handle(7), &old));
    id = mempool_destroy_begin(handle(7));
    CHECK_EQ(id, old.id);
    CHECK(!mempool_find(handle(7), &found));
    CHECK(!mempool_of_id(id, &found));
    mempool_created(handle(7), &props); /* the other thread */
    REQUIRE(mempool_find(handle(7), &found));
    CHECK_NE(found.id, id);
    mempool_destroy_end(id, true, &old);
    CHECK(old.served);
    CHECK_EQ(old.id, id);
    CHECK(mempool_find(handle(7), &found));
    CHECK(!mempool_of_id(id, &old));
}

TEST(a_pool_that_the_driver_does_not_destroy_is_what_it_was)
{
    CUmemPoolProps props = props_of(0);
    struct mempool old, found;
    uint64_t id;

    mempool_created(handle(9), &props);
    id = mempool_destroy_begin(handle(9));
    mempool_destroy_end(id, false, &old);
    REQUIRE(mempool_find(handle(9), &found));
    CHECK_EQ(found.id, id);
    CHECK(mempool_of_id(id, &found));
    CHECK_EQ(mempool_destroy_begin(handle(10)), 0);
}
