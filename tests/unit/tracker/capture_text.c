/* SPDX-License-Identifier: MIT */
/*
 * capture_text - what our reader finds in a capture, as lines, and a capture of odd values, for format_text.py.
 *
 *     capture_text show FILE     every line that tests/replay/kcap.py finds by FORMAT.md alone
 *     capture_text odd FILE      numbers of all lengths in every field that a caller of capture.h can set
 */
#include "tracker/capture/capture.h"
#include "tracker/capture/uses.h"
#include "tracker/format/formatsum.h"
#include "tracker/reader/readpart.h"
#include "tracker/stacks/intern.h"
#include "tracker/where/anchor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ODD_ROUNDS 3000

/* ---- show ---- */

static void show_words(const char *name, const void *from, size_t words)
{
    const unsigned char *at = from;

    printf("%s", name);
    for (size_t i = 0; i < words; i++) {
        uint64_t word;

        memcpy(&word, at + 8 * i, sizeof word);
        printf(" %" PRIu64, word);
    }
    printf("\n");
}

static void show_header(const struct read_capture *c)
{
    printf("version %u state %d %u trace %d pid %u ppid %u start %" PRIu64 "\n", FORMAT_VERSION,
            (int)c->state, c->state_detail, (int)c->trace, c->pid, c->ppid, c->start_real_ns);
    printf("last %" PRIu64 " failures %" PRIu64 " file %" PRIu64 "\n", c->last_seq, c->oom_count,
            c->file_bytes);
    printf("exe %s\nhost %s\nrank %s\nprogram %s\n", c->exe, c->host, c->rank, c->program);
    for (size_t i = 0; i < c->argc; i++)
        printf("arg %s\n", c->argv[i]);
    show_words("lost", &c->lost, sizeof c->lost / 8);
    show_words("total", &c->total, sizeof c->total / 8);
    for (unsigned i = 0; i < FORMAT_DEVICES_MAX; i++)
        show_words("device", &c->device_total[i], sizeof c->device_total[i] / 8);
    printf("classes %u\n", (unsigned)MEMCLASS_COUNT);
    for (unsigned i = 0; i < FORMAT_CLASSES_MAX; i++)
        show_words("class", &c->class_total[i], sizeof c->class_total[i] / 8);
    for (unsigned i = 0; i < FORMAT_DEVICES_MAX; i++)
        show_words("look", &c->look[i], sizeof c->look[i] / 8);
    for (unsigned i = 0; i < FORMAT_DEVICES_MAX; i++)
        show_words("inside", &c->inside[i], sizeof c->inside[i] / 8);
    for (unsigned i = 0; i < FORMAT_DEVICES_MAX; i++)
        printf("high %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", c->high[i].bytes, c->high[i].seq,
                c->high[i].time_ns);
    printf("unplaced %" PRIu64 "\n", c->places_lost);
    show_words("unseen", &c->unseen, sizeof c->unseen / 8);
}

static void show_definitions(const struct read_capture *c)
{
    for (uint32_t i = 1; i <= c->private->strings; i++)
        printf("string %u %s\n", i, reader_string(c, i));
    for (size_t i = 1; i < c->module_count; i++) {
        const struct read_module *m = &c->module[i];

        printf("module %zu %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %u %d %s ", i, m->base,
                m->end, m->bias, m->hash, m->kind, m->is_main, m->path);
        for (unsigned j = 0; j < m->build_id_bytes; j++)
            printf("%02x", m->build_id[j]);
        printf("\n");
    }
    for (uint32_t i = 1; i <= c->private->nodes; i++)
        printf("node %u %u %u %" PRIu64 "\n", i, c->private->node[i].parent,
                c->private->node[i].module, c->private->node[i].offset);
    for (size_t i = 0; i < c->rule_count; i++)
        printf("rule %zu %s %d %d %u\n", i, c->rule[i].id, (int)c->rule[i].action,
                (int)c->rule[i].mode, c->rule[i].line);
    printf("hints %" PRIu64 " %s %d\n", c->hints_hash, c->hints_path, (int)c->hints_mode);
    for (size_t i = 0; i < c->setting_count; i++)
        printf("setting %s %s\n", c->setting[i].name, c->setting[i].value);
    for (size_t i = 0; i < c->note_count; i++)
        printf("note %u %s\n", c->note[i].severity, c->note[i].text);
    if (c->moves.count)
        printf("moves %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
               " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
                c->moves.count, c->moves.bytes, c->moves.ns, c->moves.time_ns, c->moves.ready,
                c->moves.lazy, c->moves.sparing, c->moves.create_ns, c->moves.map_ns,
                c->moves.access_ns, c->moves.unmap_ns);
    for (size_t i = 0; i < c->device_count; i++)
        printf("gpu %d %s %" PRIu64 " %u\n", c->device[i].device, c->device[i].name,
                c->device[i].total_bytes, c->device[i].driver_version);
    for (size_t i = 0; i < c->coverage_count; i++)
        printf("coverage %s %s %" PRIu64 "\n", c->coverage[i].hook, c->coverage[i].route,
                c->coverage[i].count);
    for (size_t i = 0; i < c->thread_count; i++)
        printf("thread %u %u %s\n", c->thread[i].number, c->thread[i].tid, c->thread[i].name);
    for (uint32_t i = 1; i <= c->private->codes; i++) {
        const struct format_def_pycode *d = &c->private->code[i].def;

        printf("code %u %u %u %u %d %u %u ", i, d->name, d->qualname, d->file, d->first_line,
                d->table, d->cut);
        for (uint32_t j = 0; j < d->def.length; j++)
            printf("%02x", c->private->code[i].lines[j]);
        printf("\n");
    }
    for (uint32_t i = 1; i <= c->private->pynodes; i++)
        printf("pynode %u %u %u %d %d\n", i, c->private->pynode[i].parent,
                c->private->pynode[i].code, c->private->pynode[i].lasti,
                c->private->pynode[i].is_entry);
}

static void show_uses(const struct format_uses *uses, uint64_t count, unsigned flags)
{
    printf(" uses %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %u\n",
            uses->first_use, uses->last_use, uses->longest_gap, uses->gap_end, count, flags);
}

static void show_live(const char *name, const struct read_live *l)
{
    printf("%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, name, l->seq, l->addr,
            l->size, l->stream, l->time_ns);
    printf(" %u %u %s %u %u", l->stack, l->pystack, l->path, l->instance, l->nth);
    printf(" %d %u %d %d %d", l->device, l->flags, (int)l->memclass, (int)l->hint, l->rule);
    show_uses(&l->uses, l->use_count, l->use_flags);
}

static void show_event(const struct read_capture *c, const struct read_event *e)
{
    printf("event %d %" PRIu64 " %" PRIu64 " %u %d %u", (int)e->kind, e->seq, e->time_ns, e->thread,
            e->device, e->flags);
    printf(" %" PRIu64 " %" PRIu64 " %" PRIu64 " %u %u", e->addr, e->size, e->stream, e->stack,
            e->pystack);
    printf(" %s %u %u %d", e->path, e->instance, e->nth, (int)e->memclass);
    printf(" %d %u %d %" PRIu64 " %" PRIu64 " %" PRIu64, (int)e->edge, e->anchor, e->before_start,
            e->heap, e->free_bytes, e->largest_free);
    printf(" %d %d %d %d", e->result, (int)e->what, (int)e->mode, e->rule);
    show_uses(&e->uses, e->use_count, e->use_flags);
    printf("call %s %s %" PRIu64 " %s %" PRIu64, reader_string(c, e->call),
            reader_string(c, e->arg[0]), e->arg_addr[0], reader_string(c, e->arg[1]),
            e->arg_addr[1]);
    printf(" %" PRIu64 " %d\n", e->comm, e->peer);
}

static void show_failure(const struct read_oom *oom)
{
    const struct format_oom *w = &oom->what;

    printf("failure %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %u %s %u %s",
            oom->number, w->seq, w->time_ns, w->requested, w->stream, w->stack, oom->path,
            w->instance, oom->call);
    printf(" %d %u %u %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %u %" PRIu64, w->device,
            w->result, w->flags, w->holder_count, w->free_bytes, w->total_bytes, w->native_bytes,
            w->other_bytes, w->pystack, w->free_elsewhere);
    show_words(" heaps", &w->heaps, sizeof w->heaps / 8);
    printf("ladder %" PRIu64 " %" PRIu64 " %u %u %u\n", w->ladder.trimmed_bytes,
            w->ladder.moved_bytes, w->ladder.waits, w->ladder.trims, w->ladder.attempts);
    for (uint32_t i = 0; i < w->holder_count; i++)
        printf("holder %" PRIu64 " %" PRIu64 " %u %u\n", w->holder[i].bytes, w->holder[i].count,
                w->holder[i].stack, w->holder[i].pystack);
}

static void show_record(const struct read_record *r)
{
    printf("record %" PRIu64 " %" PRIu64 " %u %u %" PRIu64, r->what.time_ns, r->what.bytes,
            r->what.why, r->what.flags, r->what.bound);
    for (unsigned i = 0; i < FORMAT_DEVICES_MAX; i++)
        printf(" %" PRIu64, r->what.peak[i]);
    printf(" %" PRIu64 "\n", formatsum_bytes(0, r->bytes, r->what.bytes));
}

static void show_place(const struct read_place *p)
{
    printf("place %d %u %u %s %d", p->device, p->stack, p->pystack, p->path, p->is_other);
    printf(" %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64,
            p->allocated_bytes, p->allocated_count, p->live_bytes, p->live_count, p->peak_bytes,
            p->peak_count);
    printf(" %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", p->temporary_bytes,
            p->temporary_count, p->high_bytes, p->high_count);
}

static int show(const char *file)
{
    struct read_capture *c = NULL;

    if (read_open_parts(file, READ_ALL, &c, NULL) < 0)
        return 1;
    show_header(c);
    show_definitions(c);
    for (size_t i = 0; i < c->live_count; i++)
        show_live("live", &c->live[i]);
    for (size_t i = 0; i < c->other_count; i++)
        show_live("other", &c->other[i]);
    for (size_t i = 0; i < c->event_count; i++)
        show_event(c, &c->event[i]);
    for (size_t i = 0; i < c->oom_record_count; i++)
        show_failure(&c->oom[i]);
    if (c->record.bytes)
        show_record(&c->record);
    for (size_t i = 0; i < c->place_count; i++)
        show_place(&c->place[i]);
    if (c->bad_records > 0)
        printf("bad %" PRIu64 "\n", c->bad_records);
    read_close(c);
    return 0;
}

/* ---- odd ---- */

static uint64_t state = 88172645463325252u;

static uint64_t below(uint64_t end)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % end;
}

static uint32_t odd_pystack(void)
{
    return below(3) ? 0 : 1 + (uint32_t)below(1000) + (below(2) ? FORMAT_PYSTACK_AMBIENT : 0);
}

/* 0 and numbers of 1 to `bits` bits, some of them multiples of 512. */
static uint64_t number(unsigned bits)
{
    uint64_t length = below(bits + 1);
    uint64_t value =
            (state ^ state << 32) & (length == 64 ? UINT64_MAX : (UINT64_C(1) << length) - 1);

    return below(3) ? value : value & ~UINT64_C(511);
}

static void odd_alloc(const struct edge *edge, uint64_t seq)
{
    struct tag tag = {.size = number(48)};
    struct capture_alloc_info info = {
            .tag = &tag,
            .ptr = (below(400) + 1) << 20,
            .seq = seq,
            .stream = number(64),
            .api = below(2) ? API_STREAM : API_SYNC,
            .memclass = (enum memclass)below(MEMCLASS_COUNT),
            .native = below(2),
            .stream_capture = below(2),
            .rule = (int)below(5) - 1,
    };

    tag.stack = (uint32_t)below(9);
    tag.pystack = odd_pystack();
    tag.path = edge->path;
    tag.anchor = edge->anchor;
    tag.instance = edge->instance;
    tag.nth = (uint32_t)number(32);
    tag.device = (int)below(18);
    (void)capture_alloc(&info);
}

static void odd_free(uint64_t seq)
{
    struct format_uses uses = {number(40), number(64), number(64), number(30)};
    struct capture_free_info info = {
            .ptr = (below(400) + 1) << 20,
            .seq = seq,
            .size = number(64),
            .stream = number(64),
            .uses = below(2) ? &uses : NULL,
            .device = (int)below(40) - 1,
            .api = below(2) ? API_STREAM : API_SYNC,
            .native = below(2),
    };

    (void)capture_free(&info);
}

static void odd_hint(const struct edge *edge, uint64_t seq)
{
    struct capture_hint_info info = {
            .what = (enum format_hint_what)(1 + below(FORMAT_HINT_COUNT - 1)),
            .mode = (enum hint_mode)below(HINT_MODE_COUNT),
            .rule = (int)below(5) - 1,
            .ptr = below(2) ? (below(400) + 1) << 20 : number(64),
            .size = number(64),
            .seq = seq,
            .stack = (uint32_t)below(9),
            .pystack = odd_pystack(),
            .device = (int)below(20) - 1,
            .result = (int)number(31),
            .edge = below(2) ? edge : NULL,
    };

    (void)capture_hint(&info);
}

static void odd_call(uint64_t seq)
{
    struct capture_call_info info = {.name = below(2) ? "ncclSend" : "ncclAllReduce",
            .buffer = {{below(9) ? "sendbuff" : NULL, number(64)}, {"recvbuff", number(48)}},
            .comm = number(47),
            .peer = (int)below(9) - 1,
            .seq = seq};

    if (below(2))
        info.buffer[1].arg = NULL;
    (void)capture_call(&info);
}

static void odd_failure(const struct edge *edge, uint64_t seq)
{
    struct tag tag = {.size = number(64)};
    struct capture_oom_info info = {
            .tag = &tag,
            .seq = seq,
            .free_bytes = below(2) ? UINT64_MAX : number(64),
            .total_bytes = number(64),
            .call = below(2) ? "cuMemAlloc_v2" : NULL,
            .stream = number(64),
            .flags = (uint32_t)below(16),
            .free_elsewhere = number(64),
            .result = 2,
    };
    uint64_t *word = &info.heaps.held;

    for (size_t i = 0; i < sizeof info.heaps / 8; i++)
        word[i] = number(64);
    info.ladder = (struct format_oom_ladder){number(64), number(64), (uint32_t)number(32),
            (uint32_t)number(32), (uint32_t)number(32), 0};
    tag.stack = (uint32_t)below(9);
    tag.pystack = odd_pystack();
    tag.path = edge->path;
    tag.anchor = edge->anchor;
    tag.instance = edge->instance;
    tag.device = (int)below(16);
    (void)capture_oom(&info, NULL);
}

static void odd_identity(void)
{
    const struct rule rule = {
            .id = "late", .action = ACTION_RELEASE, .mode = HINT_SHADOW, .line = 7};

    for (uint32_t i = 0; i < 3; i++)
        (void)capture_rule(i, &rule);
    (void)capture_hints("hints.yaml", 0xfedcba9876543210u, HINT_SHADOW, 3);
    (void)capture_setting("KEDGE_MODE", "pool");
    (void)capture_setting("empty", "");
    (void)capture_note(1, "a note of two words");
    (void)capture_device(3, "a device", UINT64_C(80) << 30, 13000);
    (void)capture_coverage("cuMemAlloc_v2", "dlsym", 3);
    (void)capture_coverage("cuMemAlloc_v2", "dlsym", 5);
    (void)capture_coverage("cuMemFree_v2", "called", 9);
    for (uint64_t i = 1; i < 3; i++)
        (void)capture_moves(&(struct format_def_moves){.count = i,
                .bytes = i << 21,
                .ns = 3 * i,
                .ready = 4,
                .lazy = 5,
                .sparing = 6,
                .create_ns = 7,
                .map_ns = 8,
                .access_ns = 9,
                .unmap_ns = 10});
}

static void odd_stacks(void)
{
    struct intern_module module = {.base = 0x1000,
            .end = 0x9000,
            .bias = 0x800,
            .hash = 0xabcdef0123456789u,
            .build_id_bytes = 20,
            .is_main = true};
    struct intern_frame frames[8];

    module.path = intern_string("/usr/bin/odd", 12);
    for (unsigned i = 0; i < 20; i++)
        module.build_id[i] = (uint8_t)(i * 13);
    for (uint32_t i = 0; i < 8; i++) {
        frames[7 - i] = (struct intern_frame){i % 3 ? intern_module(&module) : 0, 1 + number(48)};
        (void)intern_stack(frames + 7 - i, i + 1);
    }
}

static int odd(const char *file)
{
    const struct capture_opts opts = {
            .file = file, .trace = FORMAT_TRACE_FULL, .rank = "7", .program = "odd"};
    const struct format_record record = {.why = FORMAT_RECORD_END,
            .flags = FORMAT_RECORD_CUT | FORMAT_RECORD_OWN,
            .bound = 100,
            .peak = {1, 2, [15] = UINT64_MAX}};
    uint64_t moment = 0;

    if (capture_init(&opts) < 0)
        return 1;
    uses_init(true);
    odd_stacks();
    odd_identity();
    for (uint64_t seq = 1; seq <= ODD_ROUNDS; seq++) {
        struct capture_look_info look = {(int)below(16), number(40), number(40), number(40),
                number(40), number(40), number(40), number(40), number(40)};
        struct edge edge;
        char name[16];

        (void)snprintf(name, sizeof name, "range%d", (int)below(4));
        (void)anchor_push(NULL, name, &edge);
        (void)capture_edge(&edge, seq);
        if (below(3) == 0)
            odd_free(seq);
        else
            odd_alloc(&edge, seq);
        uses_of_stretch((below(400) + 1) << 20, 1, below(9) ? USE_SURE : USE_MAY, &(uint64_t){0});
        if (below(7) == 0)
            odd_hint(&edge, seq);
        if (below(5) == 0)
            odd_call(seq);
        if (below(60) == 0)
            odd_failure(&edge, seq);
        if (below(9) == 0)
            (void)capture_reserved((int)below(18), below(5), number(60), number(60), seq);
        if (below(300) == 0) {
            (void)capture_look(&look);
            uses_unseen(&moment);
        }
        (void)anchor_pop(NULL, &edge);
        (void)capture_edge(&edge, seq);
    }
    (void)capture_record(&record, "older", 5);
    (void)capture_record(&record, file, strlen(file));
    capture_state(FORMAT_STATE_SIGNAL, 11);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "show") == 0)
        return show(argv[2]);
    if (argc == 3 && strcmp(argv[1], "odd") == 0)
        return odd(argv[2]);
    return 2;
}
