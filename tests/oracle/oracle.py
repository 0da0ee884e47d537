#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Random legal programs under the oracle: natively, under kedge in several arrangements, and what they exercised (R92).

    oracle.py CASE                     a test, by name
    oracle.py seeds ARRANGEMENT FIRST COUNT [native]
    oracle.py many COUNT [FIRST [ARRANGEMENT...]]
                                       so many seeds over all arrangements: floors, findings, time
    oracle.py found [WORD...] [--most COUNT]
                                       which seed of the dense worlds is the first to find each mutant (tests/mutation)
    oracle.py first LIBRARY [COUNT]    how many seeds of each dense arrangement a library needs until one is wrong

A failing seed prints the command that repeats it.
"""
import collections
import concurrent.futures
import itertools
import os
import pathlib
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "regress"))
# pylint: disable=wrong-import-position
from regresskit import BUILD, LIBRARY, SIM, check, checksum, fail, failures, main, needs, run  # noqa: E402

PROGRAM = BUILD / "tests" / "oracle" / "oracle"
OLD_DRIVER = BUILD / "tests" / "oracle" / "sim-12.4"
MUTANT = BUILD / "tests" / "mutation" / "libkedge_mutant.so"
CHUNK = 20    # seeds of one process
WORKERS = 4   # they wait more than they compute
HINTS = """kedge-hints: 1
hints:
  - {id: stays, do: release, pick: {size: 6291456}, when: {anchor: "never", edge: exit}}
  - {id: goes, do: release, pick: {size: 8388608}, when: {anchor: "P", edge: exit}}
"""
EVICT = """kedge-hints: 1
hints:
  - {id: others, do: evict, pick: {size: 2MiB..5MiB}, when: {anchor: "P", edge: enter}, cap: {device: 24MiB}, prefetch: 2, warmup-cap: 80%}
  - {id: large, do: evict, pick: {size: ">=5MiB"}, when: {anchor: "never", edge: exit}, cap: {device: 40MiB}, victim: lru}
"""
NO_BARRIER = {"KEDGE_SYNC_FREE": "0"}  # or every free on the sync API would find an idle device


def hinted():
    path = pathlib.Path("hints.yaml").absolute()
    if not path.exists():
        path.write_text(HINTS, encoding="utf-8")
        path.chmod(0o644)
    return {"KEDGE_HINTS": path, "KEDGE_HINTS_MODE": "trap"}


def evicted():
    path = pathlib.Path("evict.yaml").absolute()
    if not path.exists():
        path.write_text(EVICT, encoding="utf-8")
        path.chmod(0o644)
    return {"KEDGE_HINTS": path, "KEDGE_HINTS_MODE": "poison"}


def beside(arrangement):
    """Settings that name a file."""
    return {"hints": hinted, "dense-hints": hinted, "evict": evicted}.get(arrangement, dict)()


# name -> (arguments, environment, whether CUDA alone allows it)
ARRANGEMENTS = {
    "plain": ((), NO_BARRIER, True),
    "tight": ((), NO_BARRIER | {"KEDGE_POOL": "budget=24M,chunk=4M"}, True),
    "moves": ((), NO_BARRIER | {"KEDGE_POOL": "budget=24M,trim=never"}, True),
    "eager": ((), NO_BARRIER | {"KEDGE_POOL": "remap=eager,trim=never"}, True),
    "mapped": ((), NO_BARRIER | {"KEDGE_POOL": "sync=mapped,budget=24M,trim=never"}, True),
    "hints": (("--anchors",), NO_BARRIER, True),
    "evict": (("--anchors", "--uncaptured"), NO_BARRIER, True),
    "threads": (("--free-running",), NO_BARRIER, True),
    "late": (("--late",), NO_BARRIER, False),
    "barrier": ((), {}, True),
    # few streams and blocks, every word of the driver (dense.h)
    "dense": (("--dense",), {}, True),
    "dense-plain": (("--dense",), NO_BARRIER, True),
    "dense-tight": (("--dense",), {"KEDGE_POOL": "budget=24M,chunk=4M"}, True),
    "dense-moves": (("--dense",), {"KEDGE_POOL": "budget=24M,trim=never"}, True),
    "dense-eager": (("--dense",), NO_BARRIER | {"KEDGE_POOL": "remap=eager,trim=never"}, True),
    "dense-mapped": (("--dense",), {"KEDGE_POOL": "sync=mapped,budget=24M,trim=never"}, True),
    "dense-hints": (("--dense", "--anchors"), {}, True),
    "old": ((), NO_BARRIER | {"LD_LIBRARY_PATH": OLD_DRIVER, "SIMCUDA_VERSION": "12040"}, True),
}

# What the program did and the device counted. The device counts kedge's calls too.
FLOORS = ("sync_allocs stream_allocs pool_allocs mapped_allocs legacy_uses blocking_uses nonblocking_uses thread_uses "
          "second_context_uses device_1_uses peer_uses peer_copies frees_elsewhere frees_with_work_pending "
          "sync_frees_of_stream_blocks callbacks streams_ended contexts_ended device_resets letters "
          "frees_in_captures allocs_in_captures memory_nodes forked_captures trims anchors data_checks turns free_running "
          "reuses cross_stream_reuses host_functions event_records stream_waits synchronizes captures graph_launches").split()
# What the dense worlds did.
DENSE = [name for name in ARRANGEMENTS if name.startswith("dense")]
DENSE_FLOORS = ("dense_streams dense_events dense_host_functions dense_fills dense_checks dense_stream_frees dense_sync_frees "
                "dense_stalls dense_parks dense_bare dense_churns dense_captures dense_captured dense_spoilt captures_dropped "
                "dense_crowds dense_launches dense_set_params dense_clones dense_children dense_peers dense_pools dense_orphans dense_pool_crowds "
                "dense_pools_alone dense_rooms dense_impossible dense_gone dense_refused dense_unseen dense_inner dense_sparse dense_scenes dense_filled "
                "dense_many_contexts "
                "dense_current_pools dense_ends_parked "
                "dense_ends memory_nodes contexts_ended device_resets streams_ended").split()
SLOW = 98 # an act took long, which a busy machine can do as well
# Words of mutants that need an arrangement of their own: what they switch off acts nowhere else.
FOUND_IN = {"readv": ["evict"], "owner": ["late"], "plain-free": ["late"], "drain": ["old"], "uses": ["evict"], "copy": ["evict"], "arrive": ["evict"]}
KEDGE_FLOORS = "callback_frees full_devices context_records unmaps remaps".split()
# What happened inside the pool: counted by the mutant with nothing switched off, which is the same library.
POOL_FLOORS = ("hits epochs points pool_cross_reuses merges followed inserted_waits host_waits released quarantined granules_moved "
               "granules_aliased alias_reuses").split()


def count(text):
    found = collections.Counter()
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2 and words[1].isdigit():
            found[words[0]] += int(words[1])
    return found


def look(arrangement, first, number, library, *options, **more):
    """Some seeds in one process, as it ended. What was slow is run again, alone, and counts if it is slow each time."""
    arguments, environment, _ = ARRANGEMENTS[arrangement]
    arguments = (*options, *arguments)
    changes = {"LD_LIBRARY_PATH": SIM, **environment, **more}
    if library:
        changes |= beside(arrangement) | {"LD_PRELOAD": library, "KEDGE_TRACE": "off"}
    done = run(PROGRAM, *arguments, first, number, rc=None, timeout=3600, **changes)
    for _ in range(2 if number == 1 else 0):
        if done.returncode == SLOW:
            done = run(PROGRAM, *arguments, first, 1, rc=None, timeout=3600, **changes)
    return done


def failing(done):
    """The seed at which the process ended."""
    return int(re.search(r"^seed (\d+) ended with status", done.stdout, re.M)[1])


def piece(arrangement, first, number, library, recorded=False):
    """Some seeds in one process: their figures, or None. `recorded`: with a capture, uses in it."""
    arguments, environment, _ = ARRANGEMENTS[arrangement]
    changes = {"LD_LIBRARY_PATH": SIM, **environment}
    if library:
        changes |= beside(arrangement) | {"LD_PRELOAD": library, "KEDGE_TRACE": "off"}
    if library and recorded:
        capture = pathlib.Path(f"capture.{arrangement}.{first}").absolute()
        capture.unlink(missing_ok=True)
        changes |= {"KEDGE_TRACE": "full", "KEDGE_CAPTURE": capture}
    figures = None
    if library == MUTANT:
        figures = pathlib.Path(f"figures.{arrangement}.{first}").absolute()
        figures.unlink(missing_ok=True)
        changes["TEST_KEDGE_FIGURES"] = figures
    done = run(PROGRAM, *arguments, first, number, rc=None, timeout=3600, **changes)
    while done.returncode == SLOW and look(arrangement, failing(done), 1, library).returncode == 0:
        number -= failing(done) + 1 - first # a busy machine: on with the next one
        first = failing(done) + 1
        done = run(PROGRAM, *arguments, first, number, rc=None, timeout=3600, **changes)
    if done.returncode != 0:
        fail(f"{arrangement}, seeds from {first}, {library.name if library else 'natively'}: exit {done.returncode}\n"
             + done.stdout[-5000:])
        return None
    found = count(done.stdout)
    for name, value in (count(figures.read_text(encoding="utf-8")) if figures else {}).items():
        found["pool." + name] += value
    return found


def seeds(jobs):
    """[(arrangement, first, count, library[, recorded])] in several processes; the sum of their figures."""
    pieces = [(name, at, min(CHUNK, first + number - at), *more) for name, first, number, *more in jobs
              for at in range(first, first + number, CHUNK)]
    total = collections.Counter()
    needs(PROGRAM)
    for name in ARRANGEMENTS:
        beside(name) # written before the threads that read them
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as workers:
        for found in workers.map(lambda job: piece(*job), pieces):
            total += found or {}
    return total


def floors(total, names):
    print(", ".join(f"{name} {total[name]}" for name in ("seeds", *names)))
    for name in names:
        check(total[name] > 0, f"no {name} were exercised")
    for name in ("faults", "captures_invalidated"):
        check(total[name] == 0 or (name == "captures_invalidated" and total["dense_seeds"]), f"{name}: {total[name]}")
    without, contexts = total["contexts_without_sums"], total["contexts"]
    check(without * 20 <= contexts, f"{without} of {contexts} contexts had no room for sums")


def natively(number):
    legal = [name for name, (_, _, alone) in ARRANGEMENTS.items()
             if alone and name not in ("tight", "moves", "eager", "mapped", "evict", "barrier", "old", *DENSE)]
    floors(seeds([(name, 1 + i * number, number // len(legal) + 1, None) for i, name in enumerate(legal)]), FLOORS)


def under_kedge(number, counted):
    """So many seeds, dealt out to the arrangements; some of them once more, where the pool's own figures are read."""
    wide = [name for name in ARRANGEMENTS if name not in DENSE]
    jobs = [(name, 1 + i * number, -(-number // len(wide)), LIBRARY) for i, name in enumerate(wide)]
    floors(seeds(jobs), FLOORS + KEDGE_FLOORS)
    jobs = [(name, first, -(-counted // len(wide)), MUTANT) for name, first, _, _ in jobs]
    floors(seeds(jobs), ["pool." + name for name in POOL_FLOORS])


def r91_seeds_are_legal_natively():
    natively(200)


def r91_ten_thousand_seeds_are_legal_natively():
    natively(10000)


def r01_r92_two_hundred_seeds():
    under_kedge(200, 70)


def r01_r92_ten_thousand_seeds():
    under_kedge(10000, 700)


def r01_r92_a_run_that_is_recorded_is_the_same():
    """Requests go other ways through the hooks then (preload/request/quick.h), and the arguments of submissions are looked at."""
    floors(seeds([(name, 300, 10, LIBRARY, True) for name in ("plain", "tight", "late", "threads")]),
           ["cross_stream_reuses", "callback_frees", "captures", "reuses", "thread_uses", "contexts_ended"])
    written = [path.stat().st_size for path in pathlib.Path().glob("capture.*.*")]
    check(len(written) >= 4 and min(written) > 100000, f"the captures have {written} bytes")


def r03_r68_below_driver_12_5_an_epoch_is_a_drain():
    total = seeds([("old", 100, 40, MUTANT)])
    floors(total, ["pool.epochs", "synchronizes", "cross_stream_reuses"])
    check(total["context_records"] == 0, "an old driver has no cuCtxRecordEvent")


def r56_hints_keep_tenants_apart():
    floors(seeds([("hints", 500, 40, MUTANT)]), ["anchors", "mapped_allocs", "pool.released", "pool.hits", "unmaps"])


def r66_r89_blocks_that_go_out_and_come_in_keep_what_they_have():
    floors(seeds([("evict", 900, 50, MUTANT)]),
           ["pool.evict_outs", "pool.evict_ins", "pool.evict_waits", "unmaps", "contexts_ended", "thread_uses", "fills_by_address", "data_checks"])


def r09_r64_what_cuda_leaves_open_is_fenced():
    floors(seeds([("late", 700, 40, MUTANT)]), ["sync_frees_of_stream_blocks", "peer_uses", "cross_stream_reuses", "pool.hits"])


def peak(library, sched, lag):
    """What the device has held at most, by its own books, and how often a fence of all streams was asked for. The trainer has one
    thread, so that its own peak is the same each time; without the host barrier it says that its losses came late (status 1)."""
    done = run(BUILD / "trainers" / "loop", "--entrance", "sync", "--steps", 30, rc=None, LD_PRELOAD=library, LD_LIBRARY_PATH=SIM,
               SIMCUDA_LOG="-", SIMCUDA_SCHED=sched, SIMCUDA_LAG=lag, KEDGE_TRACE="off", **NO_BARRIER)
    check(done.returncode in (0, 1), f"loop, {sched}, {lag} behind: exit {done.returncode}")
    fences = re.search(r"^# calls cuCtxRecordEvent (\d+)", done.stdout, re.M)
    return int(re.search(r"^# device 0 held \d+ peak (\d+)", done.stdout, re.M)[1]), int(fences[1]) if fences else 0


def r74_the_peak_holds_when_streams_are_a_step_behind():
    for sched, lag in (("eager", 0), ("eager", 1), ("lazy", 1), ("random", 1)):
        native, _ = peak(None, sched, lag)
        ours, fences = peak(LIBRARY, sched, lag)
        print(f"{sched}, {lag} behind: {native} natively, {ours} under kedge, {fences} fences")
        check(ours * 100 <= native * 105, f"{sched}, {lag} behind: {ours} bytes at the peak, {native} natively")
        check(fences > 0, "no fence was needed, so nothing was behind")


def sums(job):
    """The result of one trainer under one order of late streams; seed 0: natively."""
    trainer, entrance, seed = job
    late = {"SIMCUDA_SCHED": "random", "SIMCUDA_SEED": seed, "SIMCUDA_LAG": seed % 2} if seed else {}
    done = run(BUILD / "trainers" / trainer, "--entrance", entrance, LD_PRELOAD=LIBRARY if seed else None, LD_LIBRARY_PATH=SIM,
               KEDGE_TRACE="off", **NO_BARRIER, **late)
    return checksum(done.stdout)


def r93_results_are_equal_under_fifty_orders_of_late_streams():
    jobs = [("streams", entrance, seed) for entrance in ("sync", "stream") for seed in range(1, 51)]
    native = {entrance: sums(("streams", entrance, 0)) for entrance in ("sync", "stream")}
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as workers:
        for job, result in zip(jobs, workers.map(sums, jobs)):
            check(result == native[job[1]], f"{job}: {result}, natively {native[job[1]]}")


def dense_natively(number):
    """The dense worlds without kedge: every one of their words, and nothing wrong."""
    floors(seeds([("dense", 1, number, None)]), DENSE_FLOORS + ["dense_barriers"])


def r91_dense_worlds_are_legal_natively():
    dense_natively(400)


def r91_ten_thousand_dense_worlds_are_legal_natively():
    dense_natively(10000)


def r01_r92_dense_worlds():
    floors(seeds([(name, 1, 80, LIBRARY) for name in DENSE]), DENSE_FLOORS)


# ---- many seeds --------------------------------------------------------------------------------------------------------------


def until_end(job):
    """All seeds of a piece, also behind those that are wrong: the figures, and (seed, status, last lines) of these."""
    arrangement, first, number, library, more = job
    end, wrong, total = first + number, [], collections.Counter()
    while first < end:
        done = look(arrangement, first, end - first, library, **more)
        total += count(done.stdout)
        if done.returncode == 0:
            break
        if not re.search(r"^seed \d+ ended with status", done.stdout, re.M):
            wrong.append((first, done.returncode, done.stdout[-1000:]))
            break
        if done.returncode != SLOW or look(arrangement, failing(done), 1, library, **more).returncode:
            wrong.append((failing(done), done.returncode, done.stdout[-2500:]))
        first = failing(done) + 1
    return arrangement, total, wrong


def many(number, first=1, *names):
    """So many seeds, dealt out to all arrangements, or to those that are named; the floors are those of all."""
    needs(PROGRAM, LIBRARY)
    began = time.monotonic()
    number, first = int(number), int(first)
    dealt = names or list(ARRANGEMENTS)
    share = -(-number // len(dealt))
    jobs = [(name, first + at, min(CHUNK * 2, share - at), LIBRARY, {}) for at in range(0, share, CHUNK * 2) for name in dealt]
    for name in dealt:
        beside(name)
    total, findings = collections.Counter(), 0
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as workers:
        for arrangement, found, wrong in workers.map(until_end, jobs):
            total += found
            for seed, status, text in wrong:
                findings += 1
                print(f"FINDING: {arrangement}, seed {seed}, status {status}\n{text}", flush=True)
    took = time.monotonic() - began
    print(", ".join(f"{name} {total[name]}" for name in dict.fromkeys(["seeds", *FLOORS, *KEDGE_FLOORS, *DENSE_FLOORS])))
    for name in dict.fromkeys(FLOORS + KEDGE_FLOORS + DENSE_FLOORS):
        check(total[name] > 0 or names, f"no {name} were exercised")
    print(f"{share * len(dealt)} seeds, {len(dealt)} arrangements, {findings} findings, {took:.0f} s")
    check(findings == 0, f"{findings} findings")


# ---- which seed finds what ---------------------------------------------------------------------------------------------------


def said(done):
    lines = [line for line in done.stdout.splitlines() if re.search(r"wrong: |slow: |ORACLE: |illegal|stale: |\(\d+\)$", line)]
    return f"status {done.returncode}" + (f", {lines[0].split(': ', 1)[-1][:90]}" if lines else "")


def until_wrong(arrangement, library, first, most, **more):
    """(the first seed of these that is wrong, what it said), or None."""
    for at in range(first, most + 1, CHUNK):
        end = min(at + CHUNK, most + 1)
        while at < end:
            done = look(arrangement, at, end - at, library, **more)
            if done.returncode == 0:
                break
            if done.returncode != SLOW or look(arrangement, failing(done), 1, library, **more).returncode:
                return failing(done), said(done)
            at = failing(done) + 1
    return None


def found_by(word, arrangement, most):
    """The same for a mutant: the first one that is wrong by what is switched off."""
    first = 1
    while hit := until_wrong(arrangement, MUTANT, first, most, TEST_KEDGE_MUTATE=word):
        if look(arrangement, hit[0], 1, LIBRARY).returncode == 0:
            return hit
        first = hit[0] + 1
    return None


def words_of_mutants():
    text = (pathlib.Path(__file__).resolve().parents[1] / "mutation" / "mutant.def").read_text(encoding="utf-8")
    return re.findall(r'^MUTATION\(\w+,\s*"([\w-]+)"\)', text, re.M)


def found(*words):
    """For each mutant the arrangement, the first seed that is wrong, and how, as they are found."""
    most = 2000
    if "--most" in words:
        most = int(words[words.index("--most") + 1])
        words = words[:words.index("--most")]
    unknown = sorted(set(words) - set(words_of_mutants()))
    if unknown:
        sys.exit(f"oracle.py found: no mutants (tests/mutation/mutant.def): {', '.join(unknown)}")
    needs(PROGRAM, MUTANT, LIBRARY)
    for name in ARRANGEMENTS:
        beside(name)
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as workers:
        lines = [workers.submit(found_line, word, most) for word in words or words_of_mutants()]
        for line in concurrent.futures.as_completed(lines):
            print(line.result(), flush=True)


def found_line(word, most):
    """The arrangement that needs fewest seeds; in steps, so that one that never finds it costs no more than the others."""
    names = FOUND_IN.get(word, DENSE)
    for limit in itertools.takewhile(lambda limit: limit < 4 * most, (20 * 4 ** i for i in itertools.count())):
        hits = [(hit[0], name, hit[1]) for name in names if (hit := found_by(word, name, min(limit, most)))]
        if hits:
            seed, name, how = min(hits)
            return f"{word:16} {name:13} {seed:6}  {how}"
    return f"{word:16} {'-':13} {'-':>6}  none of {most} seeds of {', '.join(names)}"


# Rows of `found`: mutant, arrangement, seed.
FOUND = [("barrier", "dense", 1), ("fence", "dense", 1), ("point", "dense", 1), ("stream", "dense", 1),
         ("numbers", "dense", 1), ("node", "dense", 1), ("unhooked", "dense", 3), ("gone", "dense", 4),
         ("ninth", "dense", 4), ("capture-gone", "dense", 4), ("capture-end", "dense", 4), ("refused", "dense", 9),
         ("operation", "dense", 9), ("asked", "dense", 13), ("inner-graph", "dense", 22), ("capture-begin", "dense", 25),
         ("barrier-beside", "dense", 42), ("again", "dense", 75), ("quiet", "dense-eager", 84), ("leave", "dense", 603),
         ("patience", "dense-tight", 3), ("destroyed", "dense-moves", 3), ("own-graph", "dense-hints", 3),
         ("capture-asked", "dense-hints", 8), ("peers", "dense-mapped", 110), ("many-contexts", "dense-plain", 373),
         ("young", "dense", 16), ("clone", "dense", 38), ("notice", "dense", 27), ("heaps", "dense", 60),
         ("second", "dense", 313), ("ends", "dense-tight", 225), ("readv", "evict", 1)]


def found_row(row):
    word, name, seed = row
    done = look(name, seed, 1, MUTANT, "--hasty", TEST_KEDGE_MUTATE=word)
    print(f"{word}, {name}, seed {seed}: {said(done)}", flush=True)
    check(done.returncode != 0, f"without {word}, seed {seed} of {name} is right")
    check(look(name, seed, 1, LIBRARY).returncode == 0, f"seed {seed} of {name} is wrong")


def r92_a_seed_finds_each_of_these_mutants():
    needs(PROGRAM, MUTANT, LIBRARY)
    for name in ARRANGEMENTS:
        beside(name)
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as workers:
        list(workers.map(found_row, FOUND))


def first_wrong(library, most="400"):
    """What an unmended library needs."""
    for name in DENSE:
        hit = until_wrong(name, pathlib.Path(library), 1, int(most))
        print(f"{name:13} {hit[0] if hit else '-':>6}  {hit[1] if hit else f'none of {most}'}", flush=True)


def by_hand(name, first, number, native=""):
    total = seeds([(name, int(first), int(number), None if native else LIBRARY)])
    print("\n".join(f"{k} {v}" for k, v in total.items()))


if __name__ == "__main__":
    by_command = {"seeds": by_hand, "many": many, "found": found, "first": first_wrong}
    if sys.argv[1:2] and sys.argv[1] in by_command:
        by_command[sys.argv[1]](*sys.argv[2:])
        sys.exit(1 if failures else os.EX_OK)
    main(r91_seeds_are_legal_natively, r91_ten_thousand_seeds_are_legal_natively, r01_r92_two_hundred_seeds,
         r01_r92_ten_thousand_seeds, r01_r92_a_run_that_is_recorded_is_the_same, r03_r68_below_driver_12_5_an_epoch_is_a_drain,
         r56_hints_keep_tenants_apart, r66_r89_blocks_that_go_out_and_come_in_keep_what_they_have,
         r09_r64_what_cuda_leaves_open_is_fenced, r74_the_peak_holds_when_streams_are_a_step_behind,
         r93_results_are_equal_under_fifty_orders_of_late_streams, r91_dense_worlds_are_legal_natively,
         r91_ten_thousand_dense_worlds_are_legal_natively, r01_r92_dense_worlds, r92_a_seed_finds_each_of_these_mutants)
