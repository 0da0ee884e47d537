/* SPDX-License-Identifier: MIT */
#include "tools/report/report.h"

#include <stdlib.h>
#include <string.h>

#include "tools/base/args.h"
#include "tools/base/cmdexit.h"
#include "tools/base/vec.h"

static const char *const by_names[REPORT_BY_COUNT] = {
        [REPORT_BY_ITSELF] = "",
        [REPORT_BY_STACK] = "stack",
        [REPORT_BY_SITE] = "site",
        [REPORT_BY_LIBRARY] = "library",
        [REPORT_BY_CLASS] = "class",
        [REPORT_BY_ANCHOR] = "anchor",
        [REPORT_BY_DEVICE] = "device",
        [REPORT_BY_KIND] = "kind",
};

static bool has_groups(enum view view)
{
    return view == VIEW_LIVE || view == VIEW_HWM || view == VIEW_LEAKS || view == VIEW_TEMPORARY;
}

const char *report_by_word(enum report_by by)
{
    return by == REPORT_BY_ITSELF ? by_names[REPORT_BY_STACK] : by_names[by];
}

const char *report_by_noun(enum report_by by)
{
    static const char *const nouns[REPORT_BY_COUNT] = {"stack", "stack",
            "site", [REPORT_BY_LIBRARY] = "other", "class", [REPORT_BY_ANCHOR] = "anchor", "device",
            "kind"};

    return nouns[by];
}

/* "bytes, count", and the nearest name. */
static int report_select_refuse(const char *option, const char *word, struct args_names names)
{
    const char *near = args_nearest(names, word);

    (void)fprintf(stderr, "kedge report: --%s %s: one of ", option, word);
    for (size_t i = 0; i < names.count; i++)
        (void)fprintf(stderr, "%s%s", i ? ", " : "", args_name(names, i));
    if (near)
        (void)fprintf(stderr, " (did you mean %s?)", near);
    (void)fputc('\n', stderr);
    return CMD_BAD;
}

static int need_view(const char *option, const char *views)
{
    (void)fprintf(stderr, "kedge report: --%s needs --view %s\n", option, views);
    return CMD_BAD;
}

int report_select_find(struct report *report, const struct rowpick_fields *fields, const char *by,
        const char *sort, const char *filter)
{
    const struct args_names names =
            ARGS_WORDS(&by_names[REPORT_BY_STACK], REPORT_BY_COUNT - REPORT_BY_STACK);

    report->by = by ? REPORT_BY_STACK + (unsigned)args_find(names, by) : REPORT_BY_ITSELF;
    if (report->by == REPORT_BY_COUNT)
        return report_select_refuse("by", by, names);
    if (by && !has_groups(report->view)
            && ((report->by != REPORT_BY_ANCHOR && report->by != REPORT_BY_KIND)
                    || report->view != VIEW_ALL))
        return need_view(
                "by", "live, hwm, leaks or temporary (--by anchor and --by kind: or no view)");
    if (report->by == REPORT_BY_CLASS && report->view != VIEW_LIVE && report->view != VIEW_HWM)
        return need_view("by class", "live or hwm");
    if (report->by == REPORT_BY_KIND
            && (report->view == VIEW_LEAKS || report->view == VIEW_TEMPORARY))
        return need_view("by kind", "live or hwm, or no view");
    if ((sort || filter) && !fields)
        return need_view(sort ? "sort" : "filter",
                "live, hwm, leaks, temporary, anchors, libraries, sources or patterns");
    report->sort = sort;
    report->filter_text = filter;
    if (!sort || rowpick_find(fields, sort))
        return CMD_DONE;
    return report_select_refuse("sort", sort, ARGS_NAMES(fields->at, name, fields->count));
}

void report_sort(const struct report *report, enum view of, const struct rowpick_fields *fields,
        void *rows, size_t count, size_t size)
{
    if (report->view == of && report->sort)
        rowpick_sort(rows, count, size, rowpick_find(fields, report->sort));
}

bool report_keeps(const struct report *report, enum view of, uint32_t stack, const char *name)
{
    return report->view != of || rowpick_has_text(report->filter, name)
            || rowpick_has_stack(report->filter, stack);
}

bool report_keeps_text(const struct report *report, enum view of, const char *text)
{
    return report->view != of || rowpick_has_text(report->filter, text);
}

void report_stack_print(
        const struct report *report, uint32_t stack, const char *indent, unsigned limit)
{
    figures_print_stack(
            stdout, report->symbols, stack, indent, report->is_native ? FIGURES_ALL_FRAMES : limit);
}

static const char *device_name(int device)
{
    static char names[FORMAT_DEVICES_MAX][16];

    if (device < 0 || device >= (int)FORMAT_DEVICES_MAX)
        return "another device";
    (void)snprintf(names[device], sizeof(names[device]), "device %d", device);
    return names[device];
}

const char *report_group_name(const struct report *report, const struct report_group *group)
{
    const char *name = "";

    switch (report->by) {
    case REPORT_BY_SITE:
        name = symbols_pysite(report->symbols, group->stack);
        return name ? name : symbols_site(report->symbols, group->stack);
    case REPORT_BY_LIBRARY:
        name = symbols_owner(report->symbols, group->stack);
        return *name ? name : "(no stack)";
    case REPORT_BY_CLASS:
        return sources_class_name(group->memclass);
    case REPORT_BY_ANCHOR:
        return *group->anchor ? group->anchor : "(outside of all anchors)";
    case REPORT_BY_DEVICE:
        return device_name(group->device);
    case REPORT_BY_KIND:
        return datakind_name(report->kinds.of[group->block]);
    case REPORT_BY_ITSELF:
    case REPORT_BY_STACK:
    case REPORT_BY_COUNT:
        break;
    }
    return NULL;
}
