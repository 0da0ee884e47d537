/* SPDX-License-Identifier: MIT */
#include "tools/estimate/reads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/vec.h"

/* A call of Python: three columns of a line. */
struct call {
    char *function, *file, *number;
};

/* The next column of a line, NULL after the last; the line is cut there. */
static char *next_column(char **io_rest)
{
    return strsep(io_rest, "\t");
}

static bool is_of_library(const char *file)
{
    return strstr(file, "/site-packages/") || strstr(file, "/dist-packages/")
            || strstr(file, "/lib/python3") || file[0] == '<';
}

static const char *base_name(const char *file)
{
    const char *slash = strrchr(file, '/');

    return slash ? slash + 1 : file;
}

/* The innermost call of the program's own, else the innermost of all; {0}: there is none. */
static struct call own_call(char *columns)
{
    struct call first = {0}, call;

    (void)next_column(&columns); /* their number */
    while ((call.function = next_column(&columns)) && (call.file = next_column(&columns))
            && (call.number = next_column(&columns))) {
        if (!is_of_library(call.file))
            return call;
        if (!first.file)
            first = call;
    }
    return first;
}

static void reads_add_line(struct reads *reads, char *line)
{
    char *rest = line;
    const char *name = next_column(&rest);
    struct call call = rest ? own_call(rest) : (struct call){0};
    char *place = call.file
            ? vec_format("%s %s:%s", call.function, base_name(call.file), call.number)
            : vec_text("(no Python)");
    size_t i = 0;

    *(strcmp(name, "-") == 0 ? &reads->others : &reads->sizes) += 1;
    while (i < reads->count
            && (strcmp(reads->places[i].operator_name, name) != 0
                    || strcmp(reads->places[i].place, place) != 0))
        i++;
    if (i < reads->count) {
        reads->places[i].count++;
        free(place);
        return;
    }
    VEC_PUSH(reads->places, reads->count, reads->room) =
            (struct reads_place){vec_text(name), place, 1};
}

void reads_add(struct reads *reads, const char *path)
{
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;

    while (file && getline(&line, &room, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        reads_add_line(reads, line);
    }
    free(line);
    if (file)
        (void)fclose(file);
}

bool reads_is_size(const struct reads_place *place)
{
    return strcmp(place->operator_name, "-") != 0;
}

static int reads_by_weight(const void *a, const void *b)
{
    const struct reads_place *first = a, *second = b;
    int order = (int)reads_is_size(second) - (int)reads_is_size(first);

    if (order == 0)
        order = (first->count < second->count) - (first->count > second->count);
    return order ? order : strcmp(first->place, second->place);
}

void reads_sort(struct reads *reads)
{
    vec_sort(reads->places, reads->count, sizeof(*reads->places), reads_by_weight);
}

void reads_done(struct reads *reads)
{
    for (size_t i = 0; i < reads->count; i++) {
        free(reads->places[i].operator_name);
        free(reads->places[i].place);
    }
    free(reads->places);
    *reads = (struct reads){0};
}
