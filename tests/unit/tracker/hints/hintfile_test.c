/* SPDX-License-Identifier: MIT */
/* covers: hintfile.c hintwords.c hintwrite.c pysite.c receipt.c */
#include "tests/unit/tracker/track_help.h"

#include "tracker/hints/apicalls.h"
#include "tracker/hints/hintfile.h"
#include "tracker/hints/hintwrite.h"
#include "tracker/hints/pysite.h"
#include "tracker/hints/receipt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>

/* Every key that this kedge acts upon. */
static const char full_text[] =
        "kedge-hints: 1                     # format version\n"
        "made: {by: kedge-suggest 0.1, from: [pt.kcap, pir.kcap], on: 2026-11-21}\n"
        "predicted: {rank: \"0\", max-bytes: 9.37GiB, reserved-bytes: 10141827072}\n"
        "program:\n"
        "  argv: \"*tools/train.py*\"\n"
        "  rank: \"*\"\n"
        "  build: {libpaddle.so: \"7f3c01aa92de\"}\n"
        "  on-mismatch: refuse\n"
        "defaults:\n"
        "  mode: trap\n"
        "  wait: all-streams\n"
        "  on-touch: fail\n"
        "  backend: unmap\n"
        "  min-size: 4MiB\n"
        "\n"
        "hints:\n"
        "  - id: dy2st-unused-input\n"
        "    do: release\n"
        "    pick: {site: [c:9b1f44d0e2a7c315], size: 3538944, inside: \"SOT_CALL_*\", nth: 0}\n"
        "    when: {anchor: \"SOT_CALL_*\", edge: exit}\n"
        "    expect: {count: 259, bytes: 1.20GB, saves: 980.5KiB}\n"
        "  - id: dy2st-unused-output\n"
        "    do: release\n"
        "    pick: {site: [c:51aa08c77d20be41, \"c:0000000000000001\"], size: \">=2MiB\", nth: "
        "all}\n"
        "    when: {anchor: SOT_CALL_7, edge: enter}\n"
        "    expect: {count: 3..40, bytes: \"6MiB..1GiB\"}\n"
        "    mode: live\n"
        "    min-size: 0\n"
        "    proof: \"the good run freed it\"\n"
        "  - id: third\n"
        "    do: release\n"
        "    pick: {size: 1KiB..2GiB, inside: a, nth: 2..5, device: 3, stream: 65534, thread: "
        "main, "
        "rank: \"1?\"}\n"
        "    when: {anchor: a, edge: exit}\n"
        "    note: \"by hand\"\n";

static struct hintfile *parse(const char *text)
{
    struct hintfile *file = NULL;
    struct hintfile_error error;

    if (hintfile_read_bytes(text, strlen(text), "t.yaml", &file, &error) < 0) {
        printf("    %s\n", error.text);
        return NULL;
    }
    return file;
}

TEST(every_supported_key_is_read)
{
    struct hintfile *file = parse(full_text);

    REQUIRE(file != NULL);
    CHECK_STR_EQ(file->argv, "*tools/train.py*");
    CHECK_STR_EQ(file->rank, "*");
    REQUIRE_EQ(file->build_count, 1);
    CHECK_STR_EQ(file->build[0].soname, "libpaddle.so");
    CHECK_STR_EQ(file->build[0].id, "7f3c01aa92de");
    CHECK_EQ(file->on_mismatch, HINTFILE_MISMATCH_REFUSE);
    CHECK_EQ(file->mode, HINT_TRAP);
    CHECK_EQ(file->min_size, 4u << 20);
    CHECK_EQ(file->predicted_max, (UINT64_C(937) << 30) / 100);
    CHECK_EQ(file->predicted_reserved, 10141827072);
    CHECK_STR_EQ(file->predicted_rank, "0");
    CHECK_STR_EQ(file->made_by, "kedge-suggest 0.1");
    CHECK_STR_EQ(file->made_on, "2026-11-21");
    REQUIRE_EQ(file->made_from_count, 2);
    CHECK_STR_EQ(file->made_from[1], "pir.kcap");
    CHECK_EQ(file->hash, hintfile_hash(full_text, strlen(full_text)));

    REQUIRE_EQ(file->rule_count, 3);
    const struct rule *rule = &file->rule[0];
    CHECK_STR_EQ(rule->id, "dy2st-unused-input");
    CHECK_EQ(rule->action, ACTION_RELEASE);
    CHECK_EQ(rule->mode, HINT_TRAP);
    CHECK_EQ(rule->pick.site_count, 1);
    CHECK_EQ(rule->pick.site[0], 0x9b1f44d0e2a7c315);
    CHECK_EQ(rule->pick.size_lo, 3538944);
    CHECK_EQ(rule->pick.size_hi, 3538944);
    CHECK_EQ(rule->pick.nth_lo, 0);
    CHECK_EQ(rule->pick.nth_hi, 0);
    CHECK_EQ(rule->pick.device, -1);
    CHECK_EQ(rule->pick.stream, 0);
    CHECK_EQ(rule->pick.thread, RULE_THREAD_ANY);
    CHECK_STR_EQ(rule->pick.rank, "");
    CHECK_STR_EQ(rule->pick.inside, "SOT_CALL_*");
    CHECK_STR_EQ(rule->when.anchor, "SOT_CALL_*");
    CHECK_EQ(rule->when.kind, EDGE_EXIT);
    CHECK_EQ(rule->min_size, 4u << 20);
    CHECK_EQ(rule->expect.count.lo, 259);
    CHECK_EQ(rule->expect.count.hi, 259);
    CHECK_EQ(rule->expect.bytes.lo, 1200000000);
    CHECK_EQ(rule->expect.bytes.hi, 1200000000);
    CHECK_EQ(file->words[0].saves, 980 * 1024 + 512);
    CHECK_EQ(rule->line, 17);
    CHECK_EQ(rule->column, 5);

    rule = &file->rule[1];
    CHECK_EQ(rule->mode, HINT_LIVE);
    CHECK_EQ(rule->min_size, 0);
    CHECK_EQ(rule->pick.site_count, 2);
    CHECK_EQ(rule->pick.site[1], 1);
    CHECK_EQ(rule->pick.size_lo, 2u << 20);
    CHECK_EQ(rule->pick.size_hi, UINT64_MAX);
    CHECK_EQ(rule->pick.nth_hi, UINT32_MAX);
    CHECK_STR_EQ(rule->pick.inside, "");
    CHECK_EQ(rule->when.kind, EDGE_ENTER);
    CHECK_STR_EQ(file->words[1].proof, "the good run freed it");
    CHECK_EQ(rule->expect.count.lo, 3);
    CHECK_EQ(rule->expect.count.hi, 40);
    CHECK_EQ(rule->expect.bytes.lo, 6u << 20);
    CHECK_EQ(rule->expect.bytes.hi, 1u << 30);

    rule = &file->rule[2];
    CHECK_EQ(rule->pick.size_lo, 1024);
    CHECK_EQ(rule->pick.size_hi, 2ull << 30);
    CHECK_EQ(rule->pick.nth_lo, 2);
    CHECK_EQ(rule->pick.nth_hi, 5);
    CHECK_EQ(rule->pick.device, 3);
    CHECK_EQ(rule->pick.stream, 65535);
    CHECK_EQ(rule->pick.thread, RULE_THREAD_MAIN);
    CHECK_STR_EQ(rule->pick.rank, "1?");
    CHECK_STR_EQ(file->words[2].note, "by hand");
    hintfile_free(file);
}

/* Without mode and min-size: a hint starts in shadow, and blocks below one handle are left alone. */
TEST(defaults_are_the_careful_ones)
{
    struct hintfile *file = parse("kedge-hints: 1\n"
                                  "hints: [{id: a, do: release, pick: {size: 5},"
                                  " when: {anchor: x, edge: exit}}]\n");

    REQUIRE(file != NULL);
    CHECK_EQ(file->mode, HINT_SHADOW);
    CHECK_EQ(file->rule[0].mode, HINT_SHADOW);
    CHECK_EQ(file->rule[0].min_size, HINTFILE_MIN_SIZE);
    CHECK_EQ(file->rule[0].pick.nth_lo, 0);
    CHECK_EQ(file->rule[0].pick.nth_hi, UINT32_MAX);
    CHECK_EQ(file->on_mismatch, HINTFILE_MISMATCH_SHADOW);
    hintfile_free(file);
}

TEST(json_is_read_too)
{
    struct hintfile *file =
            parse("{\"kedge-hints\": 1, \"hints\": [{\"id\": \"a\", \"do\": \"release\","
                  "\"pick\": {\"size\": 5}, \"when\": {\"anchor\": \"x\","
                  "\"edge\": \"exit\"}}]}");

    REQUIRE(file != NULL);
    CHECK_EQ(file->rule_count, 1);
    hintfile_free(file);
}

/* The text of one hint with one part replaced. */
#define HINT(pick_, when_, more_)                                                               \
    "kedge-hints: 1\nhints:\n  - id: a\n    do: release\n    pick: " pick_ "\n    when: " when_ \
    "\n" more_
#define PICK "{size: 5}"
#define WHEN "{anchor: x, edge: exit}"

/* What is wrong, and where people will look. */
static const struct {
    const char *text;
    const char *error;
} bad_files[] = {
        {"", "t.yaml:1:1: there is nothing in it"},
        {"hello", "t.yaml:1:1: a hint file is a mapping that begins with kedge-hints: 1"},
        {"- 1\n", "t.yaml:1:1: a hint file is a mapping that begins with kedge-hints: 1"},
        {"hints: []\n", "t.yaml:1:1: no kedge-hints: 1 in it"},
        {"kedge-hints: 2\nhints: []\n",
                "t.yaml:1:14: version '2' is not one that this kedge reads (1)"},
        {"kedge-hints: [1]\n", "t.yaml:1:14: version '' is not one that this kedge reads (1)"},
        {"kedge-hints: 1\n", "t.yaml:1:1: no hints in it"},
        {"kedge-hints: 1\nhints: []\n", "t.yaml:2:8: hints must be a list of at least one hint"},
        {"kedge-hints: 1\nhints: x\n", "t.yaml:2:8: hints must be a list of at least one hint"},
        {"kedge-hints: 1\nhint: []\n", "t.yaml:2:1: unknown key 'hint' in the file"},
        {"kedge-hints: 1\nkedge-hints: 1\n", "t.yaml:2:1: the same key twice"},
        {"kedge-hints: 1\nhints: [x]\n", "t.yaml:2:9: hint must be a mapping"},
        {"kedge-hints: 1\nhints: [{id: a}]\n", "t.yaml:2:9: a hint needs 'do'"},
        {"kedge-hints: 1\nhints: *a\n", "t.yaml:2:8: aliases are not allowed"},
        {"kedge-hints: &a 1\n", "t.yaml:1:14: anchors and tags are not allowed"},
        {"kedge-hints: !!int 1\n", "t.yaml:1:14: anchors and tags are not allowed"},
        {"kedge-hints: 1\nhints: !x []\n", "t.yaml:2:8: anchors and tags are not allowed"},
        {"%YAML 1.1\n---\nkedge-hints: 1\n", "t.yaml:1:1: directives are not allowed"},
        {"kedge-hints: 1\n---\nkedge-hints: 1\n", "t.yaml:2:1: a second document"},
        {"? [a]\n: 1\n", "t.yaml:1:3: a key must be a word"},
        {"kedge-hints: 1\nmade: {by: [[[[[1]]]]]}\n", "t.yaml:2:16: nested deeper than 6 levels"},
        {"kedge-hints: 1\nhints:\n  - id: a\n  b: c\n",
                "t.yaml:4:3: did not find expected '-' indicator"},
        {"kedge-hints: \"\\0\"\n", "t.yaml:1:14: a NUL byte in a text"},
        {"kedge-hints: 1\nhints: [{id: 'a b', do: release}]\n",
                "t.yaml:2:14: an id is letters, digits, '-', '_' and '.'"},
        {"kedge-hints: 1\nhints: [{id: a, do: destroy}]\n",
                "t.yaml:2:21: do must be release, pin, ignore, keep-meta, hold, evict or restore"},
        {"kedge-hints: 1\nhints: [{id: a, do: pin, pick: {size: 5}, when: {anchor: a, edge: "
         "exit}}]\n",
                "t.yaml:2:43: 'when' says nothing with do: pin"},
        {"kedge-hints: 1\nhints: [{id: a, do: ignore, pick: {size: 5}, expect: {count: 1}}]\n",
                "t.yaml:2:46: 'expect' says nothing with do: ignore"},
        {"kedge-hints: 1\nhints: [{id: a, do: pin, pick: {size: 5}, mode: live}]\n",
                "t.yaml:2:43: 'mode' says nothing with do: pin"},
        {"kedge-hints: 1\nhints: [{id: a, do: release, pick: {size: 5}}]\n",
                "t.yaml:2:9: a hint needs 'when'"},
        {"kedge-hints: 1\nhints: [{id: a, do: pin}]\n", "t.yaml:2:9: a hint needs 'pick'"},
        {"kedge-hints: 1\nhints: [{id: a, do: evict}]\n", "t.yaml:2:9: a hint needs 'pick'"},
        {"kedge-hints: 1\nhints: [{id: a, do: hold, pick: {size: 5}}]\n",
                "t.yaml:2:9: a hint needs 'when'"},
        {"kedge-hints: 1\nhints: [{id: a, do: hold, pick: {size: 5}, when: {anchor: a, edge: "
         "exit}, min-size: 1}]\n",
                "t.yaml:2:75: 'min-size' says nothing with do: hold"},
        {"kedge-hints: 1\nhints: [{id: a, do: hold, pick: {size: 5}, when: {event: {call: "
         "ncclRecv}, from: alloc}}]\n",
                "t.yaml:2:82: a hold counts from the free"},
        {"kedge-hints: 1\nhints: [{id: a, do: hold, pick: {size: 5}, when: {anchor: a, edge: "
         "exit}, expect: {count: 1}}]\n",
                "t.yaml:2:75: 'expect' says nothing with do: hold"},
        {"kedge-hints: 1\nhints: [{id: a, do: release, pick: {size: 5, used-by: {call: ncclSend, "
         "arg: sendbuff}}, when: {event: {call: ncclRecv}, from: alloc}}]\n",
                "t.yaml:2:127: with used-by in pick it counts from the use"},
        {"kedge-hints: 1\nevents: [x]\n", "t.yaml:2:9: events must be a mapping of name to event"},
        {"kedge-hints: 1\nevents: {a: {}}\n", "t.yaml:2:13: an event needs call or mark"},
        {"kedge-hints: 1\nevents: {a: x}\n", "t.yaml:2:13: event must be a mapping"},
        {"kedge-hints: 1\nevents: {a: {call: ncclRecv, mark: b, edge: exit}}\n",
                "t.yaml:2:13: an event needs call or mark"},
        {"kedge-hints: 1\nevents: {a: {call: ncclRecv, edge: exit}}\n",
                "t.yaml:2:13: inside is of a call, edge of a mark"},
        {"kedge-hints: 1\nevents: {a: {mark: b}}\n", "t.yaml:2:13: mark needs edge"},
        {"kedge-hints: 1\nevents: {a: {call: ncclRedv}}\n",
                "t.yaml:2:20: unknown call 'ncclRedv', known are ncclAllReduce, ncclReduceScatter, "
                "ncclReduce, ncclBroadcast, ncclBcast, ncclAllGather, ncclAlltoAll, ncclGather, "
                "ncclScatter, ncclSend, ncclRecv"},
        {"kedge-hints: 1\ndefaults: {mode: off}\n",
                "t.yaml:2:18: mode must be shadow, trap, live or poison"},
        {"kedge-hints: 1\ndefaults: {wait: event}\n",
                "t.yaml:2:18: wait: event is not supported yet"},
        {"kedge-hints: 1\ndefaults: {on-touch: restore}\n",
                "t.yaml:2:22: on-touch: restore is not supported yet"},
        {"kedge-hints: 1\ndefaults: {backend: managed}\n",
                "t.yaml:2:21: backend: managed is not supported yet"},
        {"kedge-hints: 1\ndefaults: {backend: map}\n",
                "t.yaml:2:21: backend must be unmap or alias"},
        {"kedge-hints: 1\ndefaults: {sync-limit: 8}\n",
                "t.yaml:2:12: 'sync-limit' in defaults is not supported yet"},
        {"kedge-hints: 1\ndefaults: {min-size: 2 MiB}\n",
                "t.yaml:2:22: min-size must be a size: a number of bytes, or a number with KiB, "
                "MiB, "
                "GiB, MB or GB"},
        {"kedge-hints: 1\nprogram: {build: {x: 7F}}\n",
                "t.yaml:2:22: a build-id is hex digits, lower case"},
        {"kedge-hints: 1\nprogram: {on-mismatch: live}\n",
                "t.yaml:2:24: on-mismatch must be shadow or refuse"},
        {HINT("{}", WHEN, ""),
                "t.yaml:5:11: pick names no site, size or anchor: it would match every allocation"},
        {HINT("{nth: 1}", WHEN, ""),
                "t.yaml:5:11: pick names no site, size or anchor: it would match every allocation"},
        {HINT("{size: '>=0KiB', inside: ''}", WHEN, ""),
                "t.yaml:5:11: pick names no site, size or anchor: it would match every allocation"},
        {HINT("{sizes: 5}", WHEN, ""), "t.yaml:5:12: unknown key 'sizes' in pick"},
        {HINT("{used-by: {call: ncclSend, arg: sendbuff}}", WHEN, ""),
                "t.yaml:5:11: pick names no site, size or anchor: it would match every allocation"},
        {HINT("{size: 5, used-by: {call: ncclSend}}", WHEN, ""),
                "t.yaml:5:30: used-by needs call and arg"},
        {HINT("{size: 5, used-by: {arg: recvbuff, call: ncclSend}}", WHEN, ""),
                "t.yaml:5:36: the buffers of ncclSend are sendbuff"},
        {HINT("{size: 5, used-by: {call: ncclGather, arg: ''}}", WHEN, ""),
                "t.yaml:5:54: the buffers of ncclGather are sendbuff and recvbuff"},
        {HINT("{site: c:9b1f44d0e2a7c315}", WHEN, ""),
                "t.yaml:5:18: site must be a list of site keys"},
        {HINT("{site: [c:9b1f]}", WHEN, ""),
                "t.yaml:5:19: a site is c: and 16 hex digits, or p:FILE:QUALNAME[:LINE]"},
        {HINT("{site: [c:9b1f44d0e2a7c3155]}", WHEN, ""),
                "t.yaml:5:19: a site is c: and 16 hex digits, or p:FILE:QUALNAME[:LINE]"},
        {HINT("{site: [c:9B1F44D0E2A7C315]}", WHEN, ""),
                "t.yaml:5:19: a site is c: and 16 hex digits, or p:FILE:QUALNAME[:LINE]"},
        {HINT("{site: [c:0000000000000000]}", WHEN, ""),
                "t.yaml:5:19: site 0 means unknown and matches nothing"},
        {HINT("{site: [s:9b1f44d0e2a7c315]}", WHEN, ""),
                "t.yaml:5:19: s: sites are not supported yet"},
        {HINT("{site: [\"p:model.py\"]}", WHEN, ""),
                "t.yaml:5:19: a Python call site is p:FILE:QUALNAME or p:FILE:QUALNAME:LINE"},
        {HINT("{site: [\"p::f\"]}", WHEN, ""),
                "t.yaml:5:19: a Python call site is p:FILE:QUALNAME or p:FILE:QUALNAME:LINE"},
        {HINT("{site: [\"p:model.py:\"]}", WHEN, ""),
                "t.yaml:5:19: a Python call site is p:FILE:QUALNAME or p:FILE:QUALNAME:LINE"},
        {HINT("{site: [\"p:model.py::7\"]}", WHEN, ""),
                "t.yaml:5:19: a Python call site is p:FILE:QUALNAME or p:FILE:QUALNAME:LINE"},
        {HINT("{site: [\"p:\"]}", WHEN, ""),
                "t.yaml:5:19: a Python call site is p:FILE:QUALNAME or p:FILE:QUALNAME:LINE"},
        {HINT("{site: [\"p:net/model.py:f\"]}", WHEN, ""),
                "t.yaml:5:19: the file of a Python call site is a base name, without folders"},
        {HINT("{site: [c:9b1f44d0e2a7c315, \"p:model.py:f:\"]}", WHEN, ""),
                "t.yaml:5:39: the line of a Python call site is a number from 1"},
        {HINT("{site: [\"p:model.py:f:0\"]}", WHEN, ""),
                "t.yaml:5:19: the line of a Python call site is a number from 1"},
        {HINT("{site: [\"p:model.py:f:7a\"]}", WHEN, ""),
                "t.yaml:5:19: the line of a Python call site is a number from 1"},
        {HINT("{site: [\"p:model.py:f:-7\"]}", WHEN, ""),
                "t.yaml:5:19: the line of a Python call site is a number from 1"},
        {HINT("{site: [\"p:model.py:f:7:8\"]}", WHEN, ""),
                "t.yaml:5:19: the line of a Python call site is a number from 1"},
        {HINT("{site: [\"p:model.py:f:2147483648\"]}", WHEN, ""),
                "t.yaml:5:19: the line of a Python call site is a number from 1"},
        {HINT("{site: [\"p:model.py:f:18446744073709551617\"]}", WHEN, ""),
                "t.yaml:5:19: the line of a Python call site is a number from 1"},
        {HINT("{size: 7..3}", WHEN, ""), "t.yaml:5:18: the range of sizes is empty"},
        {HINT("{size: 1.5}", WHEN, ""),
                "t.yaml:5:18: size must be a size, \"low..high\" or \">=size\""},
        {HINT("{size: -1}", WHEN, ""),
                "t.yaml:5:18: size must be a size, \"low..high\" or \">=size\""},
        {HINT("{size: 18446744073709551616}", WHEN, ""),
                "t.yaml:5:18: size must be a size, \"low..high\" or \">=size\""},
        {HINT("{size: 99999999999GiB}", WHEN, ""),
                "t.yaml:5:18: size must be a size, \"low..high\" or \">=size\""},
        {HINT("{size: 5, nth: some}", WHEN, ""),
                "t.yaml:5:26: nth must be a number, \"a..b\" or all"},
        {HINT("{size: 5, nth: 4294967295}", WHEN, ""),
                "t.yaml:5:26: nth must be a number, \"a..b\" or all"},
        {HINT("{size: 5, nth: 5..2}", WHEN, ""), "t.yaml:5:26: the range of nth is empty"},
        {HINT("{size: 5, device: gpu}", WHEN, ""), "t.yaml:5:29: device must be a device number"},
        {HINT("{size: 5, stream: legacy}", WHEN, ""),
                "t.yaml:5:29: stream must be a stream number"},
        {HINT("{size: 5, stream: 65535}", WHEN, ""), "t.yaml:5:29: stream must be a stream number"},
        {HINT("{size: 5, thread: worker}", WHEN, ""), "t.yaml:5:29: thread must be any or main"},
        {HINT("{thread: main, rank: 3}", WHEN, ""),
                "t.yaml:5:11: pick names no site, size or anchor: it would match every allocation"},
        {HINT(PICK, "{anchor: x}", ""), "t.yaml:6:11: when needs anchor and edge"},
        {HINT(PICK, "{anchor: '', edge: exit}", ""), "t.yaml:6:20: anchor is empty"},
        {HINT(PICK, "{anchor: x, edge: point}", ""), "t.yaml:6:29: edge must be enter or exit"},
        {HINT(PICK, "{event: sot-end}", ""), "t.yaml:6:19: events has no 'sot-end'"},
        {HINT(PICK, "{anchor: x, edge: exit, count: 2}", ""),
                "t.yaml:6:11: count and from are of an event, not of an anchor"},
        {HINT(PICK, "{count: 2}", ""),
                "t.yaml:6:11: when needs one of anchor, event, launch and free-of"},
        {HINT(PICK, "{event: {call: ncclRecv}, anchor: x, edge: exit}", ""),
                "t.yaml:6:11: when needs one of anchor, event, launch and free-of"},
        {HINT(PICK, "{event: {call: ncclRecv}, edge: exit}", ""),
                "t.yaml:6:11: when needs anchor and edge"},
        {HINT(PICK, "{event: {call: ncclRecv}, count: 0}", ""),
                "t.yaml:6:44: count must be a number from 1"},
        {HINT(PICK, "{event: {call: ncclRecv}, from: use}", ""),
                "t.yaml:6:43: from use needs used-by in pick"},
        {HINT(PICK, "{event: {call: ncclRecv}, from: free}", ""),
                "t.yaml:6:43: from free needs do: hold"},
        {HINT(PICK, WHEN, "    wait: event\n    proof: x\n"),
                "t.yaml:7:11: wait: event needs the event of a call in when"},
        {HINT(PICK, "{event: {mark: a, edge: exit}}", "    wait: event\n    proof: x\n"),
                "t.yaml:7:11: wait: event needs the event of a call in when"},
        {HINT(PICK, "{event: {call: ncclRecv}}", "    wait: event\n"),
                "t.yaml:7:11: wait: event needs proof: why nothing uses the memory once that call "
                "is done"},
        {HINT(PICK, "{launch: ''}", ""), "t.yaml:6:20: launch is empty"},
        {HINT(PICK, "{launch: gemm, edge: exit}", ""), "t.yaml:6:11: when needs anchor and edge"},
        {HINT(PICK, "{launch: gemm}", "    wait: event\n    proof: x\n"),
                "t.yaml:7:11: wait: event needs the event of a call in when"},
        {HINT(PICK, "{free-of: b}", ""), "t.yaml:6:21: there is no hint 'b'"},
        {HINT(PICK, WHEN, "    else: {free-of: b}\n"), "t.yaml:7:21: there is no hint 'b'"},
        {HINT(PICK, "{free-of: b}", "  - {id: b, do: pin, pick: {size: 6}}\n"),
                "t.yaml:6:21: hint 'b' follows no block to its free"},
        {HINT(PICK, WHEN, "    else: {free-of: b}\n  - {id: b, do: ignore, pick: {size: 6}}\n"),
                "t.yaml:7:21: hint 'b' follows no block to its free"},
        {HINT(PICK, WHEN, "    else: {anchor: y}\n"), "t.yaml:7:11: else needs anchor and edge"},
        {HINT(PICK, WHEN, "    canary: 2/16\n"), "t.yaml:7:13: canary must be 1/NUMBER"},
        {HINT(PICK, WHEN, "    canary: 1/0\n"), "t.yaml:7:13: canary must be 1/NUMBER"},
        {HINT(PICK, WHEN, "    canary: 1/2x\n"), "t.yaml:7:13: canary must be 1/NUMBER"},
        {HINT(PICK, WHEN, "    canary: 16\n"), "t.yaml:7:13: canary must be 1/NUMBER"},
        {HINT(PICK, WHEN, "    keep-content: 1x\n"),
                "t.yaml:7:19: keep-content must be a number of instances, or always"},
        {HINT(PICK, WHEN, "    keep-content: 4294967295\n"),
                "t.yaml:7:19: keep-content must be a number of instances, or always"},
        {"kedge-hints: 1\ndefaults: {fallback: maybe}\n",
                "t.yaml:2:22: fallback must be no or yes"},
        {HINT(PICK, WHEN, "    restore: before-use\n"),
                "t.yaml:7:5: 'restore' in hint is not supported yet"},
        {HINT(PICK, WHEN, "    expect: {per-step: 1}\n"),
                "t.yaml:7:14: unknown key 'per-step' in expect"},
        {HINT(PICK, WHEN, "    expect: {count: some}\n"),
                "t.yaml:7:21: count must be a number or \"low..high\""},
        {HINT(PICK, WHEN, "    expect: {count: 3KiB}\n"),
                "t.yaml:7:21: count must be a number or \"low..high\""},
        {HINT(PICK, WHEN, "    expect: {count: 3..2}\n"),
                "t.yaml:7:21: the range of count is empty"},
        {HINT(PICK, WHEN, "    expect: {count: 0}\n"), "t.yaml:7:21: count must not be 0"},
        {HINT(PICK, WHEN, "    expect: {bytes: [1, 2]}\n"),
                "t.yaml:7:21: bytes must be a size, \"low..high\" or \">=size\""},
        {HINT(PICK, WHEN, "    expect: {bytes: 1MiB..1KiB}\n"),
                "t.yaml:7:21: the range of bytes is empty"},
        {HINT(PICK, WHEN, "  - id: a\n    do: release\n    pick: " PICK "\n    when: " WHEN "\n"),
                "t.yaml:7:5: the id 'a' is used twice (first on line 3)"},
};

TEST(bad_files_are_refused_with_their_place)
{
    for (size_t i = 0; i < sizeof bad_files / sizeof bad_files[0]; i++) {
        struct hintfile *file = NULL;
        struct hintfile_error error;
        int r = hintfile_read_bytes(
                bad_files[i].text, strlen(bad_files[i].text), "t.yaml", &file, &error);

        CHECK_EQ(r, -EINVAL);
        CHECK_STR_EQ(error.text, bad_files[i].error);
        CHECK(file == NULL);
        hintfile_free(file);
    }
}

TEST(r53_bytes_that_are_no_text_are_refused)
{
    struct hintfile *file = NULL;
    struct hintfile_error error;
    static const unsigned char bytes[] = {'a', ':', ' ', 0xff, 0xfe, 0x80, '\n'};
    char *large = calloc(1, HINTFILE_BYTES_MAX + 1);

    CHECK_EQ(hintfile_read_bytes(bytes, sizeof bytes, "t.yaml", &file, &error), -EINVAL);
    CHECK(strncmp(error.text, "t.yaml:", 7) == 0);
    REQUIRE(large != NULL);
    CHECK_EQ(hintfile_read_bytes(large, HINTFILE_BYTES_MAX + 1, "t.yaml", &file, &error), -EFBIG);
    free(large);
    CHECK(file == NULL);
}

/* ---- writing ---- */

static void check_same(const struct hintfile *a, const struct hintfile *b)
{
    REQUIRE_EQ(a->rule_count, b->rule_count);
    CHECK_STR_EQ(a->argv, b->argv);
    CHECK_STR_EQ(a->rank, b->rank);
    CHECK_EQ(a->build_count, b->build_count);
    CHECK_EQ(memcmp(a->build, b->build, sizeof a->build), 0);
    CHECK_EQ(a->on_mismatch, b->on_mismatch);
    CHECK_EQ(a->mode, b->mode);
    CHECK_EQ(a->min_size, b->min_size);
    CHECK_EQ(a->predicted_max, b->predicted_max);
    CHECK_EQ(a->predicted_reserved, b->predicted_reserved);
    CHECK_EQ(!a->predicted_rank, !b->predicted_rank);
    if (a->predicted_rank && b->predicted_rank)
        CHECK_STR_EQ(a->predicted_rank, b->predicted_rank);
    CHECK_EQ(a->made_from_count, b->made_from_count);
    for (size_t i = 0; i < a->rule_count; i++) {
        struct rule left = a->rule[i];
        struct rule right = b->rule[i];

        left.line = right.line = left.column = right.column = 0;
        CHECK_STR_EQ(left.id, right.id);
        CHECK_EQ(memcmp(&left.pick, &right.pick, sizeof left.pick), 0);
        CHECK_STR_EQ(left.when.anchor, right.when.anchor);
        CHECK_EQ(left.when.kind, right.when.kind);
        CHECK_EQ(left.mode, right.mode);
        CHECK_EQ(left.min_size, right.min_size);
        CHECK_EQ(memcmp(&left.expect, &right.expect, sizeof left.expect), 0);
        CHECK_EQ(a->words[i].saves, b->words[i].saves);
        CHECK_EQ(!a->words[i].proof, !b->words[i].proof);
        if (a->words[i].proof && b->words[i].proof)
            CHECK_STR_EQ(a->words[i].proof, b->words[i].proof);
    }
}

/* #34230 as a hint, its event under a name and in place. */
static const char events_text[] =
        "kedge-hints: 1\n"
        "events:\n"
        "  fwd-recv: {call: ncclRecv, inside: \"step/*/forward\"}\n"
        "  sot-end: {mark: \"SOT_CALL_*\", edge: exit}\n"
        "hints:\n"
        "  - id: bwd-send\n"
        "    do: release\n"
        "    pick: {size: 16MiB, used-by: {call: ncclGather, arg: recvbuff, inside: \"s*\"}}\n"
        "    when: {count: 2, event: fwd-recv}\n"
        "    else: {anchor: \"step/update\", edge: exit}\n"
        "    wait: event\n"
        "    proof: \"the peer sends after it has received\"\n"
        "  - id: third-call\n"
        "    do: release\n"
        "    pick: {size: 8MiB}\n"
        "    when: {event: sot-end, count: 3}\n"
        "    else: {event: {call: ncclSend}}\n"
        "  - id: from-the-allocation\n"
        "    do: release\n"
        "    pick: {size: 4MiB}\n"
        "    when: {event: {mark: now, edge: point}, from: alloc}\n"
        "  - id: kernels\n"
        "    do: release\n"
        "    pick: {size: 2MiB}\n"
        "    when: {launch: \"*gemm*\", count: 4}\n"
        "    else: {free-of: third-call}\n";

TEST(events_are_read_under_their_names_and_in_place)
{
    struct hintfile *file = parse(events_text);
    const struct rule *rule;

    REQUIRE(file != NULL);
    rule = &file->rule[0];
    CHECK_EQ(rule->pick.use.call, APICALL_ncclGather);
    CHECK_EQ(rule->pick.use.arg, 1);
    CHECK_STR_EQ(rule->pick.use.inside, "s*");
    CHECK_EQ(rule->when.kind, EDGE_CALL);
    CHECK_EQ(rule->when.call, APICALL_ncclRecv);
    CHECK_STR_EQ(rule->when.anchor, "step/*/forward");
    CHECK_EQ(rule->when.count, 2);
    CHECK_EQ(rule->when.from, RULE_FROM_USE); /* since there is a use */
    CHECK_EQ(rule->otherwise.kind, EDGE_EXIT);
    CHECK_EQ(rule->otherwise.count, 0);
    CHECK_STR_EQ(rule->otherwise.anchor, "step/update");
    CHECK_EQ(rule->wait, RULE_WAIT_EVENT);
    CHECK_EQ(file->rule[1].wait, RULE_WAIT_ALL_STREAMS);
    rule = &file->rule[1];
    CHECK_EQ(rule->pick.use.call, APICALL_NONE);
    CHECK_EQ(rule->when.kind, EDGE_EXIT);
    CHECK_STR_EQ(rule->when.anchor, "SOT_CALL_*");
    CHECK_EQ(rule->when.count, 3);
    CHECK_EQ(rule->when.from, RULE_FROM_ALLOC);
    CHECK_EQ(rule->otherwise.kind, EDGE_CALL);
    CHECK_EQ(rule->otherwise.count, 1);
    rule = &file->rule[2];
    CHECK_EQ(rule->when.kind, EDGE_MARK);
    CHECK_EQ(rule->when.from, RULE_FROM_ALLOC);
    CHECK(!rule_is_set(&rule->otherwise));
    rule = &file->rule[3];
    CHECK_EQ(rule->when.kind, EDGE_LAUNCH);
    CHECK_STR_EQ(rule->when.anchor, "*gemm*");
    CHECK_EQ(rule->when.count, 4);
    CHECK_EQ(rule->otherwise.kind, EDGE_FREE);
    CHECK_EQ(rule->otherwise.rule, 1);
    CHECK_EQ(rule->otherwise.count, 1);
    hintfile_free(file);
}

TEST(events_are_written_in_place)
{
    struct hintfile *file = parse(events_text);
    struct hintfile *again;
    char *text = NULL;
    size_t length = 0;

    REQUIRE(file != NULL);
    REQUIRE_EQ(hintwrite_text(file, &text, &length), 0);
    again = parse(text);
    REQUIRE(again != NULL);
    check_same(file, again);
    for (size_t i = 0; i < file->rule_count; i++) {
        CHECK_EQ(file->rule[i].wait, again->rule[i].wait);
        CHECK_EQ(memcmp(&file->rule[i].when, &again->rule[i].when, sizeof(struct rule_when)), 0);
        CHECK_EQ(memcmp(&file->rule[i].otherwise, &again->rule[i].otherwise,
                         sizeof(struct rule_when)),
                0);
    }
    file->rule[0].when.call = APICALL_COUNT;
    CHECK_EQ(hintwrite_text(file, &(char *){NULL}, &length), -EINVAL);
    hintfile_free(again);
    hintfile_free(file);
    free(text);
}

TEST(sizes_are_written_exactly_in_the_unit_that_is_read_best)
{
    struct hintfile *file = parse("kedge-hints: 1\ndefaults: {min-size: 65536}\nhints:\n"
                                  "  - {id: a, do: release, pick: {size: 2359296..3538944}, when: "
                                  "{anchor: a, edge: exit}, expect: {bytes: 1073741825}}\n"
                                  "  - {id: b, do: release, pick: {size: '>=3298534883328'}, when: "
                                  "{anchor: a, edge: exit}, expect: {bytes: 1023..11010048}}\n"
                                  "  - {id: c, do: release, pick: {size: 1073741824}, when: "
                                  "{anchor: a, edge: exit}, min-size: 1030, "
                                  "expect: {bytes: '>=1536KiB'}}\n");
    static const char *const written[] = {"min-size: 64KiB}", "size: \"2.25MiB..3.375MiB\"",
            "bytes: 1073741825}", "size: \">=3072GiB\"", "bytes: \"1023..10.5MiB\"", "size: 1GiB,",
            "min-size: 1030\n", "bytes: \">=1.5MiB\"}"};
    struct hintfile *again;
    char *text = NULL;
    size_t length;

    REQUIRE(file != NULL);
    REQUIRE_EQ(hintwrite_text(file, &text, &length), 0);
    for (size_t i = 0; i < sizeof written / sizeof *written; i++)
        if (!strstr(text, written[i]))
            CHECK_STR_EQ(text, written[i]);
    again = parse(text);
    REQUIRE(again != NULL);
    check_same(file, again);
    hintfile_free(again);
    hintfile_free(file);
    free(text);
}

TEST(what_is_written_is_read_back_equal)
{
    struct hintfile *file = parse(full_text);
    struct hintfile *again;
    char *text = NULL;
    size_t length = 0;

    REQUIRE(file != NULL);
    file->words[0].comment = strdup("two lines:\nno effect on the peak: here");
    file->comment = strdup("left out: 3 late frees");
    REQUIRE_EQ(hintwrite_text(file, &text, &length), 0);
    CHECK(strstr(text, "kedge-hints: 1\n# left out: 3 late frees\n") == text);
    CHECK_EQ(strlen(text), length);
    CHECK(strstr(text, "  # two lines:\n  # no effect on the peak: here\n  - id:") != NULL);
    again = parse(text);
    REQUIRE(again != NULL);
    check_same(file, again);
    hintfile_free(again);
    hintfile_free(file);
    free(text);
}

/* Does a release not take it? */
static bool is_of_evict(const char *map, const char *key)
{
    static const char *const keys[] = {
            "order", "victim", "cyclic", "prefetch", "backing", "clean", "warmup-cap", "policy"};
    bool is = strcmp(map, "CAP") == 0;

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        is |= strcmp(map, "HINT") == 0 && strcmp(key, keys[i]) == 0;
    return is;
}

/* A file with one key in one of its mappings, written anew. */
static char *write_with(const char *map, const char *key, const char *value, bool evicts)
{
    static const char *const maps[] = {"PROGRAM", "DEFAULTS", "PICK", "HINT", "CAP"};
    struct hintfile *file;
    char add[5][64] = {"", "", "", "", ""};
    char text[512], cap[128] = "";
    char *again = NULL;
    size_t length;

    for (size_t i = 0; i < 5; i++)
        if (strcmp(map, maps[i]) == 0)
            (void)snprintf(add[i], sizeof add[i], "%s%s: %s", i < 2 ? "" : ", ", key, value);
    if (evicts)
        (void)snprintf(cap, sizeof cap, ", cap: {device: 1GiB%s}", add[4]);
    (void)snprintf(text, sizeof text,
            "kedge-hints: 1\nprogram: {%s}\ndefaults: {%s}\nhints:\n"
            "  - {id: a, do: %s, pick: {size: 5%s}, when: {anchor: a, edge: exit}%s%s}\n",
            add[0], add[1], evicts ? "evict" : "release", add[2], add[3], cap);
    file = parse(text);
    REQUIRE(file != NULL);
    REQUIRE_EQ(hintwrite_text(file, &again, &length), 0);
    hintfile_free(file);
    return again;
}

TEST(canary_and_fallback_are_written_as_they_were_read)
{
    static const char hints[] =
            "kedge-hints: 1\ndefaults: {mode: poison, canary: 1/8, fallback: yes}\nhints:\n"
            "  - {id: a, do: release, pick: {size: 5}, when: {anchor: a, edge: exit}}\n"
            "  - {id: b, do: release, pick: {size: 5}, when: {anchor: a, edge: exit}, "
            "canary: 1/3, mode: live}\n"
            "  - {id: c, do: release, pick: {size: 5}, when: {anchor: a, edge: exit}, "
            "canary: 1/1}\n";
    struct hintfile *file = parse(hints);
    char *text = NULL;
    size_t length = 0;

    for (int turn = 0; turn < 2; turn++) {
        REQUIRE(file != NULL);
        CHECK_EQ(file->mode, HINT_POISON);
        CHECK_EQ(file->canary, 8);
        CHECK_EQ(file->fallback, HINTFILE_FALLBACK_YES);
        CHECK_EQ(file->rule[0].canary, 8);
        CHECK_EQ(file->rule[0].mode, HINT_POISON);
        CHECK_EQ(file->rule[1].canary, 3);
        CHECK_EQ(file->rule[1].mode, HINT_LIVE);
        CHECK_EQ(file->rule[2].canary, 1);
        free(text);
        REQUIRE_EQ(hintwrite_text(file, &text, &length), 0);
        hintfile_free(file);
        file = parse(text);
    }
    hintfile_free(file);
    free(text);
}

TEST(a_backend_is_written_as_it_was_read)
{
    struct hintfile *file =
            parse("kedge-hints: 1\ndefaults: {min-size: 64KiB, backend: alias}\nhints:\n"
                  "  - {id: a, do: release, pick: {size: 5}, when: {anchor: a, edge: exit}}\n"
                  "  - {id: b, do: release, pick: {size: 5}, when: {anchor: a, edge: exit}, "
                  "backend: unmap}\n");
    char *text = NULL;
    size_t length = 0;

    for (int turn = 0; turn < 2; turn++) {
        REQUIRE(file != NULL);
        CHECK_EQ(file->backend, RULE_ALIAS);
        CHECK_EQ(file->rule[0].backend, RULE_ALIAS);
        CHECK_EQ(file->rule[1].backend, RULE_UNMAP);
        free(text);
        REQUIRE_EQ(hintwrite_text(file, &text, &length), 0);
        hintfile_free(file);
        file = parse(text);
    }
    hintfile_free(file);
    free(text);
}

TEST(a_hold_counts_from_the_free_and_is_written_so)
{
    struct hintfile *file =
            parse("kedge-hints: 1\nhints:\n"
                  "  - {id: a, do: hold, pick: {size: 5}, when: {event: {call: ncclRecv}}}\n"
                  "  - {id: b, do: hold, pick: {size: 6}, when: {anchor: x, edge: enter},"
                  " else: {event: {call: ncclSend}, from: free}}\n");
    char *text = NULL;
    size_t length = 0;

    REQUIRE(file != NULL);
    for (int again = 0; again < 2; again++) {
        CHECK_EQ(file->rule[0].action, ACTION_HOLD);
        CHECK_EQ(file->rule[0].when.from, RULE_FROM_FREE);
        CHECK_EQ(file->rule[1].when.count, 0);
        CHECK_EQ(file->rule[1].otherwise.from, RULE_FROM_FREE);
        if (again == 0)
            REQUIRE_EQ(hintwrite_text(file, &text, &length), 0);
        hintfile_free(file);
        file = again ? NULL : parse(text);
    }
    CHECK(strstr(text, "from: free") != NULL);
    CHECK(strstr(text, "min-size: 1") == NULL);
    free(text);
}

TEST(a_pin_and_an_ignore_are_read_and_written_without_a_moment)
{
    struct hintfile *file = parse("kedge-hints: 1\ndefaults: {mode: live}\nhints:\n"
                                  "  - {id: a, do: pin, pick: {size: 5}, note: why}\n"
                                  "  - {id: b, do: ignore, pick: {inside: x}}\n");
    char *text = NULL;
    size_t length = 0;

    REQUIRE(file != NULL);
    CHECK_EQ(file->rule[0].action, ACTION_PIN);
    CHECK_EQ(file->rule[1].action, ACTION_IGNORE);
    REQUIRE_EQ(hintwrite_text(file, &text, &length), 0);
    CHECK(strstr(text, "when") == NULL);
    CHECK(strstr(text, "note: \"why\"") != NULL);
    hintfile_free(file);
    file = parse(text);
    REQUIRE(file != NULL);
    CHECK_EQ(file->rule[0].action, ACTION_PIN);
    CHECK_EQ(file->rule[1].action, ACTION_IGNORE);
    hintfile_free(file);
    free(text);
}

/* ---- evict and restore ---- */

/* #878's, with every key that says something other than its default, and one with none. */
static const char evict_text[] = "kedge-hints: 1\n"
                                 "defaults: {mode: trap, host-budget: 8GiB, min-size: 4MiB}\n"
                                 "hints:\n"
                                 "  - id: early\n"
                                 "    do: restore\n"
                                 "    of: params\n"
                                 "    when: {anchor: \"step/forward\", edge: point}\n"
                                 "  - id: params\n"
                                 "    do: evict\n"
                                 "    pick: {site: [\"p:model.py:Net.__init__\"], size: 128MiB}\n"
                                 "    when: {anchor: step, edge: enter}\n"
                                 "    cap: {device: 256MiB, less: non-managed}\n"
                                 "    order: [0, 1, 2, 0, 1]\n"
                                 "    victim: fifo\n"
                                 "    cyclic: no\n"
                                 "    prefetch: 3\n"
                                 "    backing: host-mmap\n"
                                 "    clean: yes\n"
                                 "    warmup-cap: 50%\n"
                                 "    host-budget: 1GiB\n"
                                 "    policy: cpu\n"
                                 "    mode: live\n"
                                 "    min-size: 64KiB\n"
                                 "  - id: states\n"
                                 "    do: evict\n"
                                 "    pick: {size: 8MiB}\n"
                                 "    when: {anchor: step, edge: exit}\n"
                                 "    cap: {device: 90%}\n"
                                 "    backing: managed\n"
                                 "  - id: late\n"
                                 "    do: restore\n"
                                 "    of: states\n"
                                 "    when: {anchor: update, edge: exit}\n";

static void check_same_evict(const struct rule_evict *a, const struct rule_evict *b)
{
    CHECK_EQ(a->cap, b->cap);
    CHECK_EQ(a->cap_percent, b->cap_percent);
    CHECK_EQ(a->less_other, b->less_other);
    CHECK_EQ(a->warmup_percent, b->warmup_percent);
    CHECK_EQ(a->prefetch, b->prefetch);
    CHECK_EQ(a->host_budget, b->host_budget);
    CHECK_EQ(a->policy, b->policy);
    CHECK_EQ(a->victim, b->victim);
    CHECK_EQ(a->backing, b->backing);
    CHECK_EQ(a->cyclic, b->cyclic);
    CHECK_EQ(a->clean, b->clean);
    REQUIRE_EQ(a->order_count, b->order_count);
    for (uint32_t i = 0; i < a->order_count; i++)
        CHECK_EQ(a->order[i], b->order[i]);
}

TEST(an_evict_hint_has_the_keys_of_its_policy)
{
    static const uint32_t order[] = {0, 1, 2, 0, 1};
    const struct rule_evict stated = {.cap = 256u << 20,
            .less_other = true,
            .warmup_percent = 50,
            .prefetch = 3,
            .host_budget = 1u << 30,
            .policy = RULE_POLICY_CPU,
            .victim = RULE_VICTIM_FIFO,
            .backing = RULE_BACKING_MMAP,
            .clean = true,
            .order = order,
            .order_count = 5};
    const struct rule_evict usual = {.cap_percent = 90,
            .warmup_percent = 100,
            .prefetch = 1,
            .host_budget = UINT64_C(8) << 30,
            .policy = RULE_POLICY_AUTO,
            .victim = RULE_VICTIM_FARTHEST,
            .backing = RULE_BACKING_MANAGED,
            .cyclic = true};
    struct hintfile *file = parse(evict_text);

    REQUIRE(file != NULL);
    REQUIRE_EQ(file->rule_count, 4);
    CHECK_EQ(file->rule[1].action, ACTION_EVICT);
    CHECK_EQ(file->rule[1].mode, HINT_LIVE);
    CHECK_EQ(file->rule[1].min_size, 64u << 10);
    CHECK_EQ(file->rule[1].pick.size_lo, 128u << 20);
    CHECK_EQ(file->rule[1].when.kind, EDGE_ENTER);
    CHECK_EQ(file->rule[1].when.count, 0);
    check_same_evict(&file->rule[1].evict, &stated);
    CHECK_EQ(file->rule[2].mode, HINT_TRAP);
    CHECK_EQ(file->rule[2].min_size, 4u << 20);
    check_same_evict(&file->rule[2].evict, &usual);
    hintfile_free(file);
}

TEST(a_restore_names_the_hint_that_evicts_and_has_its_mode)
{
    struct hintfile *file = parse(evict_text);

    REQUIRE(file != NULL);
    CHECK_EQ(file->rule[0].action, ACTION_RESTORE);
    CHECK_EQ(file->rule[0].of, 1); /* which comes later */
    CHECK_EQ(file->rule[0].mode, HINT_LIVE);
    CHECK_EQ(file->rule[0].when.kind, EDGE_MARK);
    CHECK_EQ(file->rule[0].when.count, 0);
    CHECK_EQ(file->rule[3].of, 2);
    CHECK_EQ(file->rule[3].mode, HINT_TRAP);
    CHECK_EQ(file->rule[3].when.kind, EDGE_EXIT);
    hintfile_free(file);
}

TEST(evict_and_restore_are_written_with_what_is_not_the_default)
{
    static const char *const written[] = {"defaults: {mode: trap, min-size: 4MiB, "
                                          "host-budget: 8GiB}\n",
            "    do: restore\n    of: \"params\"\n"
            "    when: {anchor: \"step/forward\", edge: point}\n  - id: \"params\"\n",
            "    cap: {device: 256MiB, less: non-managed}\n    order: [0, 1, 2, 0, 1]\n"
            "    victim: fifo\n    cyclic: no\n    prefetch: 3\n    backing: host-mmap\n"
            "    clean: yes\n    warmup-cap: 50%\n    host-budget: 1GiB\n    policy: cpu\n"
            "  - id: \"states\"\n",
            "    when: {anchor: \"step\", edge: exit}\n    cap: {device: 90%}\n    backing: "
            "managed\n  - id: \"late\"\n"};
    struct hintfile *file = parse(evict_text);
    struct hintfile *again;
    char *text = NULL;
    size_t length = 0;

    REQUIRE(file != NULL);
    REQUIRE_EQ(hintwrite_text(file, &text, &length), 0);
    for (size_t i = 0; i < sizeof written / sizeof *written; i++)
        if (!strstr(text, written[i]))
            CHECK_STR_EQ(text, written[i]);
    again = parse(text);
    REQUIRE(again != NULL);
    check_same(file, again);
    CHECK_EQ(again->host_budget, file->host_budget);
    for (size_t i = 0; i < file->rule_count; i++) {
        CHECK_EQ(again->rule[i].action, file->rule[i].action);
        CHECK_EQ(again->rule[i].of, file->rule[i].of);
        check_same_evict(&again->rule[i].evict, &file->rule[i].evict);
    }
    hintfile_free(again);
    hintfile_free(file);
    free(text);
}

/* A file with one hint that evicts 5 bytes, written with another value of one field each. */
TEST(what_an_evict_hint_cannot_say_is_not_written)
{
    static const uint32_t order[] = {0, HINTFILE_ORDER_MAX};
    struct hintfile *file = parse(evict_text);
    struct rule good[2];
    char *text = NULL;
    size_t length = 0;

    REQUIRE(file != NULL);
    good[0] = file->rule[0];
    good[1] = file->rule[1];
#define REFUSED(number_, field_, value_)                         \
    do {                                                         \
        file->rule[number_].field_ = value_;                     \
        CHECK_EQ(hintwrite_text(file, &text, &length), -EINVAL); \
        file->rule[number_] = good[number_];                     \
    } while (0)
    REFUSED(0, of, 0);
    REFUSED(0, of, 4);
    REFUSED(0, of, -1);
    REFUSED(0, when.count, 1);
    REFUSED(1, when.count, 1);
    REFUSED(1, when.anchor[0], '\0');
    REFUSED(1, pick.use.call, APICALL_ncclSend);
    REFUSED(1, evict.cap_percent, 50);
    REFUSED(1, evict.cap, 0);
    REFUSED(1, evict.warmup_percent, 0);
    REFUSED(1, evict.warmup_percent, 101);
    REFUSED(1, evict.prefetch, HINTFILE_ORDER_MAX + 1);
    REFUSED(1, evict.host_budget, 0);
    REFUSED(1, evict.policy, (enum rule_policy)3);
    REFUSED(1, evict.victim, (enum rule_victim)3);
    REFUSED(1, evict.backing, (enum rule_backing)3);
    REFUSED(1, evict.order, NULL);
    REFUSED(1, evict.order_count, HINTFILE_ORDER_MAX + 1);
    file->rule[1].evict.order_count = 2;
    REFUSED(1, evict.order, order);
    file->rule[1].evict.cap = 0;
    file->rule[1].evict.less_other = false;
    REFUSED(1, evict.policy, RULE_POLICY_AUTO);
#undef REFUSED
    CHECK(text == NULL);
    REQUIRE_EQ(hintwrite_text(file, &text, &length), 0);
    free(text);
    hintfile_free(file);
}

/* As long as an order may be, and one use more. */
TEST(an_order_may_be_long_but_not_endless)
{
    size_t size = HINTFILE_BYTES_MAX;
    char *text = malloc(size);
    struct hintfile *file = NULL;
    struct hintfile_error error;

    REQUIRE(text != NULL);
    for (uint32_t uses = HINTFILE_ORDER_MAX; uses <= HINTFILE_ORDER_MAX + 1; uses++) {
        size_t used = (size_t)snprintf(text, size,
                "kedge-hints: 1\nhints:\n- {id: a, do: evict, pick: {size: 5}, when: {anchor: a, "
                "edge: enter}, cap: {device: 9}, order: [7");

        for (uint32_t i = 1; i < uses; i++)
            used += (size_t)snprintf(text + used, size - used, ",%u", i % 10);
        used += (size_t)snprintf(text + used, size - used, "]}\n");
        CHECK_EQ(hintfile_read_bytes(text, used, "t.yaml", &file, &error),
                uses > HINTFILE_ORDER_MAX ? -EINVAL : 0);
        if (!file)
            continue;
        CHECK_EQ(file->rule[0].evict.order_count, HINTFILE_ORDER_MAX);
        CHECK_EQ(file->rule[0].evict.order[0], 7);
        CHECK_EQ(file->rule[0].evict.order[HINTFILE_ORDER_MAX - 1], (HINTFILE_ORDER_MAX - 1) % 10);
        hintfile_free(file);
        file = NULL;
    }
    CHECK(strstr(error.text, ": more than 1048576 uses in order") != NULL);
    free(text);
}

#define EVICT(more_)                                                                        \
    "kedge-hints: 1\nhints:\n  - id: a\n    do: evict\n    pick: " PICK "\n    when: " WHEN \
    "\n" more_
#define CAPPED(more_) EVICT("    cap: {device: 1GiB}\n" more_)
#define RESTORE(more_) \
    CAPPED("  - id: b\n    do: restore\n    when: " WHEN "\n" more_) /* line 11 is `more_` */

static const struct {
    const char *text;
    const char *error;
} bad_evicts[] = {
        {EVICT(""), "t.yaml:3:5: a hint that evicts needs 'cap', or policy: cpu or cuda"},
        {EVICT("    cap: 1GiB\n"), "t.yaml:7:10: cap must be a mapping"},
        {EVICT("    cap: {less: none}\n"), "t.yaml:7:10: cap needs device"},
        {EVICT("    cap: {device: 1GiB, host: 1}\n"), "t.yaml:7:25: unknown key 'host' in cap"},
#define CAP_FORMS "device must be a size from 1, or a percentage from 1% to 100%"
        {EVICT("    cap: {device: 0}\n"), "t.yaml:7:19: " CAP_FORMS},
        {EVICT("    cap: {device: 0%}\n"), "t.yaml:7:19: " CAP_FORMS},
        {EVICT("    cap: {device: 101%}\n"), "t.yaml:7:19: " CAP_FORMS},
        {EVICT("    cap: {device: 50%%}\n"), "t.yaml:7:19: " CAP_FORMS},
        {EVICT("    cap: {device: 1GiB%}\n"), "t.yaml:7:19: " CAP_FORMS},
        {EVICT("    cap: {device: [1GiB]}\n"), "t.yaml:7:19: " CAP_FORMS},
        {EVICT("    cap: {device: 1GiB, less: managed}\n"),
                "t.yaml:7:31: less must be none or non-managed"},
#define ORDER_FORMS "order must be learn or a list of block numbers"
        {CAPPED("    order: known\n"), "t.yaml:8:12: " ORDER_FORMS},
        {CAPPED("    order: []\n"), "t.yaml:8:12: " ORDER_FORMS},
        {CAPPED("    order: {learn: 1}\n"), "t.yaml:8:12: " ORDER_FORMS},
        {CAPPED("    order: [0, -1]\n"),
                "t.yaml:8:16: a block number is 0 for the first block, and below 1048576"},
        {CAPPED("    order: [0, [1]]\n"),
                "t.yaml:8:16: a block number is 0 for the first block, and below 1048576"},
        {CAPPED("    order: [1048576]\n"),
                "t.yaml:8:13: a block number is 0 for the first block, and below 1048576"},
        {CAPPED("    victim: farthest\n"),
                "t.yaml:8:13: victim must be farthest-next-use, lru or fifo"},
        {CAPPED("    cyclic: true\n"), "t.yaml:8:13: cyclic must be no or yes"},
        {CAPPED("    clean: true\n"), "t.yaml:8:12: clean must be no or yes"},
        {CAPPED("    prefetch: -1\n"),
                "t.yaml:8:15: prefetch must be a number of calls, at most 1048576"},
        {CAPPED("    prefetch: 1048577\n"),
                "t.yaml:8:15: prefetch must be a number of calls, at most 1048576"},
        {CAPPED("    backing: host\n"),
                "t.yaml:8:14: backing must be host-pinned, host-mmap or managed"},
        {CAPPED("    warmup-cap: 0%\n"),
                "t.yaml:8:17: warmup-cap must be a percentage from 1% to 100%"},
        {CAPPED("    warmup-cap: 50\n"),
                "t.yaml:8:17: warmup-cap must be a percentage from 1% to 100%"},
        {CAPPED("    host-budget: 0\n"), "t.yaml:8:18: host-budget must not be 0"},
        {CAPPED("    host-budget: 8G\n"),
                "t.yaml:8:18: host-budget must be a size: a number of bytes, or a number with KiB, "
                "MiB, GiB, MB or GB"},
        {CAPPED("    policy: static\n"), "t.yaml:8:13: policy must be auto, cpu or cuda"},
        {CAPPED("    expect: {count: 1}\n"), "t.yaml:8:5: 'expect' says nothing with do: evict"},
        {CAPPED("    else: {anchor: y, edge: exit}\n"),
                "t.yaml:8:5: 'else' says nothing with do: evict"},
        {CAPPED("    wait: all-streams\n"), "t.yaml:8:5: 'wait' says nothing with do: evict"},
        {CAPPED("    canary: 1/2\n"), "t.yaml:8:5: 'canary' says nothing with do: evict"},
        {CAPPED("    backend: unmap\n"), "t.yaml:8:5: 'backend' says nothing with do: evict"},
        {CAPPED("    on-touch: fail\n"), "t.yaml:8:5: 'on-touch' says nothing with do: evict"},
        {CAPPED("    of: a\n"), "t.yaml:8:5: 'of' says nothing with do: evict"},
        {"kedge-hints: 1\nhints: [{id: a, do: evict, pick: {size: 5}, cap: {device: 1}}]\n",
                "t.yaml:2:9: a hint needs 'when'"},
        {"kedge-hints: 1\nhints: [{id: a, do: evict, pick: {size: 5, used-by: {call: ncclSend, "
         "arg: sendbuff}}, when: {anchor: a, edge: exit}, cap: {device: 1}}]\n",
                "t.yaml:2:44: 'used-by' says nothing with do: evict, whose blocks are placed when "
                "they are made"},
        {"kedge-hints: 1\nhints: [{id: a, do: evict, pick: {size: 5}, when: {launch: x}, cap: "
         "{device: 1}}]\n",
                "t.yaml:2:51: with do: evict when needs anchor and edge"},
        {HINT(PICK, WHEN, "    cap: {device: 1}\n"),
                "t.yaml:7:5: 'cap' says nothing with do: release"},
        {HINT(PICK, WHEN, "    else: {anchor: x, edge: point}\n"),
                "t.yaml:7:29: edge must be enter or exit"},
        {HINT(PICK, "{free-of: b}",
                 "  - {id: b, do: evict, pick: {size: 6}, when: {anchor: a, edge: exit}, policy: "
                 "cpu}\n"),
                "t.yaml:6:21: hint 'b' follows no block to its free"},
        {"kedge-hints: 1\nhints: [{id: a, do: pin, pick: {size: 5}, policy: cpu}]\n",
                "t.yaml:2:43: 'policy' says nothing with do: pin"},
        {RESTORE(""), "t.yaml:8:5: a hint needs 'of'"},
        {RESTORE("    of: c\n"), "t.yaml:11:9: there is no hint 'c'"},
        {RESTORE("    of: [a]\n"), "t.yaml:11:9: there is no hint ''"},
        {RESTORE("    of: b\n"), "t.yaml:11:9: hint 'b' evicts nothing"},
        {RESTORE("    of: a\n    pick: {size: 5}\n"),
                "t.yaml:12:5: 'pick' says nothing with do: restore"},
        {RESTORE("    of: a\n    mode: live\n"),
                "t.yaml:12:5: 'mode' says nothing with do: restore"},
        {RESTORE("    of: a\n    min-size: 1\n"),
                "t.yaml:12:5: 'min-size' says nothing with do: restore"},
        {RESTORE("    of: a\n    cap: {device: 1}\n"),
                "t.yaml:12:5: 'cap' says nothing with do: restore"},
        {CAPPED("  - {id: b, do: restore, of: a}\n"), "t.yaml:8:5: a hint needs 'when'"},
        {CAPPED("  - {id: b, do: restore, of: a, when: {event: {call: ncclRecv}}}\n"),
                "t.yaml:8:39: with do: restore when needs anchor and edge"},
        {"kedge-hints: 1\ndefaults: {host-budget: 0}\n", "t.yaml:2:25: host-budget must not be 0"},
};

TEST(what_evict_and_restore_do_not_take_is_refused_with_its_place)
{
    for (size_t i = 0; i < sizeof bad_evicts / sizeof bad_evicts[0]; i++) {
        struct hintfile *file = NULL;
        struct hintfile_error error;
        int r = hintfile_read_bytes(
                bad_evicts[i].text, strlen(bad_evicts[i].text), "t.yaml", &file, &error);

        CHECK_EQ(r, -EINVAL);
        CHECK_STR_EQ(error.text, bad_evicts[i].error);
        hintfile_free(file);
    }
}

TEST(an_evict_hint_without_a_cap_states_another_policy)
{
    struct hintfile *file = parse(EVICT("    policy: cuda\n"));

    REQUIRE(file != NULL);
    CHECK_EQ(file->rule[0].evict.policy, RULE_POLICY_CUDA);
    CHECK_EQ(file->rule[0].evict.cap, 0);
    CHECK_EQ(file->rule[0].evict.cap_percent, 0);
    CHECK_EQ(file->rule[0].evict.host_budget, 0);
    hintfile_free(file);
}

/* As hintkeys.def has it, but for globs: "" and "*" are the same and written differently. */
TEST(a_key_that_states_its_default_changes_nothing)
{
    static const struct {
        const char *map, *key, *initial;
    } rows[] = {
#define HINTKEY(map_, key_, form_, initial_, help_, ...) {#map_, key_, initial_},
#include "tracker/hints/hintkeys.def"
    };
    char *without[] = {write_with("", "", "", false), write_with("", "", "", true)};
    size_t count = 0;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool evicts = is_of_evict(rows[i].map, rows[i].key);
        char *with;

        if (strspn(rows[i].initial, "*") == strlen(rows[i].initial)
                || strcmp(rows[i].initial, "needed") == 0)
            continue;
        with = write_with(rows[i].map, rows[i].key, rows[i].initial, evicts);
        CHECK_STR_EQ(with, without[evicts]);
        free(with);
        count++;
    }
    CHECK_EQ(count, 22u);
    free(without[0]);
    free(without[1]);
}

TEST(keep_content_and_its_budget_are_written_as_they_were_read)
{
    static const char hints[] =
            "kedge-hints: 1\ndefaults: {keep-content: 100}\nhints:\n"
            "  - {id: a, do: release, pick: {size: 5}, when: {anchor: a, edge: exit}}\n"
            "  - {id: b, do: release, pick: {size: 5}, when: {anchor: a, edge: exit}, "
            "keep-content: always, host-budget: 1GiB}\n"
            "  - {id: c, do: release, pick: {size: 5}, when: {anchor: a, edge: exit}, "
            "keep-content: 0}\n";
    struct hintfile *file = parse(hints);
    char *text = NULL;
    size_t length = 0;

    for (int turn = 0; turn < 2; turn++) {
        REQUIRE(file != NULL);
        CHECK_EQ(file->keep_content, 100);
        CHECK_EQ(file->rule[0].keep_content, 100);
        CHECK_EQ(file->rule[0].evict.host_budget, 0);
        CHECK_EQ(file->rule[1].keep_content, UINT32_MAX);
        CHECK_EQ(file->rule[1].evict.host_budget, UINT64_C(1) << 30);
        CHECK_EQ(file->rule[2].keep_content, 0);
        free(text);
        REQUIRE_EQ(hintwrite_text(file, &text, &length), 0);
        hintfile_free(file);
        file = parse(text);
    }
    hintfile_free(file);
    free(text);
}

/* Anchor names are the program's own bytes: quotes, colons, line ends, UTF-8, and what is none. */
TEST(odd_names_survive_writing)
{
    static const char *const names[] = {
            "SOT_CALL_0",
            "a: b # c",
            "\"quoted\\\\",
            "two\nlines\ttab",
            "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80",
            "bad \xff\xc3 utf",
            "\xed\xa0\x80\xc0\xaf",
            "\x7f\x1b[0m",
            "\xc2\x85\xe2\x80\xa8\xef\xbb\xbf",
            "- [x]",
            "\\*\\?*?",
            "xff\\\\xff",
    };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct hintfile file = {.mode = HINT_SHADOW, .min_size = 1, .rule_count = 1};
        struct rule rule = {.id = "a", .action = ACTION_RELEASE, .mode = HINT_SHADOW};
        struct hintfile_words words = {0};
        struct hintfile *again;
        char *text = NULL;
        size_t length = 0;

        rule.pick.size_lo = rule.pick.size_hi = 7;
        rule.pick.nth_hi = UINT32_MAX;
        rule.pick.device = -1;
        rule.min_size = 1;
        rule.when.kind = EDGE_EXIT;
        (void)snprintf(rule.pick.inside, sizeof rule.pick.inside, "%s", names[i]);
        (void)snprintf(rule.when.anchor, sizeof rule.when.anchor, "%s", names[i]);
        file.rule = &rule;
        file.words = &words;
        REQUIRE_EQ(hintwrite_text(&file, &text, &length), 0);
        again = parse(text);
        REQUIRE(again != NULL);
        CHECK_STR_EQ(again->rule[0].pick.inside, names[i]);
        CHECK_STR_EQ(again->rule[0].when.anchor, names[i]);
        hintfile_free(again);
        free(text);
    }
}

#define GLOB(text_) "kedge-hints: 1\nprogram: {argv: " text_ "}\n" HINTS_OF_ONE

/* Of a glob, what the file may say. NULL: it is taken. */
TEST(escapes_in_globs_are_read_or_refused_with_their_place)
{
#define HINTS_OF_ONE "hints:\n  - {id: a, do: pin, pick: {size: 1MiB}}\n"
    static const struct {
        const char *text, *glob, *error;
    } rows[] = {
            {GLOB("'a\\*b'"), "a\\*b", NULL},
            {GLOB("\"a\\\\*b\""), "a\\*b", NULL},
            {GLOB("'a\\qb'"), "a\\qb", NULL},
            {GLOB("'\\xff\\xC3\\x80'"), "\xff\xc3\x80", NULL},
            {GLOB("'\\\\xff'"), "\\\\xff", NULL},
            {GLOB("'a\\'"), NULL,
                    "t.yaml:2:17: argv ends in a single \\ (one that stands for itself is written "
                    "\\\\)"},
            {GLOB("a\\\\\\"), NULL,
                    "t.yaml:2:17: argv ends in a single \\ (one that stands for itself is written "
                    "\\\\)"},
            {GLOB("'\\x7f'"), NULL,
                    "t.yaml:2:17: argv has \\x without two hex digits from 80 to ff"},
            {GLOB("'\\xf'"), NULL,
                    "t.yaml:2:17: argv has \\x without two hex digits from 80 to ff"},
            {GLOB("'\\x'"), NULL, "t.yaml:2:17: argv has \\x without two hex digits from 80 to ff"},
            {GLOB("[a]"), NULL, "t.yaml:2:17: argv must be one word or text"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct hintfile *file = NULL;
        struct hintfile_error error;
        int r = hintfile_read_bytes(rows[i].text, strlen(rows[i].text), "t.yaml", &file, &error);

        CHECK_EQ(r, rows[i].error ? -EINVAL : 0);
        if (file)
            CHECK_STR_EQ(file->argv, rows[i].glob);
        else
            CHECK_STR_EQ(error.text, rows[i].error);
        hintfile_free(file);
    }
#undef HINTS_OF_ONE
}

TEST(what_the_grammar_cannot_say_is_not_written)
{
    struct hintfile *file = parse(full_text);
    char *text = NULL;
    size_t length = 0;
    struct rule good;

    REQUIRE(file != NULL);
    good = file->rule[1];
    file->rule[1].action = ACTION_COUNT;
    CHECK_EQ(hintwrite_text(file, &text, &length), -EINVAL);
    file->rule[1] = good;
    (void)strcpy(file->rule[1].when.anchor, "a\\"); /* ends within an escape */
    CHECK_EQ(hintwrite_text(file, &text, &length), -EINVAL);
    file->rule[1] = good;
    (void)strcpy(file->rule[1].pick.inside, "a\\");
    CHECK_EQ(hintwrite_text(file, &text, &length), -EINVAL);
    file->rule[1] = good;
    file->rule[1].mode = HINT_OFF;
    CHECK_EQ(hintwrite_text(file, &text, &length), -EINVAL);
    file->rule[1] = good;
    file->rule[1].id[0] = ' ';
    CHECK_EQ(hintwrite_text(file, &text, &length), -EINVAL);
    file->rule[1] = good;
    file->rule[1].when.kind = EDGE_MARK;
    CHECK_EQ(hintwrite_text(file, &text, &length), -EINVAL);
    file->rule[1] = good;
    file->rule_count = 0;
    CHECK_EQ(hintwrite_text(file, &text, &length), -EINVAL);
    CHECK(text == NULL);
    file->rule_count = 3;
    hintfile_free(file);
}

/* What the reader refuses is not written. */
TEST(a_file_that_is_too_long_to_be_read_is_not_written)
{
    struct hintfile *file = parse(full_text);
    struct hintfile big = {.mode = HINT_SHADOW, .rule_count = HINTFILE_HINTS_MAX + 1};
    char *text = NULL;
    size_t length = 0;

    REQUIRE(file != NULL);
    big.rule = calloc(big.rule_count, sizeof(*big.rule));
    REQUIRE(big.rule != NULL);
    for (size_t i = 0; i < big.rule_count; i++)
        big.rule[i] = file->rule[0];
    CHECK_EQ(hintwrite_text(&big, &text, &length), -E2BIG);
    big.rule_count--;
    for (size_t i = 0; i < big.rule_count; i++)
        memset(big.rule[i].pick.inside, 'x', RULE_GLOB_MAX - 1);
    CHECK_EQ(hintwrite_text(&big, &text, &length), -EFBIG);
    CHECK(text == NULL);
    free(big.rule);
    hintfile_free(file);
}

/* ---- Python call sites ---- */

#define PYSITES(sites) HINT("{site: [" sites "]}", WHEN, "")

TEST(python_call_sites_are_read_and_written_back_as_they_were)
{
    struct hintfile *file = parse(PYSITES("\"p:model.py:Block.forward.<locals>.<lambda>:88\", "
                                          "c:9b1f44d0e2a7c315, 'p:<string>:<module>'"));
    struct hintfile *again;
    char *text = NULL;
    size_t length = 0;

    REQUIRE(file != NULL);
    CHECK_EQ(file->rule[0].pick.site_count, 3);
    CHECK_EQ(file->rule[0].pick.python, 5);
    CHECK_EQ(file->rule[0].pick.site[0],
            pysite_key("/home/me/net/model.py", "Block.forward.<locals>.<lambda>", 88));
    CHECK_EQ(file->rule[0].pick.site[1], UINT64_C(0x9b1f44d0e2a7c315));
    CHECK_EQ(file->rule[0].pick.site[2], pysite_key("<string>", "<module>", 0));
    CHECK(file->words[0].site[1] == NULL);
    REQUIRE_EQ(hintwrite_text(file, &text, &length), 0);
    CHECK(strstr(text,
                  "site: [\"p:model.py:Block.forward.<locals>.<lambda>:88\", "
                  "\"c:9b1f44d0e2a7c315\", \"p:<string>:<module>\"]")
            != NULL);
    again = parse(text);
    REQUIRE(again != NULL);
    check_same(file, again);
    CHECK_STR_EQ(again->words[0].site[2], "p:<string>:<module>");
    hintfile_free(again);
    hintfile_free(file);
    free(text);
}

/* All that tells call sites apart tells keys apart, and a path does not. */
TEST(the_key_of_a_python_call_site_is_of_its_file_function_and_line)
{
    static const struct {
        const char *file, *function;
        unsigned line;
    } sites[] = {
            {"model.py", "f", 0},
            {"model.py", "f", 1},
            {"model.py", "f", 2},
            {"model.py", "g", 0},
            {"model.py", "g", 1},
            {"other.py", "f", 0},
            {"other.py", "f", 1},
            {"model.p", "yf", 0},
            {"model.py", "f1", 0},
            {"f", "model.py", 0},
    };
    enum {
        SITES = sizeof sites / sizeof sites[0]
    };
    uint64_t keys[SITES];

    for (size_t i = 0; i < SITES; i++) {
        char text[PYSITE_TEXT_MAX];
        uint64_t read = 0;

        keys[i] = pysite_key(sites[i].file, sites[i].function, sites[i].line);
        for (size_t k = 0; k < i; k++)
            CHECK_NE(keys[k], keys[i]);
        REQUIRE(pysite_write(sites[i].file, sites[i].function, sites[i].line, text));
        CHECK(pysite_read(text, &read) == NULL);
        CHECK_EQ(read, keys[i]);
    }
    CHECK_EQ(pysite_key("/a/b/model.py", "f", 0), keys[0]);
    CHECK_EQ(pysite_key("./model.py", "f", 2), keys[2]);
}

/* Names are the program's own: what can be written is read back as the same key, what cannot is not written. */
TEST(odd_python_names_survive_writing_or_are_not_written)
{
    static const struct {
        const char *file, *function;
        bool writable;
    } names[] = {
            {"a b.py", "f", true},
            {"\"q\\.py", "f'", true},
            {"a#b.py", "- [x], {y}", true},
            {"<ipython-input-3-0a1b>", "<module>", true},
            {"\xc3\xa4\xe2\x82\xac.py", "\xf0\x9f\x98\x80", true},
            {"\xc2\x85\xe2\x80\xa8.py", "\xef\xbb\xbf", true}, /* YAML does not print these */
            {"two\nlines\t.py", "\x1b[0m\x7f", true},
            {"\xef\xbf\xbe.py", "f", true},
            {"C:model.py", "f", false},
            {"model.py", "f:7", false},
            {"", "f", false},
            {"folder/", "f", false},
            {"model.py", "", false},
            {"\xff.py", "f", false},
            {"model.py", "\xed\xa0\x80", false},
    };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct hintfile file = {.mode = HINT_SHADOW, .min_size = 1, .rule_count = 1};
        struct rule rule = {.id = "a", .action = ACTION_RELEASE, .mode = HINT_SHADOW};
        struct hintfile_words words = {0};
        char site[PYSITE_TEXT_MAX];
        struct hintfile *again;
        char *text = NULL;
        size_t length = 0;

        CHECK_EQ(pysite_write(names[i].file, names[i].function, 7, site), names[i].writable);
        if (!names[i].writable)
            continue;
        rule.pick = (struct rule_pick){.site = {pysite_key(names[i].file, names[i].function, 7)},
                .site_count = 1,
                .python = 1,
                .size_hi = UINT64_MAX,
                .nth_hi = UINT32_MAX,
                .device = -1};
        rule.when.kind = EDGE_EXIT;
        strcpy(rule.when.anchor, "x");
        words.site[0] = site;
        file.rule = &rule;
        file.words = &words;
        REQUIRE_EQ(hintwrite_text(&file, &text, &length), 0);
        again = parse(text);
        REQUIRE(again != NULL);
        CHECK_EQ(again->rule[0].pick.site[0], rule.pick.site[0]);
        CHECK_STR_EQ(again->words[0].site[0], site);
        hintfile_free(again);
        free(text);
    }
}

TEST(a_python_call_site_without_its_text_is_not_written)
{
    struct hintfile *file = parse(PYSITES("\"p:model.py:f\""));
    char *text = NULL;
    size_t length = 0;
    char *site;

    REQUIRE(file != NULL);
    site = file->words[0].site[0];
    file->words[0].site[0] = NULL;
    CHECK_EQ(hintwrite_text(file, &text, &length), -EINVAL);
    site[strlen(site) - 1] = 'g'; /* another one's */
    file->words[0].site[0] = site;
    CHECK_EQ(hintwrite_text(file, &text, &length), -EINVAL);
    CHECK(text == NULL);
    hintfile_free(file);
}

TEST(a_python_call_site_may_be_long_but_not_endless)
{
    char long_text[2048];
    struct hintfile *file = NULL;
    struct hintfile_error error;

    for (int bytes = PYSITE_TEXT_MAX - 1; bytes <= (int)PYSITE_TEXT_MAX; bytes++) {
        (void)snprintf(long_text, sizeof long_text, PYSITES("\"p:m.py:%0*d\""), bytes - 7, 1);
        CHECK_EQ(hintfile_read_bytes(long_text, strlen(long_text), "t.yaml", &file, &error),
                bytes < (int)PYSITE_TEXT_MAX ? 0 : -EINVAL);
        hintfile_free(file);
        file = NULL;
    }
    CHECK_STR_EQ(error.text, "t.yaml:5:19: a site is longer than 1023 bytes");
}

TEST(globs_match_without_backtracking_for_ever)
{
    char many[65], text[4096];

    CHECK(hintfile_glob("", "anything"));
    CHECK(hintfile_glob("*", ""));
    CHECK(hintfile_glob("SOT_CALL_*", "SOT_CALL_17"));
    CHECK(!hintfile_glob("SOT_CALL_*", "XSOT_CALL_17"));
    CHECK(hintfile_glob("a*b*c", "a/x/b/y/c")); /* '/' is a byte like any other */
    CHECK(!hintfile_glob("a*b*c", "a/x/c/y/b"));
    CHECK(hintfile_glob("a?c", "abc"));
    CHECK(!hintfile_glob("a?c", "ac"));
    CHECK(!hintfile_glob("a", "ab"));
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (size_t i = 0; i < 64; i += 2)
        memcpy(many + i, "*a", 2);
    many[63] = 'b';
    many[64] = '\0';
    CHECK(!hintfile_glob(many, text));
}

TEST(a_file_is_for_its_program)
{
    struct hintfile *file = parse(full_text);

    REQUIRE(file != NULL);
    CHECK(hintfile_fits(file, "python tools/train.py --epochs 3", "0"));
    CHECK(!hintfile_fits(file, "bash -c true", "0"));
    hintfile_free(file);
}

/* ---- R54 and receipts ---- */

static void put_file(const char *path, const char *text, mode_t mode)
{
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);

    REQUIRE(fd >= 0);
    REQUIRE_EQ(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    REQUIRE_EQ(fchmod(fd, mode), 0);
    (void)close(fd);
}

TEST(r54_only_a_file_that_others_cannot_write_is_read)
{
    char path[TRACK_PATH_MAX];
    struct hintfile *file = NULL;
    struct hintfile_error error;
    const char *directory = track_scratch();

    track_path(path, directory, "h.yaml");
    CHECK_EQ(hintfile_read(path, &file, &error), -ENOENT);
    CHECK(strstr(error.text, "No such file or directory") != NULL);
    put_file(path, full_text, 0620);
    CHECK_EQ(hintfile_read(path, &file, &error), -EPERM);
    CHECK(strstr(error.text, "writable by group or others") != NULL);
    put_file(path, full_text, 0602);
    CHECK_EQ(hintfile_read(path, &file, &error), -EPERM);
    put_file(path, full_text, 0644);
    REQUIRE_EQ(hintfile_read(path, &file, &error), 0);
    CHECK_EQ(file->hash, hintfile_hash(full_text, strlen(full_text)));
    hintfile_free(file);
    CHECK_EQ(hintfile_read(directory, &file, &error), -EINVAL);
    track_path(path, directory, "fifo");
    REQUIRE_EQ(mkfifo(path, 0600), 0);
    CHECK_EQ(hintfile_read(path, &file, &error), -EINVAL); /* and does not wait for a writer */
    if (geteuid() == 0) {
        track_path(path, directory, "h.yaml");
        REQUIRE_EQ(chown(path, 12345, 12345), 0);
        CHECK_EQ(hintfile_read(path, &file, &error), -EPERM);
        CHECK(strstr(error.text, "another user") != NULL);
    }
}

static void put_receipt(const char *path, const struct receipt *receipt)
{
    char *text = NULL;

    REQUIRE_EQ(receipt_format(receipt, &text), 0);
    put_file(path, text, 0644);
    free(text);
}

static enum receipt_verdict verdict_of(const char *path, uint64_t hash)
{
    struct receipt found;
    enum receipt_verdict verdict = receipt_read(path, hash, &found);

    receipt_free(&found);
    return verdict;
}

TEST(a_receipt_holds_for_its_file_and_says_what_ran)
{
    char path[TRACK_PATH_MAX], twin[TRACK_PATH_MAX + 16];
    struct receipt_line lines[] = {{"program", "build-id:7f3c01aa92de"}, {"device", "simulated"},
            {"device", "NVIDIA H100 GPU-1"}, {"command", "0123 a b"}};
    struct receipt receipt = {
            .hints_hash = 0x1234,
            .shadow_clean = 1,
            .poison_clean = 1,
            .trap_clean = 1,
            .date = "2026-11-21T12:00:00Z",
            .line = lines,
            .line_count = 4,
    };
    struct receipt found = {0};
    char *text = NULL;
    size_t at = 0;

    track_path(path, track_scratch(), "h.yaml");
    (void)snprintf(twin, sizeof twin, "%s.receipt", path);
    CHECK_EQ(verdict_of(path, 0x1234), RECEIPT_NONE);
    put_receipt(twin, &receipt);
    CHECK_EQ(receipt_read(path, 0x1234, &found), RECEIPT_GOOD);
    CHECK_STR_EQ(found.date, receipt.date);
    CHECK_EQ(found.line_count, 4);
    CHECK(receipt_says(&found, "command", "0123 a b"));
    CHECK(!receipt_says(&found, "command", "0123 a"));
    CHECK(!receipt_says(&found, "program", "simulated"));
    CHECK_STR_EQ(receipt_next(&found, "device", &at), "simulated");
    CHECK_STR_EQ(receipt_next(&found, "device", &at), "NVIDIA H100 GPU-1");
    CHECK(receipt_next(&found, "device", &at) == NULL);
    receipt_free(&found);
    CHECK_EQ(verdict_of(path, 0x1235), RECEIPT_OTHER_HINTS);

    receipt.trap_clean = 0;
    put_receipt(twin, &receipt);
    CHECK_EQ(verdict_of(path, 0x1234), RECEIPT_NOT_CLEAN);
    receipt.trap_clean = 1;
    receipt.poison_clean = 0;
    put_receipt(twin, &receipt);
    CHECK_EQ(verdict_of(path, 0x1234), RECEIPT_NOT_CLEAN);
    receipt.poison_clean = 1;
    receipt.shadow_clean = 0;
    put_receipt(twin, &receipt);
    CHECK_EQ(verdict_of(path, 0x1234), RECEIPT_NOT_CLEAN);
    REQUIRE_EQ(chmod(twin, 0666), 0);
    CHECK_EQ(verdict_of(path, 0x1234), RECEIPT_UNREADABLE);
    lines[0].value = "two\nlines";
    CHECK_EQ(receipt_format(&receipt, &text), -EINVAL);
    lines[0] = (struct receipt_line){"two words", "x"};
    CHECK_EQ(receipt_format(&receipt, &text), -EINVAL);
}

TEST(r86_a_receipt_says_which_hints_keep_meta)
{
    static const char head[] =
            "kedge-receipt 2\nhints 0000000000001234\nprogram p\nshadow clean 1\npoison clean 1\n"
            "trap clean 0\n";
    static const char *const bad[] = {"keep-meta \n", "keep-meta a", "keep-meta a b\n",
            "keep-meta a\n\n", "keeps\n", "keep-meta a\nx\n", "trap clean 1\n"};
    struct receipt found;
    char path[TRACK_PATH_MAX], twin[TRACK_PATH_MAX + 16], text[400];

    track_path(path, track_scratch(), "h.yaml");
    (void)snprintf(twin, sizeof twin, "%s.receipt", path);
    (void)snprintf(text, sizeof text, "%skeep-meta a.b\nkeep-meta second\n", head);
    put_file(twin, text, 0644);
    CHECK_EQ(receipt_read(path, 0x1234, &found), RECEIPT_NOT_CLEAN);
    CHECK(receipt_keeps_meta(&found, "a.b"));
    CHECK(receipt_keeps_meta(&found, "second"));
    CHECK(!receipt_keeps_meta(&found, "a"));
    CHECK(!receipt_keeps_meta(&found, "second "));
    CHECK(!receipt_keeps_meta(&found, ""));
    receipt_free(&found);
    put_file(twin, head, 0644);
    CHECK_EQ(receipt_read(path, 0x1234, &found), RECEIPT_NOT_CLEAN);
    CHECK(!receipt_keeps_meta(&found, "a.b"));
    CHECK_EQ(found.keep_count, 0);
    receipt_free(&found);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        (void)snprintf(text, sizeof text, "%s%s", head, bad[i]);
        put_file(twin, text, 0644);
        CHECK_EQ(receipt_read(path, 0x1234, &found), RECEIPT_UNREADABLE);
        CHECK(found.memory == NULL && found.keep_count == 0);
    }
}

/* As many lines as there may be. */
TEST(a_receipt_is_read_in_time_that_rises_with_its_length)
{
    enum {
        KEEPS = 100000,
        HINTS = 16384
    };
    static char text[KEEPS * 20 + 200];
    char path[TRACK_PATH_MAX], twin[TRACK_PATH_MAX + 16], id[16];
    struct receipt found;
    clock_t start;
    size_t used;

    track_path(path, track_scratch(), "h.yaml");
    (void)snprintf(twin, sizeof twin, "%s.receipt", path);
    used = (size_t)snprintf(text, sizeof text,
            "kedge-receipt 2\nhints 0000000000001234\nprogram p\nshadow clean 1\npoison clean 1\n"
            "trap clean 1\n");
    for (int i = 0; i < KEEPS; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "keep-meta %x\n", 2 * i);
    put_file(twin, text, 0644);
    start = clock();
    CHECK_EQ(receipt_read(path, 0x1234, &found), RECEIPT_GOOD);
    for (int i = 0; i < HINTS; i++) {
        (void)snprintf(id, sizeof id, "%x", i);
        CHECK_EQ(receipt_keeps_meta(&found, id), i % 2 == 0);
    }
    CHECK_GT(CLOCKS_PER_SEC, clock() - start); /* 10 ms; 9 s if each line reads on to the end */
    receipt_free(&found);
}

TEST(a_damaged_receipt_is_none)
{
#define HEAD  "kedge-receipt 2\nhints 0000000000001234\nprogram p\n"
#define CLEAN "shadow clean 1\npoison clean 1\ntrap clean 1"
    static const char *const damaged[] = {
            "",
            "kedge-receipt 3\n",
            HEAD CLEAN,
            "kedge-receipt 2\nhints 1234\nprogram p\n" CLEAN "\n",
            HEAD "shadow clean -1\npoison clean 1\ntrap clean 1\n",
            "kedge-receipt 2\nhints 0000000000001234\nprogram p\tq\n" CLEAN "\n",
            HEAD CLEAN "\nx\n",
            HEAD "shadow clean 99999999999\npoison clean 1\ntrap clean 1\n",
            HEAD "shadow clean 1\ntrap clean 1\n", /* of two steps */
            HEAD "shadow clean 1 x\npoison clean 1\ntrap clean 1\n",
    };
    char path[TRACK_PATH_MAX], twin[TRACK_PATH_MAX + 16];

    track_path(path, track_scratch(), "h.yaml");
    (void)snprintf(twin, sizeof twin, "%s.receipt", path);
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        put_file(twin, damaged[i], 0644);
        CHECK_EQ(verdict_of(path, 0x1234), RECEIPT_UNREADABLE);
    }
    put_file(twin, HEAD CLEAN "\n", 0644);
    CHECK_EQ(verdict_of(path, 0x1234), RECEIPT_GOOD);
    put_file(twin, "kedge-receipt 1\nhints 0000000000001234\nprogram p\n" CLEAN "\n", 0644);
    CHECK_EQ(verdict_of(path, 0x1234), RECEIPT_OLD);
#undef CLEAN
#undef HEAD
}

TEST(values_of_a_receipt_are_text_for_a_line)
{
    char path[TRACK_PATH_MAX], value[RECEIPT_VALUE_MAX], other[RECEIPT_VALUE_MAX];
    char expected[TRACK_PATH_MAX + 16];

    receipt_escape("a\nb\\\xc3\xa9~", value);
    CHECK_STR_EQ(value, "a\\x0ab\\x5c\\xc3\\xa9~");
    track_path(path, track_scratch(), "version.py");
    CHECK_EQ(receipt_hash_file(path), 0);
    put_file(path, "import os\n__version__: str = '2.5.1+cu124'\n", 0644);
    receipt_file_value(path, value);
    CHECK(receipt_version_value(path, other));
    (void)snprintf(expected, sizeof expected, "2.5.1+cu124 %s", path);
    CHECK_STR_EQ(other, expected);
    put_file(path, "import os\n__version__: str = '2.5.2+cu124'\n", 0644);
    receipt_file_value(path, other);
    CHECK(strcmp(value, other) != 0);
    CHECK_STR_EQ(strchr(value, ' '), strchr(other, ' '));
    put_file(path, "import version\n", 0644);
    CHECK(!receipt_version_value(path, other));
    receipt_build_value(0x12, "/opt/torch/lib/libx.so", value);
    CHECK_STR_EQ(value, "0000000000000012 lib/libx.so");
    receipt_build_value(0x12, "libx.so", value);
    CHECK_STR_EQ(value, "0000000000000012 libx.so");
    CHECK_EQ(receipt_hash_file("/dev/null"), 0); /* and does not wait for one that never ends */
}

TEST(a_drift_is_told_with_what_was_expected_and_what_was_seen)
{
    struct hintwords_drift drift = {.expect = {{2, 3}, {1000, 1000}},
            .seen = {1, 1000},
            .path = "SOT_CALL_0",
            .instance = 16};
    char text[128];

    hintwords_tell_drift(&drift, text, sizeof text);
    CHECK_STR_EQ(text, "matched 1 allocation in SOT_CALL_0 (17), 2..3 expected");
    drift.seen = (struct rule_seen){2, 1024};
    drift.instance = 0;
    hintwords_tell_drift(&drift, text, sizeof text);
    CHECK_STR_EQ(text, "matched 1024 bytes in SOT_CALL_0, 1000 expected");
    drift.expect.bytes = (struct rule_range){2048, UINT64_MAX};
    hintwords_tell_drift(&drift, text, sizeof text);
    CHECK_STR_EQ(text, "matched 1024 bytes in SOT_CALL_0, >=2048 expected");
    drift.seen = (struct rule_seen){0, 0};
    hintwords_tell_drift(&drift, text, sizeof text);
    CHECK_STR_EQ(text,
            "its matches could not be counted at SOT_CALL_0: too many instances of its anchor "
            "never ended");
}

/* No memory is not a wrong file, and nothing may leak (asan). */
TEST(a_long_list_of_hints_is_read)
{
    size_t size = 4u << 20;
    char *text = malloc(size);
    size_t used;
    struct hintfile *file = NULL;
    struct hintfile_error error;

    REQUIRE(text != NULL);
    used = (size_t)snprintf(text, size, "kedge-hints: 1\nhints:\n");
    for (int i = 0; i < 10000; i++)
        used += (size_t)snprintf(text + used, size - used,
                "- {id: h%d, do: release, pick: {size: %d, inside: \"S_%d\", nth: 0},"
                " when: {anchor: \"S_%d\", edge: exit}, expect: {count: 1}}\n",
                i, i + 1, i, i);
    REQUIRE_EQ(hintfile_read_bytes(text, used, "t.yaml", &file, &error), 0);
    CHECK_EQ(file->rule_count, 10000);
    CHECK_EQ(file->rule[9999].pick.size_lo, 10000);
    hintfile_free(file);
    free(text);
}

/* Texts of a fixed length: as long as there is room, and a byte longer. */
TEST(texts_that_are_too_long_are_refused_with_their_length)
{
    static const struct {
        const char *before, *after, *what;
        size_t room;
    } places[] = {
            {"kedge-hints: 1\nprogram: {argv: ", "}\n", "argv", RULE_GLOB_MAX},
            {"kedge-hints: 1\nprogram: {build: {", ": 00}}\n", "a file name",
                    sizeof((struct hintfile_build *)0)->soname},
            {"kedge-hints: 1\nprogram: {build: {a.so: ", "}}\n", "a build-id",
                    sizeof((struct hintfile_build *)0)->id},
    };
    static const char hint[] =
            "hints: [{id: x, do: release, pick: {size: 3MiB}, when: {anchor: step, edge: exit}}]\n";

    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        for (size_t more = 0; more < 2; more++) {
            struct hintfile *file = NULL;
            struct hintfile_error error = {.text = ""};
            char word[2048], text[4096], wanted[128];
            int r;

            memset(word, 'a', sizeof word);
            word[places[i].room - 1 + more] = '\0';
            (void)snprintf(
                    text, sizeof text, "%s%s%s%s", places[i].before, word, places[i].after, hint);
            r = hintfile_read_bytes(text, strlen(text), "t.yaml", &file, &error);
            (void)snprintf(wanted, sizeof wanted, "%s is longer than %zu bytes", places[i].what,
                    places[i].room - 1);
            CHECK_EQ(r, more ? -EINVAL : 0);
            CHECK_EQ(strstr(error.text, wanted) != NULL, more);
            if (!more && r)
                printf("    %s\n", error.text);
            hintfile_free(file);
        }
}

TEST(a_size_has_any_digits_behind_its_point)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } sizes[] = {{"0.125KiB", 128}, {"1.5KiB", 1536}, {"1.9375KiB", 1984}, {"2.890625KiB", 2960},
            {"9.99GB", UINT64_C(9990000000)}};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct hintfile *file = NULL;
        struct hintfile_error error = {.text = ""};
        char text[256];

        (void)snprintf(text, sizeof text,
                "kedge-hints: 1\nhints: [{id: x, do: release, pick: {size: %s}, when: {anchor: "
                "step, "
                "edge: exit}}]\n",
                sizes[i].text);
        CHECK_EQ(hintfile_read_bytes(text, strlen(text), "t.yaml", &file, &error), 0);
        if (file)
            CHECK_EQ(file->rule[0].pick.size_lo, sizes[i].bytes);
        else
            printf("    %s\n", error.text);
        hintfile_free(file);
    }
}
