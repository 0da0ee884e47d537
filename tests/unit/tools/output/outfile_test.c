/* SPDX-License-Identifier: MIT */
/* covers: outfile.c ours.c */
/* What a command may replace (R102); tests/unit/tools/outputs_cli.sh has the commands. */
#include "tests/check.h"

#include "tools/base/vec.h"
#include "tools/output/ours.h"
#include "tools/output/outfile.h"
#include "tracker/capture/capstate.h"
#include "tracker/capture/capture.h"
#include "tracker/where/where.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/outfile-XXXXXX";

/* An empty folder, and in it from here on. */
static void begin(void)
{
    (void)snprintf(folder, sizeof(folder), "/tmp/outfile-XXXXXX");
    REQUIRE(mkdtemp(folder) != NULL);
    REQUIRE_EQ(chdir(folder), 0);
    outfile_force(false);
}

static void end(void)
{
    DIR *files = opendir(".");
    const struct dirent *file;

    outfile_force(false);
    REQUIRE(files != NULL);
    while ((file = readdir(files)) != NULL) /* NOLINT(concurrency-mt-unsafe): a stream of its own */
        (void)unlink(file->d_name);
    REQUIRE_EQ(closedir(files), 0);
    REQUIRE_EQ(rmdir(folder), 0);
}

static void put(const char *path, const void *bytes, size_t length)
{
    FILE *out = fopen(path, "we");

    REQUIRE(out != NULL);
    REQUIRE_EQ(fwrite(bytes, 1, length, out), length);
    REQUIRE_EQ(fclose(out), 0);
}

static bool has(const char *path, const char *text)
{
    char found[256] = "";
    FILE *in = fopen(path, "re");
    size_t length = in ? fread(found, 1, sizeof(found) - 1, in) : 0;

    if (in)
        (void)fclose(in);
    return length == strlen(text) && memcmp(found, text, length) == 0;
}

static enum ours look(const char *bytes, size_t length)
{
    enum ours what;

    put("file", bytes, length);
    REQUIRE_EQ(ours_look("file", &what), 0);
    return what;
}

#define TEXT(text_) (text_), sizeof(text_) - 1

TEST(a_file_is_known_by_its_first_bytes)
{
    static const struct {
        enum ours what;
        const char *bytes;
        size_t length;
    } rows[] = {
            {OURS_CAPTURE, TEXT("KEDGECAP")},
            {OURS_CAPTURE, TEXT("KEDGECAP of another version")},
            {OURS_NOT, TEXT("KEDGECA")},
            {OURS_NOT, TEXT(" KEDGECAP")},
            {OURS_NOT, TEXT("x")},
            {OURS_WRITTEN, TEXT("<!DOCTYPE html>\n<head>\n<title>kedge report</title>\n")},
            {OURS_NOT, TEXT("<!DOCTYPE html>\n<head>\n<title>kedge reports</title>\n")},
            {OURS_NOT, TEXT("<!-- --><!DOCTYPE html><title>kedge report</title>\n")},
            {OURS_WRITTEN,
                    TEXT("<?xml version=\"1.0\"?>\n<testsuite name=\"kedge check\" tests=\"1\">")},
            {OURS_NOT, TEXT("<?xml version=\"1.0\"?>\n<testsuite name=\"pytest\" tests=\"1\">")},
            {OURS_NOT, TEXT("{\n  \"writer\": \"py-spy\"")},
            {OURS_NOT, TEXT("[\n  \"writer\": \"kedge 1.2\"")},
            {OURS_WRITTEN, TEXT("{\"otherData\": {\"writer\": \"kedge 1.2\"")},
            {OURS_WRITTEN, TEXT("kedge-receipt 2\n")},
            {OURS_NOT, TEXT("kedge-hints: 1\n")},
            {OURS_WRITTEN, TEXT("a;b 00000000000000000512\nc 1\n")},
            {OURS_NOT, TEXT("a;b 512\nc 00000000000000000512\n")},
            {OURS_NOT, TEXT("a;b 0000000000000000512\n")}, /* 19 digits */
            {OURS_NOT, TEXT("a;b_00000000000000000512\n")},
            {OURS_NOT, TEXT("a;b 10000000000000000512\n")},
            {OURS_NOT, TEXT("a;b 0000000000000000x512\n")},
            {OURS_NOT, TEXT("00000000000000000512\n")},
            {OURS_NOT, TEXT("a;b 00000000000000000512")},
            {OURS_WRITTEN, TEXT("op,id,size,stream,time_us\n")},
            {OURS_WRITTEN, TEXT("op,id,size,stream,time_us\na,0,00000000000000000512,0,-1\n")},
            {OURS_NOT, TEXT("op,id,size,stream,time_us\na,0,512,0,-1\n")},
            {OURS_NOT, TEXT("op,id,size,stream,time_us\na,00000000000000000512,0,0,-1\n")},
            {OURS_NOT, TEXT("id,op,size,stream,time_us\na,0,00000000000000000512,0,-1\n")},
            {OURS_NOT, TEXT("op,id,size,stream,time_us\na,0")},
            {OURS_NOT, TEXT("op,id,size,stream,time")},
            {OURS_WRITTEN, TEXT("\x1f\x8b\x08\x10\0\0\0\0\0\3kedge 1.2")},
            {OURS_NOT, TEXT("\x1f\x8b\x08\x10\0\0\0\0\0\3gzip kedge 1.2")},
            {OURS_NOT, TEXT("\x1f\x8b\x08\0\0\0\0\0\0\3kedge 1.2")},
            {OURS_WRITTEN, TEXT("\x80\4}(\x8c\5kedge\x94")},
            {OURS_NOT, TEXT("\x80\4}(\x8c\10segments\x94\x8c\5kedge\x94")},
            {OURS_NOT, TEXT("\x28\xb5\x2f\xfd of no archive")},
    };

    begin();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        CHECK_EQ(100 * i + look(rows[i].bytes, rows[i].length), 100 * i + rows[i].what);
    end();
}

TEST(a_database_is_known_by_its_application_id)
{
    char head[100] = "SQLite format 3";

    begin();
    CHECK_EQ(look(head, sizeof(head)), OURS_NOT);
    memcpy(head + 68, "kedg", 4);
    CHECK_EQ(look(head, sizeof(head)), OURS_WRITTEN);
    CHECK_EQ(look(head, 71), OURS_NOT);
    head[15] = '4';
    CHECK_EQ(look(head, sizeof(head)), OURS_NOT);
    end();
}

static int write_text(const char *path, enum outfile_kind kind)
{
    return outfile_write("test", path, kind, "new", 3);
}

#define FOREIGN "mine\n"
#define OWN     "kedge-receipt 2\n"
#define CAPTURE "KEDGECAP"

static void check_kind(enum outfile_kind kind, const char *old, bool may)
{
    int want = may ? 0 : -EEXIST;

    put("file", old, strlen(old));
    CHECK_EQ(outfile_look("test", "file", kind), want);
    CHECK_EQ(write_text("file", kind), want);
    CHECK(has("file", may ? "new" : old));
}

/* Which kind replaces what, with --force and without. */
TEST(r102_each_kind_of_output_replaces_what_it_may)
{
    begin();
    for (unsigned kind = OUTFILE_PRIVATE; kind <= OUTFILE_HINTS; kind++) {
        for (unsigned force = 0; force < 2; force++) {
            outfile_force(force == 1);
            check_kind(kind, FOREIGN, force == 1);
            check_kind(kind, OWN, force == 1 || kind != OUTFILE_HINTS);
            check_kind(kind, CAPTURE, false); /* nobody knows whether its process is gone */
            check_kind(kind, "", true);
        }
    }
    CHECK_EQ(write_text("fresh", OUTFILE_HINTS), 0);
    end();
}

TEST(r102_what_is_read_is_not_replaced_under_any_name)
{
    static const char *const names[] = {"input", "./input", "hard", "soft", "soft2"};

    begin();
    put("input", OWN, strlen(OWN));
    REQUIRE_EQ(link("input", "hard"), 0);
    REQUIRE_EQ(symlink("input", "soft"), 0);
    REQUIRE_EQ(symlink("soft", "soft2"), 0);
    outfile_reads("nowhere");
    outfile_reads(folder);
    outfile_reads("input");
    for (int force = 0; force < 2; force++) {
        outfile_force(force);
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
            CHECK_EQ(write_text(names[i], OUTFILE_CAPTURE), -EEXIST);
            CHECK_EQ(write_text(names[i], OUTFILE_PRIVATE), -EEXIST);
        }
    }
    CHECK(has("input", OWN));
    end();
}

/* Between the first look and the end a job may begin, or a person save a file. */
TEST(r102_what_appears_meanwhile_stays)
{
    struct outfile file;

    begin();
    for (int was_there = 0; was_there < 3; was_there++) {
        if (was_there)
            put("file", was_there == 1 ? "" : OWN, was_there == 1 ? 0 : strlen(OWN));
        REQUIRE_EQ(outfile_open("test", "file", OUTFILE_PRIVATE, &file), 0);
        put("file", CAPTURE, strlen(CAPTURE));
        CHECK_EQ(outfile_done(&file, true), -EEXIST);
        CHECK(has("file", CAPTURE));
        REQUIRE_EQ(unlink("file"), 0);
    }
    /* What may be replaced is, also if it has just appeared, or gone. */
    REQUIRE_EQ(outfile_open("test", "file", OUTFILE_PRIVATE, &file), 0);
    put("file", OWN, strlen(OWN));
    CHECK_EQ(outfile_done(&file, true), 0);
    CHECK(has("file", ""));
    REQUIRE_EQ(outfile_open("test", "file", OUTFILE_PRIVATE, &file), 0);
    REQUIRE_EQ(unlink("file"), 0);
    CHECK_EQ(outfile_done(&file, true), 0);
    CHECK(has("file", ""));
    REQUIRE_EQ(unlink("file"), 0);
    REQUIRE_EQ(rmdir(folder), 0); /* no draft is left */
    REQUIRE_EQ(mkdir(folder, 0700), 0);
    REQUIRE_EQ(chdir(folder), 0);
    end();
}

/* Opening a link of the system for a file that has no name any more writes where it stands: the same holds there. */
TEST(r102_a_file_without_a_name_is_looked_at_as_well)
{
    char path[64];
    struct stat status;

    begin();
    put("file", FOREIGN, strlen(FOREIGN));
    int fd = open("file", O_RDWR | O_CLOEXEC);
    REQUIRE(fd >= 0);
    REQUIRE_EQ(unlink("file"), 0);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    CHECK_EQ(write_text(path, OUTFILE_PRIVATE), -EEXIST);
    REQUIRE_EQ(fstat(fd, &status), 0);
    CHECK_EQ(status.st_size, strlen(FOREIGN));
    outfile_force(true);
    CHECK_EQ(write_text(path, OUTFILE_PRIVATE), 0);
    REQUIRE_EQ(fstat(fd, &status), 0);
    CHECK_EQ(status.st_size, 3);
    (void)close(fd);
    end();
}

static void write_capture(const char *path)
{
    struct capture_opts opts = {.file = path, .trace = FORMAT_TRACE_FULL};

    REQUIRE_EQ(where_init(&(struct where_opts){.unwind = {.mode = UNWIND_FP}}), 0);
    REQUIRE_EQ(capture_init(&opts), 0);
    REQUIRE_EQ(capstate_open(), 0);
}

TEST(r102_a_capture_gives_way_to_another_when_its_process_is_gone)
{
    int status;

    begin();
    pid_t child = fork();
    if (child == 0) {
        write_capture("old.kcap");
        _exit(0);
    }
    REQUIRE_EQ(waitpid(child, &status, 0), child);
    REQUIRE_EQ(status, 0);
    write_capture("live.kcap");
    outfile_force(true);
    CHECK_EQ(write_text("live.kcap", OUTFILE_CAPTURE), -EEXIST);
    CHECK_EQ(write_text("live.kcap", OUTFILE_PRIVATE), -EEXIST);
    CHECK_EQ(write_text("old.kcap", OUTFILE_BUNDLE), -EEXIST);
    outfile_force(false);
    CHECK_EQ(write_text("old.kcap", OUTFILE_CAPTURE), 0);
    CHECK(has("old.kcap", "new"));
    end();
}

TEST(devices_and_directories_are_what_they_were)
{
    begin();
    CHECK_EQ(write_text("/dev/null", OUTFILE_PRIVATE), 0);
    CHECK_EQ(write_text(folder, OUTFILE_PRIVATE), -EISDIR);
    CHECK_EQ(write_text("none/file", OUTFILE_PRIVATE), -ENOENT);
    /* a command is told so before it begins */
    CHECK_EQ(outfile_look("test", folder, OUTFILE_PRIVATE), -EISDIR);
    CHECK_EQ(outfile_look("test", "none/file", OUTFILE_PRIVATE), -ENOENT);
    REQUIRE_EQ(symlink("none/file", "link"), 0);
    CHECK_EQ(outfile_look("test", "link", OUTFILE_PRIVATE), -ENOENT);
    REQUIRE_EQ(unlink("link"), 0);
    REQUIRE_EQ(symlink("file", "link"), 0);
    CHECK_EQ(outfile_look("test", "link", OUTFILE_PRIVATE), 0);
    end();
}
