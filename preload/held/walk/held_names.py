# SPDX-License-Identifier: MIT
"""A part of held.py, which says where it runs: the names of what an object refers to."""
# pylint: disable=undefined-variable

FIELDS = 4       # of a key that is a tuple
SUSPENDS = 0x2a0 # its flags if it is a generator, a coroutine, or both
SUSPENDED = {types.GeneratorType: "gi_frame", types.CoroutineType: "cr_frame", types.AsyncGeneratorType: "ag_frame"}
PLAIN = (str, int, bool, float, bytes, type(None))
FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)

partial = getattr(modules.get("functools"), "partial", None)


def key_word(key, inside=False):
    t, mro = type(key), mro_of(type(key))
    if t in PLAIN:
        text = repr(key)
    elif tuple in mro and not inside and 0 < tuple.__len__(key) <= FIELDS:
        text = ", ".join(key_word(k, True) for k in tuple.__iter__(key))
    else:
        text = name_of(key) if type in mro else f"<{name_of(t)}>"
    return text if len(text) < 60 else text[:56] + "...'"


def key_text(key):
    return f"[{key_word(key)}]"


def place(frame, line=None):
    code = frame.f_code
    return f"{getattr(code, 'co_qualname', code.co_name)} {os.path.basename(code.co_filename)}:{line or frame.f_lineno}"


class Local:
    """A local of a frame that an object refers to: a path begins anew there."""
    __slots__ = ("head", "after")

    def __init__(self, name_and_frame):
        name, frame = name_and_frame
        word = "suspended " if frame.f_code.co_flags & SUSPENDS else ""
        self.head, self.after = f"local {name!r}", f" of {word}{place(frame)}"


def names(obj, api, kind):
    """(name, object) of the references of obj that have a name, the better name first. A name is a text, or a function
    and its argument: of a large container one is wanted."""
    t, mro = type(obj), mro_of(type(obj))
    if dict in mro:
        yield from (((key_text, k), v) for k, v in dict.items(obj))
        yield from ((".keys()", k) for k in dict.keys(obj))
    elif tuple in mro or list in mro:
        fields = getattr(t, "_fields", None) if tuple in mro else None
        for i, value in enumerate((tuple if tuple in mro else list).__iter__(obj)):
            yield (f".{fields[i]}" if type(fields) is tuple and i < len(fields) else (key_text, i)), value
    elif set in mro or frozenset in mro:
        yield from (("{...}", v) for v in (set if set in mro else frozenset).__iter__(obj))
    elif collections.deque in mro:
        yield from (((key_text, i), v) for i, v in enumerate(collections.deque.__iter__(obj)))
    elif t is types.CellType:
        yield "", cell_value(obj)
    elif t is types.FunctionType:
        for name in ("__closure__", "__defaults__", "__kwdefaults__", "__dict__", "__annotations__"):
            yield f".{name}", getattr(obj, name, None)
    elif t is types.MethodType:
        yield from ((".__self__", obj.__self__), (".__func__", obj.__func__))
    elif t is types.FrameType:
        yield from (((Local, (n, obj)), v) for n, v in frame_locals(obj).items())
    elif t is types.TracebackType:
        yield from (("", obj.tb_frame), ("", obj.tb_next))
    elif t in SUSPENDED and getattr(obj, SUSPENDED[t]) is not None:
        frame = getattr(obj, SUSPENDED[t])
        yield "", frame  # up to CPython 3.10 gc shows it
        yield from (((Local, (n, frame)), v) for n, v in frame_locals(frame).items())
    elif BaseException in mro:
        for name in ("__traceback__", "__context__", "__cause__", "args"):
            yield f".{name}", dict_of(BaseException)[name].__get__(obj)
    elif partial in mro:
        yield from ((f".{name}", dict_of(partial)[name].__get__(obj)) for name in ("func", "args", "keywords"))
    own = None if type in mro else instance_dict(obj)
    if own is not None:
        yield from ((f".{n}" if type(n) is str else f".__dict__{key_text(n)}", v) for n, v in own.items())
        yield ".__dict__", own
    for k in mro:
        for name, member in dict_of(k).items():
            if type(member) is types.MemberDescriptorType:
                try:
                    yield f".{name}", member.__get__(obj)
                except AttributeError:
                    pass
    yield from api.extra(obj, kind)


def importable(obj):
    """A class or function, by the name under which its module has it; or None."""
    t = type(obj)
    if type in mro_of(t):
        module, qualname = dict_of(obj).get("__module__"), name_of(obj)
    elif t in FUNCTIONS:
        module, qualname = obj.__module__, obj.__qualname__
    else:
        return None
    here = modules.get(module) if type(module) is str else None
    for part in qualname.split("."):
        space = space_of(here)
        here = space.get(part) if space is not None else None
    if here is not obj:
        return None
    prefix = "" if module == "__main__" else f"{module}."
    return f"{'function' if t in FUNCTIONS else 'class'} {prefix}{qualname}"
