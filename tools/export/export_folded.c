/* SPDX-License-Identifier: MIT */
#include "tools/export/exporter.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/cmdexit.h"
#include "tools/base/filename.h"
#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tools/output/ours.h"

/* No escapes: a semicolon ends a call, a line end the stack. render_text replaces line ends. */
static void print_call(FILE *out, const struct symbols_line *line)
{
    const char *base = filename_of(symbols_line_file(line));
    char *text;

    if (line->file && line->line)
        text = vec_format("%s (%s:%u)", line->function, base, line->line);
    else if (*base && strncmp(line->function, base, strlen(base)) != 0)
        text = vec_format("%s (%s)", line->function, base);
    else
        text = vec_text(line->function);
    for (char *at = text; (at = strchr(at, ';')) != NULL;)
        *at = ':';
    render_text(out, text);
    free(text);
}

int export_folded(struct export_job *job)
{
    const struct export_moment *moment = &job->moment;
    struct trace_sum sum;
    size_t count;

    for (size_t i = 0; i < moment->row_count;) {
        const struct symbols_line *lines = export_moment_lines(job, &moment->rows[i], &count);

        bool is_first = i == 0;
        i += export_moment_stack(moment, i, &sum);
        for (size_t k = count; k > 0; k--) {
            print_call(job->out, &lines[k - 1]);
            if (k > 1)
                (void)fputc(';', job->out);
        }
        (void)fprintf(job->out, is_first ? " " OURS_NUMBER "\n" : " %" PRIu64 "\n", sum.bytes);
    }
    return CMD_DONE;
}
