# SPDX-License-Identifier: MIT
"""A part of held.py, which says where it runs: what is read of any object, by descriptors of types, so that no code of the program's runs."""
# pylint: disable=undefined-variable

OPTIMIZED = 0x1 # a code object's flag: its locals are no dict of the program's

mro_of = type.__dict__["__mro__"].__get__
dict_of = type.__dict__["__dict__"].__get__
name_of = type.__dict__["__qualname__"].__get__

touched, copies = {}, set()  # frames whose locals were read, ids of the copies that they have then


def frame_locals(frame):
    """Locals by name. Up to CPython 3.12, reading f_locals leaves a copy in the frame that keeps every value alive until
    the function returns: it is emptied, at once or after the walk, unless the program holds it, too (by locals())."""
    found = frame.f_locals
    result = dict(found)
    if type(found) is dict and frame.f_code.co_flags & OPTIMIZED:
        touched[id(frame)] = frame
        copies.add(id(found))
        if sys.getrefcount(found) <= 3:
            found.clear()
    return result


def forget_locals():
    """Copies of an earlier walk are among the objects of this one, and are emptied when its lists are gone."""
    while touched:
        found = touched.popitem()[1].f_locals
        if sys.getrefcount(found) <= 3:
            found.clear()


def instance_dict(obj):
    for kind in mro_of(type(obj)):
        descriptor = dict_of(kind).get("__dict__")
        if type(descriptor) is types.GetSetDescriptorType:
            try:
                return descriptor.__get__(obj)
            except (TypeError, AttributeError):
                return None
    return None


def space_of(obj):
    """The names in a module or a class, or None."""
    mro = mro_of(type(obj))
    if types.ModuleType in mro:
        return dict_of(types.ModuleType)["__dict__"].__get__(obj)
    return dict_of(obj) if type in mro else None


def cell_value(cell):
    try:
        return cell.cell_contents
    except ValueError:
        return None


def values_of(obj):
    return list(dict.values(obj)) if dict in mro_of(type(obj)) else []


def items_of(obj):
    return list(dict.items(obj)) if dict in mro_of(type(obj)) else []
