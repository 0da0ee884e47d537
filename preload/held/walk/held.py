# SPDX-License-Identifier: MIT
"""Which objects of a Python program refer to its device memory. heldwalk.c runs this text inside of the program, in a
namespace of its own that has `modules` (sys.modules), `passes` and `quiet` (still.c), and `place_of` (storages.c); nothing imports
it, and nothing of it stays.

    look(blocks, error, seconds, objects, clocks) ─► rows: how many bytes, who allocated them, what they are, what holds them
         roots ─► Walk ─► Graphs ─► sort_lost ─► find_storages ─► settle (Namer) ─► by_block

The walk goes downwards, by gc.get_referents, from what a person can name: locals of running functions, globals, the
frames that an exception has left. (gc.get_referrers does not find the locals of running functions.) Then come the
graphs of autograd, and what nothing has reached: kept by a cycle, or from where Python shows nothing.

Code of the program is not called: types are asked by their own descriptors, so no __getattr__, __class__, property,
metaclass, __torch_function__ or unpack hook of the program runs. The documented `_saved_*` of graphs would run such
hooks. What is counted and not found is told as such.

The other parts, held_*.py, stand behind this one in the text. Each uses names of the others.
"""
# pylint: disable=undefined-variable
collections, gc, operator, os, sys, time, types = (
    modules[name] for name in ("collections", "gc", "operator", "os", "sys", "time", "types"))


PATHS = 400                # storages of which paths are looked for, the largest first
ROWS = 200
LISTING = 20e-9            # seconds of CPU to list all objects, for each block of the interpreter's allocator: an object has some three
PARTS = 0.3, 0.6, 0.8, 0.9 # of the time: most to list all objects, when the walk ends, when what it has not reached is sorted, when paths are known


def look(blocks, error, seconds, objects, clocks):
    """seconds: that are left; what frees the lists takes place after them. clocks: the time a moment ago, and the thread's of CPU, which
    has worked since and tells what part of a processor there is. blocks: of the live ones (address, bytes, native stack, Python stack) as 8-byte words. error: the exception that is
    being made, or None. Returns (flags, objects walked, rows, bytes and holders of the most). Flags: 1 the time or the room
    ran out, 2 graphs were not read because a backward pass may run, 4 because this PyTorch lacks names that are needed."""
    api = framework()
    begin = time.monotonic()
    share = (time.thread_time() - clocks[1]) / max(begin - clocks[0], 1e-6)
    with api.off():
        found = take(api, blocks, error, share * PARTS[0] * seconds, [begin + part * seconds for part in PARTS[1:]], objects)
    forget_locals()
    return found


def framework():
    return Torch() if "torch._C" in modules else Paddle() if "paddle.base.libpaddle" in modules else Arrays()


def holders(reference, seconds, objects):
    """What `look` would tell of the memory of one tensor, by a weak reference, since any other would be told, too: (what it is,
    paths ...). None: it has ended, or has no memory on a device."""
    api, begin = framework(), time.monotonic()
    with api.off():
        raw = api.storage(reference())
        deadlines = [begin + part * seconds for part in PARTS[1:]]
        rows = raw and take(api, number(*raw[:2], 0, 0), None, PARTS[0] * seconds, deadlines, objects, raw[0])[2]
    forget_locals()
    return tuple(rows[48:48 + int.from_bytes(rows[40:48], "little")].decode().split("\n")) if rows else None


def all_roots(walk, there, error, caller):
    """Roots of the program, of libraries' functions, of libraries. Notes what no path goes through."""
    running, frames = frame_roots()
    own, libraries, spaces = module_roots()
    step = pending_traceback(there["b"], there["e"], caller) if error is not None else None
    left, gone = traceback_roots(step)
    walk.skip.update(copies, map(id, [globals(), *frames, *spaces, *gone]))
    calls = running + left
    near = own + [r for r in calls if r.kind != "library"] + [handled_root()]
    return near, [r for r in calls if r.kind == "library"], libraries + [context_root()]


def why_no_paths(walk, number, deadline):
    if number >= PATHS:
        return "of small blocks only the largest are"
    return "there was no time" if walk.is_late(deadline) else ""


def answer(api, walk, graphs, blocks, storages, lost, every, deadline):
    """The rows, the most bytes that the same holders have, and these holders."""
    words = memoryview(blocks).cast("Q")
    rows = sorted(tuple(words[n:n + 4]) for n in range(0, len(words), 4) if words[n + 1])
    namer = Namer(walk, lost, classify(walk, api, every.values()))
    owners = graphs.owners(namer.of_graph, lambda: time.monotonic() > deadline)
    owned = [namer.owned[id(t)] for s in storages for t in s.tensors if id(t) in namer.owned]
    alone = collections.Counter((own.word, id(own.top)) for own in owned)
    told = {s.address: settle(s, namer, owners, why_no_paths(walk, n, deadline), alone) for n, s in enumerate(storages)}
    texts, size = reducers(walk, api, namer)
    plain = namer.settled()
    told = {address: (word, list(dict.fromkeys(plain.get(t, t) for t in texts))) for address, (word, texts) in told.items()}
    nobody = "no Python object" + " that was reached in time" * walk.cut + api.silent * (api.array is not None or type(api) is Paddle)
    if 0 < size <= sum(r[1] for r in rows) - sum(s.bytes for s in storages):
        texts = list(dict.fromkeys(plain.get(t, t) for t in texts))
        nobody += f"; DDP's Reducers have buckets of {mib(size)} in C++: those of {', '.join(texts[:HOLDERS])}"
    groups = sorted(by_block(rows, storages, told, nobody).items(), key=lambda g: -g[1][0])
    sums = collections.Counter()
    for key, (size, *_) in groups:
        sums[key[2:]] += size
    top = max(sums, key=sums.get, default=())
    return pack(groups[:ROWS]), sums[top], " and ".join(top[1:3]).encode("utf-8", "replace").decode()


def list_objects(walk, seconds):
    """All objects of the collector, None: that would take longer, and cannot be broken off; and those that have a kind, by kind."""
    there = collections.defaultdict(list)
    if LISTING * sys.getallocatedblocks() > seconds:
        return None, there
    live = gc.get_objects()
    for at in range(0, len(live), LISTED):
        if walk.is_over():
            break
        part = live[at:at + LISTED]
        wanted = {t: walk.kinds[t] for t in set(map(type, part)) if walk.kinds[t]}
        for obj in [o for o in part if type(o) in wanted] if wanted else ():
            there[wanted[type(obj)]].append(obj)
    return live, there


def take(api, blocks, error, seconds, deadlines, most, only=None):
    walk = Walk(api, deadlines[0], most)
    live, there = list_objects(walk, seconds)
    is_alone = api.keeps or not there["t"] or len(sys._current_frames()) == 1 and not passes()
    unowned = set() if is_alone else drop_unowned(live, there)
    api.know(there["s"])
    counts = count_references(there["t"], api)
    caller = sys._getframe(1).f_back  # of look
    api.runs = type(api) is Torch and backward_runs(caller, error)
    flags = 2 if api.runs else 0 if api.graphs else 4
    is_whole = live is not None
    near, far, last = all_roots(walk, there, error, caller)
    walk.run(near)
    walk.run(far)
    walk.run_large()
    flags |= 2 * api.runs
    every = {id(o): o for o in there["t"] + walk.of_kind["t"]}
    tensors = [] if flags else [t for t in every.values() if not api.is_array(t)]
    graphs = Graphs(api, tensors, [] if flags else there["n"] + walk.of_kind["n"], deadlines[1])
    saved = read_graphs(walk, api, graphs, every)
    walk.run(last)  # few things hang on libraries, and they are many
    walk.run_large()
    if unowned and not walk.cut:
        readmit_owned(walk, live, there["t"], unowned, deadlines[1])
    every.update((id(o), o) for o in there["t"] + walk.of_kind["t"])

    lonely = [t for i, t in every.items() if i not in walk.seen and i not in saved]
    counted = {id(o) for objects in there.values() for o in objects}
    lost = sort_lost(walk, live, lonely, counted, deadlines[1]) if lonely and is_whole and not walk.cut else {}
    walk.cut = walk.cut or not is_whole
    del live, there
    storages = find_storages(api, every.values(), walk.of_kind["s"], saved, counts, lost, walk)
    storages = [s for s in storages if only in (None, s.address)]
    told = answer(api, walk, graphs, blocks, storages, lost, every, deadlines[2])
    return flags | 2 * api.runs | (walk.cut or graphs.cut), len(walk.seen), *told
