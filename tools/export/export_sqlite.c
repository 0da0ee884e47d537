/* SPDX-License-Identifier: MIT */
#include "tools/export/exporter.h"

#include <stdio.h>

#include "tools/base/cmdexit.h"

#ifdef KEDGE_HAS_SQLITE

#    include <sqlite3.h>
#    include <stdarg.h>
#    include <stdlib.h>

#    include "tools/base/keytable.h"
#    include "tools/base/render.h"
#    include "tools/export/export_names.h"
#    include "tools/output/ours.h"
#    include "tools/report/sources.h"

/* The file is new, and a draft that fails is removed: no journal, no waiting for the disk. */
static const char schema[] =
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
        "PRAGMA application_id = " OURS_DATABASE "; BEGIN;"
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value);"
        "CREATE TABLE frames (id INTEGER PRIMARY KEY, function TEXT, file TEXT, line INTEGER,"
        " module TEXT, is_python INTEGER);"
        "CREATE TABLE stacks (id INTEGER PRIMARY KEY, site TEXT, python_site TEXT);"
        "CREATE TABLE stack_frames (stack INTEGER REFERENCES stacks, depth INTEGER,"
        " frame INTEGER REFERENCES frames, PRIMARY KEY (stack, depth)) WITHOUT ROWID;"
        "CREATE TABLE threads (id INTEGER PRIMARY KEY, tid INTEGER, name TEXT);"
        "CREATE TABLE anchors (id INTEGER PRIMARY KEY, path TEXT, instance INTEGER,"
        " parent INTEGER REFERENCES anchors, enter_event INTEGER REFERENCES events,"
        " exit_event INTEGER REFERENCES events);"
        "CREATE TABLE hints (id INTEGER PRIMARY KEY, name TEXT, action TEXT, mode TEXT,"
        " matched_count INTEGER, matched_bytes INTEGER, released_count INTEGER,"
        " released_bytes INTEGER);"
        "CREATE TABLE blocks (id INTEGER PRIMARY KEY, address INTEGER, size INTEGER,"
        " device INTEGER, class TEXT, api TEXT, stream INTEGER, thread INTEGER REFERENCES threads,"
        " anchor INTEGER REFERENCES anchors, stack INTEGER REFERENCES stacks, nth INTEGER,"
        " born_event INTEGER REFERENCES events, died_event INTEGER REFERENCES events,"
        " released_event INTEGER REFERENCES events, released_mode TEXT,"
        " hint INTEGER REFERENCES hints, born_ns INTEGER, died_ns INTEGER, first_use_ns INTEGER,"
        " last_use_ns INTEGER, use_count INTEGER);"
        "CREATE TABLE events (id INTEGER PRIMARY KEY, seq INTEGER, time_ns INTEGER, kind TEXT,"
        " block INTEGER REFERENCES blocks, anchor INTEGER REFERENCES anchors,"
        " thread INTEGER REFERENCES threads, live_bytes INTEGER, reserved_bytes INTEGER);"
        "CREATE TABLE ooms (id INTEGER PRIMARY KEY, event INTEGER REFERENCES events,"
        " device INTEGER, requested_bytes INTEGER, free_bytes INTEGER, live_bytes INTEGER,"
        " call TEXT, anchor INTEGER REFERENCES anchors, stack INTEGER REFERENCES stacks);"
        "CREATE VIEW live_at_peak AS SELECT blocks.* FROM blocks, meta"
        " WHERE meta.key = 'peak_event' AND born_event <= value"
        " AND (died_event IS NULL OR died_event > value);";

struct database {
    struct export_job *job;
    const struct trace *trace;
    sqlite3 *db;
    sqlite3_stmt *row; /* of the current table */
    struct export_names names;
    bool is_broken; /* the first error is the database's message */
};

/* ---- rows ---- */

static void export_sqlite_check(struct database *database, int r)
{
    database->is_broken = database->is_broken || r != SQLITE_OK;
}

static void begin_table(struct database *database, const char *insert)
{
    database->row = NULL;
    if (!database->is_broken)
        export_sqlite_check(
                database, sqlite3_prepare_v2(database->db, insert, -1, &database->row, NULL));
}

static void end_table(struct database *database)
{
    (void)sqlite3_finalize(database->row);
    database->row = NULL;
}

static void bind_text(struct database *database, int column, const char *text)
{
    if (!text) {
        export_sqlite_check(database, sqlite3_bind_null(database->row, column));
        return;
    }
    export_sqlite_check(
            database, sqlite3_bind_text(database->row, column, export_names_utf8(text), -1, free));
}

/* A column without a value: no number in a capture equals this. */
#    define NOTHING INT64_MIN

static void bind_int(struct database *database, int column, int64_t value)
{
    if (value == NOTHING)
        export_sqlite_check(database, sqlite3_bind_null(database->row, column));
    else
        export_sqlite_check(database, sqlite3_bind_int64(database->row, column, value));
}

/* A row, column by column: 'i' an int64_t or NOTHING, 't' a text or NULL. */
static void export_sqlite_insert(struct database *database, const char *kinds, ...)
{
    va_list values;

    if (database->is_broken)
        return;
    va_start(values, kinds);
    for (int column = 1; kinds[column - 1]; column++) {
        if (kinds[column - 1] == 'i')
            bind_int(database, column, va_arg(values, int64_t));
        else
            bind_text(database, column, va_arg(values, const char *));
    }
    va_end(values);
    if (sqlite3_step(database->row) != SQLITE_DONE)
        database->is_broken = true;
    else
        export_sqlite_check(database, sqlite3_reset(database->row));
}

/* UINT64_MAX is NULL. */
static int64_t figure(uint64_t value)
{
    return value == UINT64_MAX ? NOTHING : (int64_t)value;
}

static int64_t export_sqlite_known(uint32_t number)
{
    return number == TRACE_NONE ? NOTHING : (int64_t)number;
}

static int64_t known_time(uint64_t ns)
{
    return ns ? (int64_t)ns : NOTHING;
}

/* ---- tables ---- */

static void add_stacks(struct database *database)
{
    begin_table(database, "INSERT INTO stacks VALUES (?, ?, ?)");
    for (uint32_t i = 1; i < database->trace->stack_count; i++) {
        export_sqlite_insert(database, "itt", (int64_t)i, symbols_site(database->job->symbols, i),
                symbols_pysite(database->job->symbols, i));
        progress_step(i, database->trace->stack_count);
    }
    end_table(database);
}

/* First the frames, each once; when all have a number, those of each stack. */
static void add_frames(struct database *database, bool is_by_stack)
{
    begin_table(database,
            is_by_stack ? "INSERT INTO stack_frames VALUES (?, ?, ?)"
                        : "INSERT INTO frames VALUES (?, ?, ?, ?, ?, ?)");
    for (uint32_t i = 1; i < database->trace->stack_count; i++) {
        size_t count;
        const struct symbols_line *line = symbols_stack(database->job->symbols, i, &count);

        for (size_t k = 0; k < count; k++, line++) {
            bool is_new;
            int64_t number = export_names_call(&database->names, line, &is_new);

            if (is_by_stack)
                export_sqlite_insert(database, "iii", (int64_t)i, (int64_t)k, number);
            else if (is_new)
                export_sqlite_insert(database, "ittiti", number, line->function, line->file,
                        line->line ? (int64_t)line->line : NOTHING, line->module,
                        (int64_t)line->is_python);
        }
    }
    end_table(database);
}

static void add_threads(struct database *database)
{
    const struct load *load = database->job->load;
    const struct read_thread **threads = exporter_threads(load);

    begin_table(database, "INSERT INTO threads VALUES (?, ?, ?)");
    for (size_t i = 0; i < load->thread_count; i++)
        export_sqlite_insert(database, "iit", (int64_t)i,
                threads[i] ? (int64_t)threads[i]->tid : NOTHING,
                threads[i] ? threads[i]->name : NULL);
    end_table(database);
    free((void *)threads);
}

static void export_sqlite_add_anchors(struct database *database)
{
    begin_table(database, "INSERT INTO anchors VALUES (?, ?, ?, ?, ?, ?)");
    for (size_t i = 0; i < database->trace->anchor_count; i++) {
        const struct trace_anchor *anchor = &database->trace->anchors[i];

        export_sqlite_insert(database, "itiiii", (int64_t)i, anchor->path,
                (int64_t)anchor->instance, export_sqlite_known(anchor->parent),
                i ? export_sqlite_known(anchor->enter) : NOTHING,
                export_sqlite_known(anchor->exit));
    }
    end_table(database);
}

static void export_sqlite_add_hints(struct database *database)
{
    static const char *const actions[] = {HINTWORDS_ACTIONS};
    const struct load *load = database->job->load;

    begin_table(database, "INSERT INTO hints VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
    for (size_t i = 0; i < load->hint_count; i++) {
        const struct load_hint *hint = &load->hints[i];
        unsigned action = (unsigned)hint->action - ACTION_RELEASE;
        const struct trace_sum matched = load_sum(load, hint, FORMAT_HINT_PLANNED);
        const struct trace_sum released = load_released(load, hint);

        export_sqlite_insert(database, "itttiiii", (int64_t)i, hint->id,
                action < CMD_COUNT(actions) ? actions[action] : NULL, hintwords_mode(hint->mode),
                figure(matched.count), figure(matched.bytes), figure(released.count),
                figure(released.bytes));
    }
    end_table(database);
}

static void export_sqlite_add_block(struct database *database, uint32_t number)
{
    const struct trace_block *block = &database->trace->blocks[number];
    const struct trace_event *born = &database->trace->events[block->born];
    const struct trace_uses uses = trace_uses(database->trace, block);
    bool is_released = block->released != TRACE_NEVER;

    export_sqlite_insert(database, "iiiittiiiiiiiitiiiiii", (int64_t)number,
            (int64_t)block->address, (int64_t)block->size, (int64_t)block->device,
            sources_class_name(block->memclass), block->stream ? "stream" : "sync",
            block->stream ? (int64_t)exporter_stream(database->trace, born) : NOTHING,
            (int64_t)block->thread, (int64_t)block->anchor,
            block->stack ? (int64_t)block->stack : NOTHING, (int64_t)block->nth,
            (int64_t)block->born, export_sqlite_known(block->died),
            export_sqlite_known(block->released), is_released ? hintwords_mode(block->mode) : NULL,
            block->rule < 0 ? NOTHING : (int64_t)block->rule, known_time(block->born_ns),
            known_time(block->died_ns), known_time(uses.first), known_time(uses.last),
            (int64_t)uses.count);
}

static void export_sqlite_add_blocks(struct database *database)
{
    begin_table(database,
            "INSERT INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
            " ?, ?, ?, ?, ?)");
    for (size_t i = 0; i < database->trace->block_count; i++)
        export_sqlite_add_block(database, (uint32_t)i);
    end_table(database);
}

static void add_events(struct database *database)
{
    static const char *const kinds[] = {
            [TRACE_ALLOC] = "alloc",
            [TRACE_FREE] = "free",
            [TRACE_ENTER] = "enter",
            [TRACE_EXIT] = "exit",
            [TRACE_MARK] = "mark",
            [TRACE_RELEASE] = "release",
            [TRACE_RESERVED] = "reserved",
            [TRACE_CALL] = "call",
            [TRACE_LAUNCH] = "launch",
            [TRACE_OTHER] = "other",
    };
    uint64_t live = 0, reserved = 0;

    begin_table(database, "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
    for (size_t i = 0; i < database->trace->event_count; i++) {
        const struct trace_event *event = &database->trace->events[i];
        bool has_block = event->kind == TRACE_ALLOC || event->kind == TRACE_FREE
                || event->kind == TRACE_RELEASE;
        bool is_known = i >= database->job->load->complete_from;
        /* events added at the start of a record have none, and there may be no threads */
        bool has_thread = event->thread < database->job->load->thread_count;

        if (event->kind == TRACE_ALLOC)
            live += trace_value(database->trace, event);
        if (event->kind == TRACE_FREE && event->block != TRACE_NONE)
            live -= trace_value(database->trace, event);
        if (event->kind == TRACE_RESERVED)
            reserved = trace_value(database->trace, event);
        export_sqlite_insert(database, "iiitiiiii", (int64_t)i, known_time(event->seq),
                known_time(event->time_ns), kinds[event->kind],
                has_block ? export_sqlite_known(event->block) : NOTHING, (int64_t)event->anchor,
                has_thread ? (int64_t)event->thread : NOTHING,
                is_known ? (int64_t)trace_live(database->trace, live) : NOTHING,
                is_known ? (int64_t)reserved : NOTHING);
        database->job->event_count++;
        if ((i & 0xffff) == 0)
            progress_step(i, database->trace->event_count);
    }
    end_table(database);
}

static void add_ooms(struct database *database)
{
    const struct load *load = database->job->load;

    begin_table(database, "INSERT INTO ooms VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
    for (size_t i = 0; i < load->oom_count; i++) {
        const struct load_oom *oom = &load->ooms[i];

        export_sqlite_insert(database, "iiiiiitii", (int64_t)i, export_sqlite_known(oom->at),
                (int64_t)oom->device, (int64_t)oom->requested, figure(oom->free_bytes),
                figure(oom->live), oom->why ? oom->why->call : NULL, (int64_t)oom->anchor,
                oom->stack ? (int64_t)oom->stack : NOTHING);
    }
    end_table(database);
}

static void add_meta(struct database *database)
{
    const struct export_job *job = database->job;
    const struct read_capture *capture = job->load->capture;
    const struct model_figures *figures = &job->figures;

    begin_table(database, "INSERT INTO meta VALUES (?, ?)");
    export_sqlite_insert(database, "tt", "writer", "kedge " KEDGE_VERSION);
    export_sqlite_insert(database, "tt", "capture", job->load->path);
    export_sqlite_insert(database, "tt", "exe", capture->exe);
    export_sqlite_insert(database, "tt", "host", capture->host);
    export_sqlite_insert(database, "tt", "rank", capture->rank);
    export_sqlite_insert(database, "ti", "pid", (int64_t)capture->pid);
    export_sqlite_insert(database, "ti", "start_unix_ns", (int64_t)capture->start_real_ns);
    export_sqlite_insert(database, "ti", "complete", (int64_t)!job->is_partial);
    export_sqlite_insert(
            database, "ti", "first_recorded_event", (int64_t)exporter_first_event(database->trace));
    export_sqlite_insert(database, "ti", "peak_event", export_sqlite_known(figures->max_at));
    export_sqlite_insert(database, "ti", "peak_live_bytes", figure(figures->peak_live));
    export_sqlite_insert(database, "ti", "peak_reserved_bytes", figure(figures->peak_reserved));
    export_sqlite_insert(database, "ti", "remaining_bytes", figure(figures->remaining));
    export_sqlite_insert(database, "ti", "max_with_hints_bytes", figure(figures->hinted.max));
    end_table(database);
}

static void fill_tables(struct database *database)
{
    add_meta(database);
    add_stacks(database);
    add_frames(database, false);
    add_frames(database, true);
    add_threads(database);
    export_sqlite_add_anchors(database);
    export_sqlite_add_hints(database);
    export_sqlite_add_blocks(database);
    add_events(database);
    add_ooms(database);
    if (!database->is_broken)
        export_sqlite_check(database, sqlite3_exec(database->db, "COMMIT", NULL, NULL, NULL));
}

int export_sqlite(struct export_job *job)
{
    struct database database = {.job = job, .trace = job->load->trace};

    export_sqlite_check(
            &database, sqlite3_open_v2(job->path, &database.db, SQLITE_OPEN_READWRITE, NULL));
    if (!database.is_broken)
        export_sqlite_check(&database, sqlite3_exec(database.db, schema, NULL, NULL, NULL));
    fill_tables(&database);
    bool is_open = database.is_broken || sqlite3_close(database.db) != SQLITE_OK;
    if (is_open) {
        (void)fprintf(stderr, "kedge export: %s: %s\n", job->path,
                database.db ? sqlite3_errmsg(database.db) : "no memory");
        (void)sqlite3_close_v2(database.db);
    }
    export_names_done(&database.names);
    return is_open ? CMD_BAD : CMD_DONE;
}

#else

int export_sqlite(struct export_job *job)
{
    (void)fprintf(stderr, "kedge export: %s: this kedge was built without libsqlite3\n", job->path);
    return CMD_CANNOT;
}

#endif
