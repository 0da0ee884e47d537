/* SPDX-License-Identifier: MIT */
/* covers: capdefs.c */
/*
 * What is interned while definitions are being written: everything in the file names only what is in the file. The other thread is
 * this one, between two counts (the linker's --wrap).
 */
#include "tests/unit/tracker/track_help.h"

#include "tracker/capture/capdefs.h"
#include "tracker/python/pycode.h"
#include "tracker/reader/readpart.h"
#include "tracker/stacks/intern.h"

enum {
    CODES_MAX = 16,
};

static bool others_are_at_work;
static uint32_t names[CODES_MAX];
static uint32_t codes;

/* A Python function that nobody has heard of. */
static void another_function(void)
{
    char text[32];

    if (!others_are_at_work || codes == CODES_MAX)
        return;
    (void)snprintf(text, sizeof text, "function_%u", codes);
    names[codes] = intern_string(text, strlen(text));
    codes++;
}

void __real_intern_counts(struct intern_counts *ret_counts);
void __wrap_intern_counts(struct intern_counts *ret_counts);
void __wrap_pycode_counts(struct pycode_counts *ret_counts);
bool __wrap_pycode_at(uint32_t number, struct pycode *ret_code, const char **ret_lines);

void __wrap_intern_counts(struct intern_counts *ret_counts)
{
    __real_intern_counts(ret_counts);
    another_function();
}

void __wrap_pycode_counts(struct pycode_counts *ret_counts)
{
    *ret_counts = (struct pycode_counts){.codes = codes};
    another_function();
}

bool __wrap_pycode_at(uint32_t number, struct pycode *ret_code, const char **ret_lines)
{
    uint32_t name = names[number - 1];

    *ret_code = (struct pycode){.name = name, .qualname = name, .file = name};
    *ret_lines = "";
    return true;
}

TEST(what_is_written_names_nothing_that_is_not)
{
    char file[TRACK_PATH_MAX];
    struct read_capture *capture;

    track_path(file, track_scratch(), "defs.kcap");
    track_start(file, FORMAT_TRACE_FULL, 0);
    CHECK_EQ(track_alloc(0x1000, 100, 1), 0); /* makes the file */
    others_are_at_work = true;
    for (unsigned i = 0; i < 3; i++) {
        CHECK_EQ(capdefs_sync_all(), 0);
        capture = track_read(file);
        REQUIRE(capture != NULL);
        CHECK_EQ(capture->private->codes, i + i);
        for (uint32_t at = 1; at <= capture->private->codes; at++) {
            CHECK_LE(capture->private->code[at].def.name, capture->private->strings);
            CHECK_STR_EQ(reader_string(capture, capture->private->code[at].def.name),
                    intern_text(names[at - 1]));
        }
        CHECK_EQ(capture->bad_records, 0);
        read_close(capture);
    }
}
