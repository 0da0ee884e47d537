/* SPDX-License-Identifier: MIT */
/* covers: pickle.c */
#include "tests/check.h"
#include "tools/import/pickle.h"

#include <errno.h>
#include <string.h>

static struct pickle pickle;
static struct pickle_error error;

/* A pickle from its bytes without PROTO. Returns what pickle_read does. */
static int read_all(const char *bytes, size_t length)
{
    static unsigned char copy[512]; /* texts lie in it */

    copy[0] = 0x80;
    copy[1] = 4;
    memcpy(copy + 2, bytes, length);
    error = (struct pickle_error){0};
    return pickle_read(copy, length + 2, &pickle, &error);
}

#define READ(bytes_) read_all((bytes_), sizeof(bytes_) - 1)

static int64_t number(void)
{
    int64_t value = pickle.root.u.number;

    CHECK_EQ(pickle.root.kind, PICKLE_INT);
    pickle_done(&pickle);
    return value;
}

TEST(numbers_of_every_form)
{
    REQUIRE(READ("K\xff.") == 0);
    CHECK_EQ(number(), 255);
    REQUIRE(READ("M\x34\x12.") == 0);
    CHECK_EQ(number(), 0x1234);
    REQUIRE(READ("J\xfe\xff\xff\xff.") == 0);
    CHECK_EQ(number(), -2);
    REQUIRE(READ("\x8a\x00.") == 0);
    CHECK_EQ(number(), 0);
    REQUIRE(READ("\x8a\x01\x80.") == 0);
    CHECK_EQ(number(), -128);
    REQUIRE(READ("\x8a\x06\x00\x00\x40\x2c\x7f\x00.") == 0); /* an address */
    CHECK_EQ(number(), 0x7f2c400000);
    REQUIRE(READ("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00.") == 0);
    CHECK_EQ((uint64_t)number(), UINT64_C(1) << 63);
    REQUIRE(READ("\x8b\x02\x00\x00\x00\x01\x02.") == 0);
    CHECK_EQ(number(), 0x201);
    REQUIRE(READ("G\x3f\xf8\x00\x00\x00\x00\x00\x00.") == 0);
    CHECK(pickle.root.kind == PICKLE_REAL && pickle.root.u.real == 1.5);
    pickle_done(&pickle);
    REQUIRE(READ("\x88.") == 0);
    CHECK(pickle.root.kind == PICKLE_BOOL && pickle.root.u.number == 1);
    pickle_done(&pickle);
}

/* [(), (1,), {"a": [2, 3], "b": None}], the second text by its memo. */
TEST(containers_hold_what_was_put_into_them)
{
    size_t count;
    const struct pickle_value *items;

    REQUIRE(READ("](\x8c\x01"
                 "a\x94"
                 "0)K\x01\x85}(h\x00](K\x02K\x03"
                 "e\x8c\x01"
                 "bNue.")
            == 0);
    items = pickle_items(&pickle, &pickle.root, &count);
    REQUIRE(count == 3);
    CHECK_EQ(items[0].kind, PICKLE_LIST);
    CHECK_EQ(items[2].kind, PICKLE_DICT);
    CHECK(pickle_get(&pickle, &items[2], "c") == NULL);
    CHECK(pickle_get(&pickle, &items[1], "a") == NULL);
    REQUIRE(pickle_get(&pickle, &items[2], "b") != NULL);
    CHECK_EQ(pickle_get(&pickle, &items[2], "b")->kind, PICKLE_NONE);
    (void)pickle_items(&pickle, &items[0], &count);
    CHECK_EQ(count, 0);
    CHECK_EQ(pickle_items(&pickle, &items[1], &count)[0].u.number, 1);
    items = pickle_items(&pickle, pickle_get(&pickle, &items[2], "a"), &count);
    REQUIRE(count == 2);
    CHECK_EQ(items[1].u.number, 3);
    CHECK(pickle_items(&pickle, &items[1], &count) == NULL && count == 0);
    pickle_done(&pickle);
}

/* A list that is its own element, as Python can have it. */
TEST(a_list_may_hold_itself)
{
    size_t count;
    const struct pickle_value *items;

    REQUIRE(READ("]\x94h\x00"
                 "a.")
            == 0);
    items = pickle_items(&pickle, &pickle.root, &count);
    REQUIRE(count == 1);
    CHECK_EQ(items[0].u.list, pickle.root.u.list);
    pickle_done(&pickle);
}

TEST(the_last_of_equal_keys_counts)
{
    REQUIRE(READ("}(\x8c\x01kK\x01\x8c\x01kK\x02u.") == 0);
    REQUIRE(pickle_get(&pickle, &pickle.root, "k") != NULL);
    CHECK_EQ(pickle_get(&pickle, &pickle.root, "k")->u.number, 2);
    pickle_done(&pickle);
}

static void refused(const char *bytes, size_t length, size_t offset, const char *text)
{
    int r = read_all(bytes, length);

    CHECK_EQ(r, -EINVAL);
    CHECK_EQ(error.offset, offset);
    if (!strstr(error.text, text))
        CHECK_STR_EQ(error.text, text);
    if (r == 0)
        pickle_done(&pickle);
}

#define REFUSED(bytes_, offset_, text_) refused((bytes_), sizeof(bytes_) - 1, (offset_), (text_))

/* os.system("true"), in two forms, and what else runs code. */
TEST(code_is_refused_by_name_and_place)
{
    REFUSED("cos\nsystem\n(\x8c\x04trueR.", 2, "GLOBAL");
    REFUSED("\x8c\x02os\x8c\x06system\x93.", 2 + 12, "STACK_GLOBAL");
    REFUSED("K\x01)R.", 5, "REDUCE");
    REFUSED("}}b.", 4, "BUILD");
    REFUSED("(ios\nsystem\n.", 3, "INST");
    REFUSED("(o.", 3, "OBJ");
    REFUSED("))\x81.", 4, "NEWOBJ");
    REFUSED("Pid\n.", 2, "PERSID");
    REFUSED("N\x51.", 3, "BINPERSID");
    REFUSED("\x82\x01.", 2, "EXT1");
}

TEST(what_makes_no_sense_has_its_place)
{
    REFUSED("", 2, "ends here");
    REFUSED("K", 3, "ends here");
    REFUSED("\x8c\x05"
            "ab.",
            7, "ends here");
    REFUSED("X\xff\xff\xff\xff"
            "a.",
            9, "ends here");
    REFUSED("\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
            "a.",
            13, "ends here");
    REFUSED(".", 2, "too few");
    REFUSED("(.", 3, "too few");
    REFUSED("K\x01(.", 5, "too few");
    REFUSED("NNa.", 4, "no list");
    REFUSED("](NK\x01u.", 7, "no dict");
    REFUSED("}(Nu.", 5, "without a value");
    REFUSED("e.", 2, "no mark");
    REFUSED("h\x00.", 2, "memo 0 is not there");
    REFUSED("Nr\xff\xff\xff\x7f.", 3, "out of turn");
    REFUSED("\x94.", 2, "too few");
    REFUSED("(N.", 4, "a mark");
    REFUSED("\xfe.", 2, "no instruction");
    REFUSED("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x01.", 2, "64 bits");
    REFUSED("\x80\x09.", 2, "protocol 9");
}

TEST(other_files_are_no_pickles)
{
    static const unsigned char text[] = "op,id,size\n";

    CHECK_EQ(pickle_read(text, sizeof text - 1, &pickle, &error), -EINVAL);
    CHECK_EQ(error.offset, 0);
    CHECK_EQ(pickle_read(text, 0, &pickle, &error), -EINVAL);
}
