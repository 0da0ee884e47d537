/* SPDX-License-Identifier: MIT */
/* covers: spawn.c captures.c */
#include "tests/check.h"

#include "tools/load/captures.h"
#include "tools/run/spawn.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct launch launch_of(char **argv)
{
    extern char **environ;
    return (struct launch){.argv = argv, .env = environ};
}

TEST(exit_codes_and_signals_are_told)
{
    char *seven[] = {(char[]){"/bin/sh"}, (char[]){"-c"}, (char[]){"exit 7"}, NULL};
    char *killed[] = {(char[]){"/bin/sh"}, (char[]){"-c"}, (char[]){"kill -9 $$"}, NULL};
    struct launch l = launch_of(seven);
    int status = 0;
    REQUIRE_EQ(spawn_wait("test", &l, NULL, &status), 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    l = launch_of(killed);
    REQUIRE_EQ(spawn_wait("test", &l, NULL, &status), 0);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == 9);
}

TEST(a_program_that_is_not_there_ends_as_shells_have_it)
{
    char *none[] = {(char[]){"/nowhere/program"}, NULL};
    struct launch l = launch_of(none);
    int status = 0;
    CHECK_EQ(spawn_wait("test", &l, NULL, &status), 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 127);
}

TEST(programs_are_told_from_scripts)
{
    char script[] = "/tmp/kedge-spawn-XXXXXX";
    int fd = mkstemp(script);
    REQUIRE(fd >= 0);
    CHECK_EQ(write(fd, "#!/bin/sh\n", 10), 10);
    (void)close(fd);
    CHECK(!spawn_look_at(script).is_elf);
    (void)unlink(script);
    CHECK(spawn_look_at("/proc/self/exe").is_elf);
    CHECK(!spawn_look_at("/nowhere").is_elf);
}

TEST(r102_what_stands_in_the_place_of_a_capture_stays_until_the_program_replaces_it)
{
    char file[] = "/tmp/kedge-spawn-XXXXXX";
    int fd = mkstemp(file);
    struct spawn_old old;

    REQUIRE(fd >= 0);
    CHECK_EQ(spawn_look_for_old("test", file, &old), 0);
    CHECK_STR_EQ(old.file, file);
    CHECK_STR_EQ(old.run, "");
    spawn_clear_old(&old, "1");
    CHECK_EQ(access(file, F_OK), 0);
    REQUIRE_EQ(write(fd, "notes, mine", 11), 11);
    CHECK_EQ(spawn_look_for_old("test", file, &old), 2);
    (void)close(fd);
    (void)unlink(file);
    CHECK_EQ(spawn_look_for_old("test", NULL, &old), 0);
    CHECK_EQ(spawn_look_for_old("test", "/tmp/%p", &old), 0);
    CHECK(old.file == NULL);
    CHECK_EQ(spawn_look_for_old("test", "/tmp", &old), 2);
}

static void note_path(void *self, const char *path)
{
    char *all = self;

    (void)snprintf(all + strlen(all), 200 - strlen(all), "%s ", strchr(path + 5, '/'));
}

TEST(captures_are_found_in_folders_that_are_patterns)
{
    static const char *const folders[] = {"d-7", "d-7/a", "d-7x", "d-7x/a", "e%p", "e%p/a"};
    static const char *const files[] = {"run", "d-7/run", "d-7/a/run", "d-7x/a/run", "e%p/a/run"};
    static const struct {
        const char *name, *found;
    } cases[] = {{"%s/d-%%p/a//run", "/d-7/a/run "}, {"%s/e%%%%p/a/%%h", "/e%p/a/run "},
            {"%s/%%r/run", "/d-7/run "}, {"%s/d-7/%%r/run", "/d-7/a/run "}};
    char root[] = "/tmp/kedge-spawn-XXXXXX";
    char path[64], found[200];

    REQUIRE(mkdtemp(root) != NULL);
    for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", root, folders[i]);
        REQUIRE_EQ(mkdir(path, 0700), 0);
    }
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", root, files[i]);
        REQUIRE_EQ(mknod(path, S_IFREG | 0600, 0), 0);
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        (void)snprintf(path, sizeof(path), cases[i].name, root);
        found[0] = '\0';
        captures_each(path, note_path, found);
        CHECK_STR_EQ(found, cases[i].found);
    }
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", root, files[i]);
        (void)unlink(path);
    }
    for (size_t i = sizeof(folders) / sizeof(*folders); i > 0; i--) {
        (void)snprintf(path, sizeof(path), "%s/%s", root, folders[i - 1]);
        (void)rmdir(path);
    }
    CHECK_EQ(rmdir(root), 0);
}

TEST(a_pipe_that_nobody_writes_has_no_header_of_a_capture)
{
    char folder[] = "/tmp/kedge-spawn-XXXXXX";
    char name[sizeof(folder) + 8];
    struct captures found;

    REQUIRE(mkdtemp(folder) != NULL);
    (void)snprintf(name, sizeof(name), "%s/run", folder);
    REQUIRE_EQ(mkfifo(name, 0600), 0);
    (void)alarm(20); /* ends one that waits for a writer */
    captures_find(name, "1", &found);
    CHECK_EQ(found.count, 0);
    captures_done(&found);
    (void)unlink(name);
    (void)rmdir(folder);
}
