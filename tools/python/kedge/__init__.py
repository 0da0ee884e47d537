# SPDX-License-Identifier: MIT
"""What a program can say to kedge, and ask of it, while `kedge run` has its library in the process.

    with kedge.anchor("validation"): ...    a named part of the run, in this thread; also a decorator
    kedge.mark("epoch 3")                   a moment
    kedge.live()  kedge.peak()              bytes of device memory now, and the most that there were
    with kedge.measure() as m: ...          m.peak and m.growth: the same of a part of the run
    kedge.held(tensor)                      paths of what refers to its memory
    kedge.snapshot("now.kcap")              the capture as it is now; in a notebook it shows itself as the page of `kedge report`

Without the library all of this does nothing: active() is False, and what would be an answer is None. Nothing here raises because of
kedge; snapshot() raises OSError if its file cannot be written. All threads. Device memory is that of all devices of the process. Of a
framework's own cache it is the segments (kedge-run(1)).
"""
import contextlib
import ctypes
import gc  # here and time: the walk of held() imports nothing, and takes what the program has
import html
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import weakref

__all__ = ["active", "anchor", "held", "live", "mark", "measure", "peak", "snapshot", "Held", "Snapshot"]


def _find(name, result, *arguments, loader=ctypes.CDLL):
    """A function of kedge.h, or None: the library is not in this process."""
    try:
        function = getattr(loader(None), name)
    except (AttributeError, OSError):
        return None
    function.restype, function.argtypes = result, arguments
    return function


_push = _find("kedge_push", None, ctypes.c_char_p)
_pop = _find("kedge_pop", None)
_mark = _find("kedge_mark", None, ctypes.c_char_p)
_capture = _find("kedge_capture", ctypes.c_char_p)
_live = _find("kedge_live", ctypes.c_ulonglong)
_peak = _find("kedge_peak", ctypes.c_ulonglong, ctypes.c_int)
_held = _find("kedge_held", ctypes.c_void_p, ctypes.py_object, loader=ctypes.PyDLL)  # with the interpreter's lock
_of_walks = (gc, time)
_lock = threading.Lock()
_measures = []  # those that are open; guarded by _lock, as is what they have of peaks
_most = 0       # the peak of the process, as far as it was asked for


def active():
    """Whether kedge is in this process, and records."""
    return _capture is not None and _capture() is not None


def _path():
    """The capture, or None: there is none, or not yet."""
    return os.fsdecode(_capture()) or None if active() else None


def _name(text):
    return str(text).encode("utf-8", "replace").replace(b"\0", b" ")


class anchor(contextlib.ContextDecorator):
    """A named part of the run, which this thread enters and leaves; parts nest. As torch.cuda.nvtx.range, without NVTX."""

    def __init__(self, name):
        self.name = name

    def _recreate_cm(self):
        return type(self)(self.name)

    def __enter__(self):
        if _push is not None:
            _push(_name(self.name))
        return self

    def __exit__(self, *_):
        if _pop is not None:
            _pop()


def mark(name):
    """A moment of this thread."""
    if _mark is not None:
        _mark(_name(name))


def live():
    """Bytes of device memory that the program has now; None without kedge or before the first use of CUDA."""
    return _live() if _path() else None


def _look():
    """The peak since the last look goes to all that are open."""
    global _most
    since = _peak(1)
    _most = max(_most, since)
    for one in _measures:
        one._most = max(one._most, since)


def peak():
    """The most bytes that it has had; None as live()."""
    if not _path():
        return None
    with _lock:
        _look()
        return _most


class measure:
    """with measure() as m: what a part of the run adds. They may be nested, and open in several threads; what other threads allocate
    meanwhile is in each.

    before, after   bytes live when it begins and ends
    peak            the most bytes inside of it, above `before`
    growth          after - before

    Inside of it `after`, `peak` and `growth` are those up to now. All are None without kedge.
    """

    def __init__(self):
        self.before = self._after = None
        self._most = 0
        self._is_open = False

    def __enter__(self):
        if active():
            with _lock:
                if _path():
                    _look()
                self.before, self._after, self._is_open = live() or 0, None, True
                self._most = self.before
                _measures.append(self)
        return self

    def __exit__(self, *_):
        if self._is_open:
            with _lock:
                if _path():
                    _look()
                self._is_open, self._after = False, live() or 0
                _measures.remove(self)

    @property
    def after(self):
        return (live() or 0) if self._is_open else self._after

    @property
    def growth(self):
        return None if self.before is None else self.after - self.before

    @property
    def peak(self):
        if self._is_open and _path():
            with _lock:
                _look()
        return None if self.before is None else self._most - self.before


class Held(list):
    """Paths of what refers to a tensor's memory; `kind` says what the memory is: "parameter", "gradient", "tensor" ..."""

    def __init__(self, kind, paths):
        super().__init__(paths)
        self.kind = kind

    def __repr__(self):
        return "\n".join([self.kind, *(f"  {path}" for path in self)])


def held(tensor):
    """The Held of a tensor of PyTorch or an array of CuPy: what `kedge report` says of its memory under HELD BY. None: without
    kedge, with KEDGE_HELD=none, and of what has no memory on a device. It takes as long as such a walk: other Python threads stand still."""
    if _held is None or not active():
        return None
    try:
        reference = weakref.ref(tensor)
    except TypeError:
        return None
    del tensor  # it would be told
    sys.audit("kedge.held")  # at audit events kedge looks for frameworks
    answer = _held(reference)  # no py_object: of NULL, which is no answer, ctypes makes a crash up to CPython 3.11
    if not answer:
        return None
    found = ctypes.cast(answer, ctypes.py_object).value
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(found))
    return Held(found[0], found[1:]) if found else None


# ---- snapshots ------------------------------------------------------------------------------------------------------


def _copy(source, path):
    """Holes stay holes: a capture has room that it does not use. In place of the file at once."""
    target = pathlib.Path(path)
    with open(source, "rb") as from_, tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as to:
        try:
            end, at = os.fstat(from_.fileno()).st_size, 0
            while at < end:
                try:
                    at = os.lseek(from_.fileno(), at, os.SEEK_DATA)
                except OSError:  # a hole up to the end
                    break
                stop = os.lseek(from_.fileno(), at, os.SEEK_HOLE)
                while at < stop:
                    part = os.pread(from_.fileno(), min(stop - at, 1 << 24), at)
                    if not part:
                        break
                    os.pwrite(to.fileno(), part, at)
                    at += len(part)
                at = max(at, stop)
            os.truncate(to.fileno(), end)
            os.replace(to.name, target)
        except BaseException:
            os.unlink(to.name)
            raise


def _command():
    """The command of the library that is preloaded, else the one in PATH, or None."""
    for name in os.environ.get("LD_PRELOAD", "").replace(":", " ").split():
        if os.path.basename(name) == "libkedge.so":
            folder = pathlib.Path(name).parent
            for path in (folder / "kedge", folder.parent.parent / "bin/kedge"):
                if os.access(path, os.X_OK) and path.is_file():
                    return str(path)
    return shutil.which("kedge")


class Snapshot(os.PathLike):
    """A copy of the capture. A path, which every command of kedge reads."""

    def __init__(self, path):
        self.path = str(path)

    def __fspath__(self):
        return self.path

    def __repr__(self):
        return f"<kedge.Snapshot {self.path}>"

    def report(self, *options):
        """What `kedge report FILE OPTIONS` prints, or why it prints nothing."""
        command = _command()
        if command is None:
            return "the command kedge is not found"
        outside = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "LD_AUDIT") and not k.startswith("KEDGE_")}
        done = subprocess.run([command, "report", self.path, *options], capture_output=True, env=outside, check=False)
        return (done.stdout if done.returncode == 0 else done.stdout + done.stderr).decode("utf-8", "replace")

    def page(self):
        """The page of `kedge report --html`: one text that loads nothing."""
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "page.html")
            said = self.report("--html", str(file))
            return file.read_text(encoding="utf-8") if file.is_file() else f"<pre>{html.escape(said)}</pre>"

    def _repr_html_(self):
        return (f'<iframe srcdoc="{html.escape(self.page())}" sandbox="allow-scripts" '
                'style="width: 100%; height: 640px; border: 0"></iframe>')


def snapshot(path):
    """Copies the capture as it is now, while the program runs on. Returns its Snapshot; None without kedge or a capture."""
    source = _path()
    if source is None:
        return None
    _copy(source, path)
    return Snapshot(path)
