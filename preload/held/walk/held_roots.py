# SPDX-License-Identifier: MIT
"""A part of held.py, which says where it runs: what a person can name: locals of functions that run, globals, errors."""
# pylint: disable=undefined-variable

LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3") # as oom.c knows them


def is_library(file):
    return type(file) is not str or file.startswith("<frozen") or any(f in file for f in LIBRARIES)


def of_frame(frame, line, after):
    kind = "library" if is_library(frame.f_code.co_filename) else "local"
    return Root("local '", f" of {place(frame, line)}{after}", list(frame_locals(frame).items()), kind, code=frame.f_code)


def frame_roots():
    """The functions that run now, of each thread the outermost first, and all of their frames."""
    threads = getattr(modules.get("threading"), "_active", {})
    roots, frames = [], []
    for ident, frame in sys._current_frames().items():
        name = (instance_dict(threads[ident]) or {}).get("_name", ident) if ident in threads else ident
        after, own = "" if name == "MainThread" else f", thread {name}", []
        while frame is not None:
            if frame.f_globals is not globals():  # a frame of ours in our own list would keep it all
                frames.append(frame)
                if frame.f_code.co_flags & OPTIMIZED:
                    own.append(of_frame(frame, None, after))
            frame = frame.f_back
        roots += own[::-1]
    return roots, frames


def pending_traceback(tracebacks, errors, frame):
    """Up to CPython 3.11 an exception's object is made before it has its traceback, which no exception refers to yet."""
    known = {id(b.tb_next) for b in tracebacks} | {id(dict_of(BaseException)["__traceback__"].__get__(e)) for e in errors}
    for b in tracebacks:
        if id(b) not in known and (b.tb_frame is frame or frame is None and b.tb_frame.f_back is None):
            return b
    return None


def traceback_roots(step):
    """The frames that an exception has left, and the objects that stand for them. They ran when it came."""
    roots, gone = [], []
    while step is not None:
        frame = step.tb_frame
        gone += [step, frame]
        if frame.f_code.co_flags & OPTIMIZED:
            roots.append(of_frame(frame, step.tb_lineno, ""))
        step = step.tb_next
    return roots, gone


def module_roots():
    own, libraries, spaces, seen = [], [], [], set()
    for name, module in list(modules.items()):
        space = space_of(module)
        if type(space) is not dict or id(space) in seen:
            continue
        spaces.append(space)
        seen.add(id(space))
        mine = name == "__main__" or not is_library(space.get("__file__"))
        root = Root("" if name == "__main__" else f"{name}.", "", space.items(), "global")
        (own if mine else libraries).append(root)
    return sorted(own, key=lambda r: r.before != ""), libraries, spaces


def context_root():
    context = modules["contextvars"].copy_context() if "contextvars" in modules else {}
    return Root("context variable '", "", [(v.name, x) for v, x in context.items()], "context")


def handled_root():
    """The errors that are being handled: they keep the frames that they left."""
    errors = [e[1] if type(e) is tuple else e for e in sys._current_exceptions().values()]  # of CPython 3.10 and 3.11: a tuple
    return Root("the ", " that is handled", [(name_of(type(e)), e) for e in errors if e is not None], "handled")
