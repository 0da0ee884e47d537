/* SPDX-License-Identifier: MIT */
#include "tools/estimate/holding.h"

/* Its capture; NULL: there is none. */
static const char *fullest_capture(const struct verdict *verdict)
{
    const struct trial *trial = &verdict->trial;
    const struct trial_process *fullest = NULL;

    for (size_t i = 0; i < trial->count; i++)
        if (!fullest
                || trial->processes[i].peak[verdict->use.device]
                        > fullest->peak[verdict->use.device])
            fullest = &trial->processes[i];
    for (size_t i = 0; fullest && i < trial->captures.count; i++)
        if (trial->captures.file[i].pid == fullest->pid)
            return trial->captures.file[i].path;
    return NULL;
}

void holding_open(const struct verdict *verdict, uint64_t top, struct holding *holding)
{
    const char *path = fullest_capture(verdict);
    struct report *report = &holding->report;
    bool is_partial;

    *holding = (struct holding){0};
    if (!path || load_open(path, &report->load) != 0)
        return;
    report->path = path;
    report->rows = report->top = top ? top : 10;
    report->ink = render_ink(stdout);
    report->window = model_whole(report->load.trace);
    report->symbols = symbols_new(report->load.trace);
    figures_of(&report->load, report->window, &report->figures, &is_partial);
    sources_figure(&report->load, report->window, report->symbols, &report->sources);
    report->kinds = datakind_find(&report->load);
    report_tensors_find(report);
    holding->inner = report->tensors ? report->tensors : report;
    holding->answer = answer_find(&holding->inner->load, holding->inner->symbols,
            holding->inner->window, &holding->inner->figures, NULL);
    holding->is_open = true;
}

void holding_close(struct holding *holding)
{
    struct report *report = &holding->report;

    if (!holding->is_open)
        return;
    answer_done(&holding->answer);
    report_tensors_done(report);
    datakind_done(&report->kinds);
    sources_done(&report->sources);
    symbols_free(report->symbols);
    load_close(&report->load);
}
