# SPDX-License-Identifier: MIT
"""Bounds on the device memory of a test: @pytest.mark.device_memory(peak="2GiB", growth=0, repeat=1).

Measured is the test function alone, after its fixtures were set up, with a collection of garbage before it and after it; and only in
a process that `kedge run [--sim] -- pytest` has started. Elsewhere the test is skipped with that reason, or fails with
--device-memory=fail.

    peak    the most bytes live inside of the function, above those at its start
    growth  bytes live after it, less those at its start. With repeat=N the function runs N times, and growth is from the end of the
            first time to the end of the last: what is made once is none
    repeat  how often it runs; async functions once

A bound is a number of bytes or a text: "512MiB", "2 GiB" (KiB, MiB, GiB, TiB; K, M, G, T are the same). The figures are the test's
properties device_memory_peak and device_memory_growth (--junit-xml), and the test is an anchor of the capture, "test NAME".
"""
import gc
import inspect
import re

import pytest

import kedge

MARK = "device_memory"
UNITS = "KMGT"


def size(bound):
    """A bound as bytes."""
    if isinstance(bound, (int, float)) and not isinstance(bound, bool):
        return int(bound)
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:([KMGT])(?:iB|B)?|B)?\s*", str(bound))
    if not found:
        raise pytest.UsageError(f"{MARK}: {bound!r} is no size, as 512MiB is")
    return int(float(found[1]) * (1024 ** (UNITS.index(found[2]) + 1) if found[2] else 1))


def text(count):
    """Bytes as kedge prints them."""
    sign, value, unit = "-" if count < 0 else "", float(abs(count)), "B"
    for larger in UNITS:
        if value >= 1024:
            value, unit = value / 1024, f"{larger}iB"
    return f"{sign}{value:.2f} {unit}"


def bounds_of(item):
    """(peak, growth, repeat), None for what has no bound; or None without the mark."""
    mark = item.get_closest_marker(MARK)
    if mark is None:
        return None
    odd = [*map(repr, mark.args), *(set(mark.kwargs) - {"peak", "growth", "repeat"})]
    if odd or not {"peak", "growth"} & set(mark.kwargs):
        raise pytest.UsageError(f"{item.nodeid}: {MARK} takes peak=, growth= and repeat=, not {', '.join(odd) or 'nothing'}")
    peak, growth = (None if mark.kwargs.get(name) is None else size(mark.kwargs[name]) for name in ("peak", "growth"))
    return peak, growth, int(mark.kwargs.get("repeat", 1))


def pytest_addoption(parser):
    parser.getgroup("kedge").addoption("--device-memory", choices=("skip", "fail"), default="skip",
                                       help="what a test with the mark device_memory does without kedge (kedge run -- pytest)")


def pytest_configure(config):
    config.addinivalue_line("markers", f"{MARK}(peak=None, growth=None, repeat=1): bounds on the device memory of the test, by kedge")


def pytest_runtest_setup(item):
    if bounds_of(item) is None or kedge.active():
        return
    why = "kedge is not in this process: kedge run [--sim] -- pytest"
    if item.config.getoption("device_memory") == "fail":
        pytest.fail(why, pytrace=False)
    pytest.skip(why)


def complaint(name, used, growth, most, most_growth, repeat):
    """What does not hold, or ""."""
    said = []
    if most is not None and used.peak > most:
        said.append(f"its peak is {text(used.peak)} above the {text(used.before)} at its start, at most {text(most)} were wanted")
    if most_growth is not None and growth > most_growth:
        times = "it leaves" if repeat == 1 else f"of {repeat} times all but the first leave"
        said.append(f"{times} {text(growth)}, at most {text(most_growth)} were wanted")
    return f"device memory of {name}: {'; '.join(said)}" if said else ""


@pytest.hookimpl(hookwrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    bounds = bounds_of(pyfuncitem)
    if bounds is None:
        yield
        return
    most, most_growth, repeat = bounds
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        repeat = 1
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters if name in pyfuncitem.funcargs}
    gc.collect()
    with kedge.anchor(f"test {pyfuncitem.name}"), kedge.measure() as used:
        outcome = yield
        if outcome.excinfo is not None:
            return
        try:
            gc.collect()
            begin = used.before if repeat == 1 else used.after
            for _ in range(repeat - 1):
                pyfuncitem.obj(**arguments)
                gc.collect()
            growth = used.after - begin
            pyfuncitem.user_properties += [("device_memory_peak", used.peak), ("device_memory_growth", growth)]
            said = complaint(pyfuncitem.name, used, growth, most, most_growth, repeat)
            if said:
                pytest.fail(said, pytrace=False)
        except BaseException as error:
            if not hasattr(outcome, "force_exception"):  # of pluggy 1.0
                raise
            outcome.force_exception(error)
