/* SPDX-License-Identifier: MIT */
/*
 * answer.h - what a run's memory comes down to, in at most four sentences.
 *
 *     evaluate leak.py:41 held 74 % when memory ran out: 292.50 MiB of 394.09 MiB; +97.50 MiB a
 *         step; kept by graph of curve[*][*] (36 of 42 blocks), .item() or .detach() there frees it
 *     out of memory: 8.12 MiB asked for by cuMemAllocAsync in step/backward (4)
 *     train leak.py:31 held 16 % when memory ran out: 64.00 MiB of 394.09 MiB
 *
 * What grows (subject.h) comes first: to free it is the way out. Then the line that holds most, if
 * it is not part of that; where memory ran out, the request that failed stands between them, and
 * all figures are of that moment, else of the peak. Holders are those of the last walk at a
 * failure, else of the last one (capheld.h), if they keep half of the subject.
 * Before all of them stands what hints saved, if they were live and lowered the peak.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_ANSWER_H
#define KEDGE_TOOLS_ANSWER_H

#include "tools/answer/answer_lines.h"
#include "tools/base/render.h"
#include "tools/steps/growth.h"

enum {
    ANSWER_SENTENCES = 4,
};

struct answer {
    char *sentence[ANSWER_SENTENCES];
    size_t count;
    bool has_saved; /* the first one is what hints saved */
    size_t failure; /* the sentence of the request that failed; `count`: none did */
    struct answer_lines lines;
};

/*
 * `figures` are of the window; `view` has its steps if they were detected (growth.h), NULL: only
 * stated ones count. answer_done frees what is returned.
 */
struct answer answer_find(const struct load *load, struct symbols *symbols,
        struct model_window window, const struct model_figures *figures,
        const struct stepview *view);
void answer_done(struct answer *answer);

/*
 * The same of a whole run, with the steps that it states; of its tensors, if a record of those is in
 * it. Numbers of stacks are not valid then.
 */
struct answer answer_of_run(const struct load *load, struct symbols *symbols);

/* The sentences as a JSON array of this name. */
void answer_json(struct json *json, const char *key, const struct answer *answer);

/* How often memory ran out: the record may have fewer of them. */
uint64_t answer_failures(const struct load *load);

#endif
