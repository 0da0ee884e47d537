/* SPDX-License-Identifier: MIT */
/*
 * wordstory.h - runs of story.h that are told in words.
 *
 *     struct told run = tell("A{ x1:3 -x } y1");
 *     ... run.story.trace, run.block['x'] ...
 *     story_end(&run.story);
 */
#ifndef KEDGE_TESTS_UNIT_WORDSTORY_H
#define KEDGE_TESTS_UNIT_WORDSTORY_H

#include "tests/unit/tools/story.h"

#define MB (UINT64_C(1) << 20)

struct told {
    struct story story;
    uint32_t block['z' + 1]; /* by its letter */
};

/* "A{" enters A and "}" leaves it; "x1:3" is block x, of site 1 and 3 MiB (1 MiB if nothing is said); "-x" frees it. */
static inline void tell_word(struct told *told, char *word)
{
    char *last = &word[strlen(word) - 1];

    if (*last == '{') {
        *last = '\0';
        (void)story_enter(&told->story, word);
    } else if (*word == '}') {
        story_exit(&told->story);
    } else if (*word == '-') {
        story_free(&told->story, told->block[(unsigned char)word[1]]);
    } else {
        char *rest;
        uint64_t site = strtoul(word + 1, &rest, 10);
        uint64_t size = *rest == ':' ? strtoul(rest + 1, NULL, 10) : 1;
        told->block[(unsigned char)*word] = story_alloc(&told->story, site, size * MB);
    }
}

static inline struct told tell(const char *words)
{
    struct told told = {.story = story_begin()};
    char *text = strdup(words), *rest = text, *word;

    memset(told.block, 0xff, sizeof(told.block)); /* TRACE_NONE */
    while ((word = strsep(&rest, " ")) != NULL)
        if (*word)
            tell_word(&told, word);
    free(text);
    return told;
}

#endif
