/* SPDX-License-Identifier: MIT */
#include "tools/verify/evidence.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/vec.h"

/* 0 also if it is unknown. */
static unsigned evidence_status(const struct read_capture *capture)
{
    if (capture->state != FORMAT_STATE_CLEAN || !(capture->state_detail & FORMAT_EXIT_KNOWN))
        return 0;
    return capture->state_detail & 0xffu;
}

void evidence_learn(struct evidence_ends *ends, const struct read_capture *capture)
{
    ends->has[evidence_status(capture)] = true;
}

bool evidence_is_fault(const struct read_capture *capture)
{
    bool is_noted = false;

    for (size_t i = 0; i < capture->note_count; i++)
        is_noted = is_noted || strcmp(capture->note[i].text, "sticky device error") == 0;
    return is_noted;
}

/* Warnings report an action that was not done, or a call that was not seen. */
static const char *evidence_note(const struct read_capture *capture)
{
    for (size_t i = 0; i < capture->note_count; i++)
        if (capture->note[i].severity > 0)
            return capture->note[i].text;
    return NULL;
}

static bool evidence_is_lost(const struct read_capture *capture)
{
    const struct format_lost *lost = &capture->lost;

    return lost->events_dropped || lost->events_recycled || lost->live_dropped || lost->defs_dropped
            || !capture->has_all_events || capture->bad_records;
}

char *evidence_in_lines(const char *text, size_t length)
{
    static const char *const said[] = {"]: no capture: ", ", going on with less\n",
            ", passing everything through\n", ", hints are ignored\n"};
    const char *end = text + length;

    for (const char *line = text; text && line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        size_t bytes = newline ? (size_t)(newline - line) + 1 : (size_t)(end - line);

        for (size_t i = 0;
                bytes > 6 && memcmp(line, "kedge[", 6) == 0 && i < sizeof(said) / sizeof(*said);
                i++)
            if (memmem(line, bytes, said[i], strlen(said[i])))
                return vec_format("%.*s", (int)(bytes - 1), line);
        line += bytes;
    }
    return NULL;
}

char *evidence_against(const struct load *load, const struct evidence_ends *ends)
{
    const struct read_capture *capture = load->capture;
    unsigned status = evidence_status(capture);
    char *process = vec_format("process %" PRIu32 " (%s)", capture->pid,
            capture->argc ? capture->argv[0] : capture->exe);
    char *against = NULL;

    if (evidence_is_fault(capture))
        against = vec_format("the device has faulted in %s: memory was used that no call names, "
                             "after its release",
                process);
    else if (evidence_note(capture))
        against = vec_format("%s: %s", process, evidence_note(capture));
    else if (evidence_is_lost(capture))
        against = vec_format("%s: events were lost, so not everything is known", process);
    else if (capture->state != FORMAT_STATE_CLEAN)
        against = vec_format(
                "%s did not end by itself: it was killed, or became another program", process);
    else if (status != 0 && !ends->has[status])
        against = vec_format("%s ended with exit code %u", process, status);
    free(process);
    return against;
}
