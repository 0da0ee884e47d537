#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# covers: history.c report_tensors.c report_coverage.c cmd_check.c
"""Tensors in segments of PyTorch's own allocator, end to end, under every CPython 3.10 to 3.15 that is found.

    pysegments.py CASE

segmentlike.py stands in for PyTorch by its name; tests/frameworks asks the real one (cases/inside.py).
"""
import json
import pathlib
import sys

from pyanchors import each
from pystacks import HERE, PARTS, check, failures, fresh, run, same, tool_json
from regresskit import BUILD, KEDGE

LIKE = PARTS / "segments"


def segments(python, case, **changes):
    """The report of a run, what the program noted, and the report as text."""
    fresh("run.kcap", "noted.json")
    done = run(KEDGE, "run", "--sim", "--api", "framework", "--capture", "run.kcap", "--", python, HERE / "segment_program.py", case, "noted.json", KEDGE,
               **{"PYTHONPATH": LIKE, "KEDGE_HELD": "none"} | changes)
    check(done.returncode == 0, f"{case}: exit {done.returncode}: {done.stdout[-1500:]}")
    noted = json.loads(pathlib.Path("noted.json").read_text(encoding="utf-8"))
    return tool_json("report", "run.kcap"), noted, run(KEDGE, "report", "run.kcap").stdout


@each
def what_lies_in_segments_is_told(python):
    report, noted, text = segments(python, "counted")
    tensors = report.get("tensors", {})
    same("history was begun", noted["calls"], 1)
    same("its bound", noted["bound"], 100000)
    same("peak of tensors", tensors.get("max_bytes"), noted["peak"])
    same("as counted", tensors["framework_max_bytes"], noted["peak"])
    same("segments", tensors["segments_bytes"], noted["segments"] << 21)
    same("cached", tensors["cached_bytes"], tensors["segments_bytes"] - tensors["max_bytes"])
    check(tensors["complete"], "complete")
    same("when the record was taken", tensors["moment"], "end")
    rows = [row for row in tensors["rows"] if any((f["file"] or "").endswith("segment_program.py") for f in row["stack"])]
    same("bytes with the program's lines", sum(row["bytes"] for row in rows), noted["peak"])
    check("Segments 4.00 MiB, of which tensors 3.06 MiB at the peak, cached 960.00 KiB" in text, f"the line about it: {text}")
    view = run(KEDGE, "report", "run.kcap", "--view", "live").stdout
    check("--tensors shows the tensors" in " ".join(view.split()), f"a view says that it is of segments: {view}")
    live = tool_json("report", "run.kcap", "--tensors")
    same("live at the end, of tensors", live["allocated_count"], 10)


@each
def the_figures_are_called_segments_with_tensors_only_where_these_are_recorded(python):
    """A library with the name of PyTorch's allocator is loaded, as its pool is told by that."""
    pool = {"LD_PRELOAD": BUILD / "tests" / "preload" / "libc10_cuda.so"}
    sentence = "PyTorch keeps a pool of its own: the figures are its segments"
    _, _, text = segments(python, "counted", **pool)
    whole = " ".join(run(KEDGE, "report", "run.kcap", "--all").stdout.split())
    check(f"{sentence}; the tensors in them were recorded (--tensors)" in whole, f"with a record: {whole[:800]}")
    check("not tensors" not in " ".join(text.split()), f"with a record: {text[:800]}")
    segments(python, "counted", KEDGE_TENSORS="off", **pool)
    whole = " ".join(run(KEDGE, "report", "run.kcap", "--all").stdout.split())
    check(f"{sentence}, not tensors; set PYTORCH_CUDA_ALLOC_CONF=" in whole, f"without: {whole[:800]}")


@each
def of_more_events_than_the_bound_the_newest_stay(python):
    report, noted, _ = segments(python, "many", KEDGE_TENSORS="events=1000")
    tensors = report["tensors"]
    same("the bound", noted["bound"], 1000)
    check(not tensors["complete"], "not complete")
    # an allocation and two records of its free; six blocks are known from what is live at the end
    check(330 < tensors["allocated_count"] < 345, f"allocations: {tensors['allocated_count']}")


def answers(*claims, rc=0):
    """What check says of tensors, by figure: (answer, least, most)."""
    told = tool_json("check", "run.kcap", "--tensors", *claims, rc=rc)
    check(told["tensors"], "it is about tensors")
    return {row["figure"]: (row["answer"], row["at_least"], row["at_most"]) for row in told["checks"]}


@each
def r90_claims_may_be_of_tensors(python):
    _, noted, _ = segments(python, "counted")
    kept = 6 << 19
    told = answers(f"peak=={noted['peak']}", f"remaining=={kept}", "leaks==6", f"reserved=={noted['segments'] << 21}", "allocations==10")
    same("all hold", [row[0] for row in told.values()], ["yes"] * 5)
    same("one byte less", answers(f"peak<{noted['peak']}", rc=1)["peak"][0], "no")
    same("without steps", answers("growth==0", rc=2)["growth"][0], "unknown")
    text = run(KEDGE, "check", "run.kcap", f"peak=={noted['segments'] << 21}").stdout
    check("these are segments" in text and "--tensors" in text, f"of segments, and said so: {text}")
    for words in (("peak<1G", "late(run.kcap)==0"), ("--predicted", "hints.yaml")):
        check("--tensors: not with" in run(KEDGE, "check", "run.kcap", "--tensors", *words, rc=2).stdout, f"{words} with --tensors")

    _, noted, _ = segments(python, "many", KEDGE_TENSORS="events=1000")
    told = answers(f"remaining=={kept}", "allocations>=330", "frees<600", rc=2)
    same("at the end", told["remaining"], ("yes", kept, kept))
    same("as many as are on record, and more", (told["allocations"][0], told["allocations"][2], told["frees"][0]), ("yes", None, "unknown"))

    segments(python, "out_of_memory")
    told = answers(f"peak>={6 << 19}", "leaks==6", rc=2)
    same("a run that was cut off", [row[0] for row in told.values()], ["yes", "unknown"])


@each
def r94_a_history_of_the_programs_own_ends_kedges(python):
    report, noted, _ = segments(python, "own_history")
    check(noted["before"] > 0, "kedge's was there")
    same("events behind the program's call", noted["behind"], 0)
    same("events of the program's own", noted["own"], 1)
    check(not report["tensors"]["complete"], "not complete")


@each
def what_failed_is_kept_without_an_end(python):
    report, noted, _ = segments(python, "out_of_memory")
    same("it failed", noted["failed"], 6)
    same("allocations", report["tensors"]["allocated_count"], 10)
    same("when the record was taken", report["tensors"]["moment"], "failure")


@each
def what_is_asked_for_is_kept_without_an_end(python):
    report, noted, _ = segments(python, "asked", KEDGE_HELD="ask")
    same("live then", sum(row["count"] for row in tool_json("report", "run.kcap", "--view", "live", "--tensors")["live"]), noted["live"])
    same("allocations", report["tensors"]["allocated_count"], 10)
    report, _, _ = segments(python, "asked_often", KEDGE_HELD="ask")
    same("the end's is there behind ten others", report["tensors"]["allocated_count"], 11)


@each
def nothing_is_recorded_where_nothing_lies_in_segments(python):
    for changes in ({"LIKE_BACKEND": "cudaMallocAsync"}, {"KEDGE_TENSORS": "off"}, {"KEDGE_TENSORS": "read"},
                    {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, {"KEDGE_MODE": "off"}):
        fresh("run.kcap", "noted.json")
        run(KEDGE, "run", "--sim", "--api", "framework", "--capture", "run.kcap", "--", python, HERE / "segment_program.py", "counted",
            "noted.json", PYTHONPATH=LIKE, **changes)
        same(f"{changes}: calls of PyTorch's recorder", json.loads(pathlib.Path("noted.json").read_text(encoding="utf-8"))["calls"], 0)


@each
def r111_a_snapshot_that_fails_is_noted(python):
    report, _, _ = segments(python, "counted", LIKE_FAILS="1")
    check("tensors" not in report, "a record")
    check(any("tensors are not known: ValueError" in note for note in report["notes"]), f"no note: {report['notes']}")


CASES = (what_lies_in_segments_is_told, the_figures_are_called_segments_with_tensors_only_where_these_are_recorded,
         r90_claims_may_be_of_tensors, of_more_events_than_the_bound_the_newest_stay,
         r94_a_history_of_the_programs_own_ends_kedges, what_failed_is_kept_without_an_end, what_is_asked_for_is_kept_without_an_end,
         nothing_is_recorded_where_nothing_lies_in_segments, r111_a_snapshot_that_fails_is_noted)

if __name__ == "__main__":
    {case.__name__: case for case in CASES}[sys.argv[1]]()
    sys.exit(bool(failures))
