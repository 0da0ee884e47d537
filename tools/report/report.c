/* SPDX-License-Identifier: MIT */
#include "tools/report/report.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/vec.h"

static char *end_by_exit(const struct read_capture *capture)
{
    const char *more = capture->oom_count ? ", after running out of memory" : "";

    if (capture->state_detail & FORMAT_EXIT_KNOWN)
        return vec_format("exited with status %u%s", capture->state_detail & 0xffu, more);
    return vec_format("exited%s", more);
}

char *report_end_text(const struct read_capture *capture)
{
    if (read_is_damaged(capture))
        return vec_text("not known: the capture is damaged");
    if (load_is_imported(capture))
        return vec_text("not known: the record that was imported does not say");
    switch (capture->state) {
    case FORMAT_STATE_CLEAN:
        return end_by_exit(capture);
    case FORMAT_STATE_OOM:
        return vec_text("still running, or killed; out of memory");
    case FORMAT_STATE_SIGNAL:
        return capture->state_detail == SIGINT ? vec_text("interrupted (signal 2)")
                                               : vec_format("signal %u", capture->state_detail);
    case FORMAT_STATE_OPEN:
        break;
    }
    return vec_text("still running, or killed");
}

uint32_t report_peak(const struct report *report)
{
    uint32_t at = report->figures.max_at;

    return at == TRACE_NEVER ? report->window.last : at + 1;
}

bool report_has_high(const struct report *report)
{
    return !report->from && !report->to && report_lacks_events(report);
}

bool report_lacks_events(const struct report *report)
{
    return report->load.complete_from > report->window.first;
}

bool report_has_sums(const struct report *report)
{
    return !report_lacks_events(report) || !report->window.is_named;
}

bool report_has_anchor(const struct report *report, size_t anchor)
{
    uint32_t enter = report->load.trace->anchors[anchor].enter;

    return enter != TRACE_NEVER && enter >= report->window.first && enter < report->window.last;
}

const char *report_setting(const struct read_capture *capture, const char *name)
{
    const char *value = "";

    for (size_t i = 0; i < capture->setting_count; i++) {
        if (strcmp(capture->setting[i].name, name) == 0)
            value = capture->setting[i].value;
    }
    return value;
}

void report_field(
        const struct report *report, const char *ink, const char *name, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    char *text = vec_vformat(format, args);
    va_end(args);
    printf("%s%-9s%s ", ink, name, *ink ? report->ink.off : "");
    render_label(stdout, text, 10, 10);
    free(text);
}

void report_anchor_print(const struct trace_anchor *anchor, unsigned used)
{
    char *text = figures_anchor_text(anchor);

    render_label(stdout, text, used, 6);
    free(text);
}

bool report_oom_is_told(const struct report *report, const struct load_oom *oom)
{
    return oom->at != TRACE_NEVER && oom->at >= report->load.complete_from;
}
