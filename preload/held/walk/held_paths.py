# SPDX-License-Identifier: MIT
"""A part of held.py, which says where it runs: the text of a way from a name down to an object."""
# pylint: disable=undefined-variable

TEXT = 200                                       # characters of a path
REPEATS = 3                                      # times that a part of a path stands there
INSIDE = ("_modules", "_sub_layers", "_parameters", "_buffers")  # of a module: its children are its attributes
OWNERS = ("m", "o")
FRAMES = (types.FrameType, types.TracebackType)


class Path:
    """The text of a way to an object: what has a name (head), the way from there (tail), and where the name is (after)."""
    __slots__ = ("head", "tail", "after", "root", "is_local", "is_owned", "variable")

    def __init__(self, head, tail, after, root, is_local=False, is_owned=False, variable=None):
        self.head, self.tail, self.after, self.root = head, tail, after, root
        self.is_local = is_local  # the object itself is a local of a running function
        self.is_owned = is_owned  # the way goes through a module or an optimizer
        self.variable = variable  # (name, id of a function's code): it is shared with the function that has made this one

    def text(self):
        text = self.head + self.tail + self.after
        return text if len(text) <= TEXT else text[:TEXT // 2 - 2] + "..." + text[-TEXT // 2:]

    def kind(self):
        return self.root.kind if self.root else None

    def without(self, ends):
        """The same without the first of these endings that it has."""
        end = next((e for e in ends if self.tail.endswith(e)), "")
        return Path(self.head, self.tail.removesuffix(end), self.after, self.root)


def shorter(parts, repeated):
    """".next.next.next.next" as ".next...": of a part that follows itself REPEATS times or more, one, and a note of it."""
    out, n = [], 0
    while n < len(parts):
        for length in (1, 2, 3):
            unit, times = parts[n:n + length], 1
            while parts[n + times * length:n + (times + 1) * length] == unit:
                times += 1
            if times >= REPEATS and any(p[0] == "." for p in unit):
                out.append("".join(unit) + "...")
                repeated.add("".join(unit))
                n += times * length
                break
        else:
            out.append(parts[n].removeprefix(".") if out and out[-1].endswith("...") else parts[n])
            n += 1
    return "".join(out)


def longer(text, unit, times):
    """The text that stands for one in which the unit follows itself a few times, less than REPEATS."""
    before, _, rest = text.partition(f"{unit}...")
    return f"{before}{unit * times}{'.' * (rest[:1].isalnum() or rest[:1] == '_')}{rest}"


def child_text(name):
    return f"[{name}]" if name.isdigit() else f".{name}"


def join(head, after, chain, walk, root=None):
    """The Path whose chain[-1] is named by head and after, and whose end is chain[0]."""
    parts, dotted = [], False
    for n in range(len(chain) - 1, 0, -1):
        up, here = chain[n], chain[n - 1]
        if n > 1 and type(up) is types.FunctionType and here is up.__closure__:
            variable = [v for v, c in zip(up.__code__.co_freevars, here) if c is chain[n - 2]]
            parts.append(f".closure[{variable[0]!r}]" if variable else ".closure")
            continue
        if type(here) is types.CellType and type(up) is tuple and parts and parts[-1].startswith(".closure["):
            continue
        part = walk.name(up, here)
        if type(part) is Local:
            is_error = bool(parts) and parts[-1] == ".__traceback__"
            outer = head + shorter(parts[:-1] if is_error else parts, walk.repeated)
            outer = f" in {'the traceback of ' * is_error}{outer}" if is_error or head[0] != "<" else ""  # "<enumerate>" is no name
            head, after, parts, dotted = part.head, part.after + outer + after, [], False
            continue
        if dotted and part.startswith("['"):
            part = child_text(part[2:-2])
        dotted = part == ".__dict__" or part[1:] in INSIDE
        if part and not dotted:
            parts.append(part)
    is_local = root is not None and root.kind == "local" and len(chain) == 1
    variable = None
    if len(chain) > 3 and type(chain[1]) is types.CellType and type(chain[3]) is types.FunctionType:
        code = chain[3].__code__
        variable = next(((v, id(code)) for v, c in zip(code.co_freevars, chain[2]) if c is chain[1]), None)
    return Path(head, shorter(parts, walk.repeated), after, root, is_local, any(walk.kind(o) in OWNERS for o in chain[1:]), variable)
