/* SPDX-License-Identifier: MIT */
/*
 * replay_corpus FILE|DIRECTORY...: runs a fuzz target once on every file, for compilers without libFuzzer.
 *
 * Besides each file as it is: each of its prefixes of a power-of-two length, and 64 copies with one byte changed, chosen
 * by the file's own bytes, so that a run is the same each time. Prints how many inputs ran; none is a failure.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define INPUT_MAX (8u << 20)

int LLVMFuzzerTestOneInput(const unsigned char *input, size_t length);

static size_t inputs;

static void run(const unsigned char *bytes, size_t length)
{
    /* a copy of exactly this size, so that ASan sees a read behind its end */
    unsigned char *copy = malloc(length ? length : 1);

    if (!copy)
        return;
    memcpy(copy, bytes, length);
    (void)LLVMFuzzerTestOneInput(copy, length);
    free(copy);
    inputs++;
}

static void run_variants(unsigned char *bytes, size_t length)
{
    unsigned state = 12345;

    run(bytes, length);
    for (size_t prefix = 1; prefix < length; prefix *= 2)
        run(bytes, prefix);
    for (size_t i = 0; i < length; i++)
        state = state * 31u + bytes[i];
    for (int i = 0; i < 64 && length > 0; i++) {
        size_t at;
        unsigned char old;

        state = state * 1103515245u + 12345u;
        at = (state >> 8) % length;
        old = bytes[at];
        bytes[at] = (unsigned char)(state >> 24);
        run(bytes, length);
        bytes[at] = old;
    }
}

static int run_file(const char *path)
{
    unsigned char *bytes = malloc(INPUT_MAX);
    FILE *file = bytes ? fopen(path, "rb") : NULL;
    size_t length;

    if (!file) {
        (void)fprintf(stderr, "%s: cannot be read\n", path);
        free(bytes);
        return 1;
    }
    length = fread(bytes, 1, INPUT_MAX, file);
    (void)fclose(file);
    run_variants(bytes, length);
    free(bytes);
    return 0;
}

static int run_directory(const char *path)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    int r = directory ? 0 : 1;

    while (directory && (entry = readdir(directory)) != NULL) { // NOLINT(concurrency-mt-unsafe)
        char file[4096];

        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        r |= run_file(file);
    }
    if (directory)
        (void)closedir(directory);
    return r;
}

int main(int argc, char **argv)
{
    int r = 0;

    for (int i = 1; i < argc; i++) {
        struct stat status;

        if (stat(argv[i], &status) != 0)
            r = 1;
        else
            r |= S_ISDIR(status.st_mode) ? run_directory(argv[i]) : run_file(argv[i]);
    }
    printf("%zu inputs\n", inputs);
    return r || inputs == 0;
}
