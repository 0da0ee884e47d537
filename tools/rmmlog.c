/* SPDX-License-Identifier: MIT */
#include "tools/rmmlog.h"

#include <errno.h>
#include <string.h>

#include "tools/keytable.h"

static bool is_word(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && strncmp(text, word, length) == 0;
}

static int add_row(struct workload_builder *builder, struct rowread *row, bool is_free)
{
    uint64_t pointer;
    uint64_t size;
    uint64_t stream;

    if (!rowread_uint(row, 16, &pointer))
        return rowread_fault(row, "Pointer must be a hexadecimal number");
    const char *pointer_at = row->field;
    if (!rowread_uint(row, 10, &size))
        return rowread_fault(row, "Size must be a number");
    const char *size_at = row->field;
    if (!rowread_uint(row, 16, &stream) || !rowread_is_end(row))
        return rowread_fault(row, "Stream must be a hexadecimal number, and the last column");
    struct workload_request request = {
            .name = pointer, .size = size, .stream = stream, .is_stream = true};
    const char *fault =
            is_free ? workload_add_free(builder, &request) : workload_add_alloc(builder, &request);
    if (!fault)
        return 0;
    row->field = fault == workload_bad_size ? size_at : pointer_at;
    return rowread_fault(row, fault);
}

static int read_row(void *context, struct rowread *row)
{
    struct workload_builder *builder = context;
    const char *text = "";
    size_t length = 0;

    if (row->line == 1) {
        if (strcmp(row->text, RMMLOG_HEAD) != 0)
            return rowread_fault(row, "the first line must be " RMMLOG_HEAD);
        return 0;
    }
    for (int i = 0; i < 3; i++) {
        if (!rowread_text(row, &text, &length))
            return rowread_fault(row, "Thread, Time and Action must be there");
    }
    if (is_word(text, length, "allocate failure")) {
        builder->workload.skipped_count++;
        return 0;
    }
    if (!is_word(text, length, "allocate") && !is_word(text, length, "free"))
        return rowread_fault(row, "Action must be allocate, free or allocate failure");
    return add_row(builder, row, *text == 'f');
}

int rmmlog_read(FILE *in, const char *name, struct workload *ret, char error[ROWREAD_ERROR_MAX])
{
    struct workload_builder builder = {.workload = {.device_count = 1}};
    struct rowread row = {.name = name, .error = error};
    int r = rowread_all(&row, in, read_row, &builder);

    if (r == 0 && builder.workload.block_count == 0) {
        row.line++;
        r = rowread_fault(&row, "no allocations");
    }
    workload_finish(&builder, ret);
    return r;
}
