# SPDX-License-Identifier: MIT
"""The differences that are known, each with its reason: (kinds, views, texts, reason, where).

The first three are regular expressions that have to match all of a kind's name, all of a view's name, and a part of the text.
A row that explains nothing any more is an error: remove it. It is looked for in the short form of the recount if `where` is
"short", in a run of all kinds if it is "all", and nowhere if it is "sometimes", which is chance.
"""
import re

PARTIAL = "ring_wrapped|ring_quiet|agg|.*_agg"

KNOWN = (
    # ---- every kind ----
    (".*", "anchors", "outside_freed_(bytes|count): 0 instead of",
     "model.c anchor_gone: of an anchor, what is freed from before its enter is never counted", "short"),
    # ---- what is held from the driver ----
    ("oom", "head|check|run", "reserved|^e: ",
     "granules of a growth that failed were held for a moment, and are in no figure", "short"),
    ("driver|driver_agg|pools|graphs|track", "head|check|run", "reserved|^e: ",
     "peak reserved leaves out what the driver serves: utilisation is too high, and reserved is 0 in track", "short"),
    ("ring_quiet|agg|.*_agg", "head", "(peak_live_512_bytes|e): ",
     "figures.c take_totals: peak live and reserved are the run's own, the peak in multiples of 512 is not", "short"),
    # ---- events that are missing ----
    (PARTIAL, "hwm|filter", ".", "live_at_max is made of the events that are left, and is not null", "short"),
    (PARTIAL, "by", "(hwm|live) by ", "--by of live and hwm likewise", "short"),
    (PARTIAL, "patterns", ".", "patterns are of the events that are left, and are not null", "short"),
    (PARTIAL, "streams|text", "^streams? ", "sums by stream are of the events that are left", "short"),
    (PARTIAL, "window", ".", "figures of a window are of what is left of it, and in agg those of the whole run", "short"),
    (PARTIAL, "export.perfetto", "the most that is|live at the end", "counters begin at what is left", "short"),
    (PARTIAL, "export.sqlite", "live at the peak|the most|live at the end", "live_at_peak and live_bytes are of what is left", "short"),
    (PARTIAL, "page", "timeline|the highest moment", "the timeline is 0 where there are no events", "short"),
    ("devices_agg|oom_agg", "page|sources", "at the peak|call sites, peak|at_max_bytes",
     "each device at its own peak is added up to a common one, which is not known", "all"),
    # ---- a ring in which a quiet thread has kept old events ----
    ("ring_quiet", "anchors|page", ".", "load.c: old events are taken for whole, and what ended or began them is overwritten", "all"),
    ("ring_quiet", "live|text|export.folded|export.pprof|export.speedscope|export.memory_viz", "at end|at the end|rows of (live|hwm)",
     "load.c add_carried: an old free ends a younger block", "all"),
    # ---- hints ----
    ("trap|poison", "hints", "would_(count|bytes): 0 instead of",
     "report_json.c: of a hint in trap or poison it says released, where the figures and the text say would", "all"),
    ("live_agg", "hints|export.sqlite", "large|small|released", "what hints matched and released is counted from the events", "all"),
    ("live_agg", "head|page", "freed_with_hints_count", "figures.c take_totals: the count is that of the program's frees, the bytes are not", "all"),
    # ---- others ----
    ("evict.*", "eviction", "^steps: ", "the enter of the first step comes before the first allocation, and the hint does not see it", "all"),
    ("unlocked", "unlocked", "one peak", "each thread adds to the peak of a device and of a place by itself: three values of one peak", "sometimes"),
    ("resets", ".*", ".", "hooks_context.c reset, gone: no free is recorded for the blocks of a context that is reset", "short"),
    ("oom.*", "oom", "holder|the largest are listed|others",
     "the record keeps the 16 largest stacks, and report_oom.c then merges those of one title", "short"),
    ("oom_agg", "export.folded|export.pprof|export.speedscope", "at oom", "the 16 stacks of the record, of the failing device alone", "all"),
)


def is_known(kind, view, text):
    """The row that explains a difference, or None."""
    return next((row for row in KNOWN if re.fullmatch(row[0], kind) and re.fullmatch(row[1], view) and re.search(row[2], text)), None)
