"""Commands of vcompress as functions, by ctypes: words in, the JSON document out (tools/call.h has the other side)."""
from __future__ import annotations

import ctypes
import decimal
import html
import json
import numbers
import os
import re
import threading
from typing import Any, Callable, Dict, Iterator, KeysView, List, Mapping, NamedTuple, Optional, ValuesView


class Progress(NamedTuple):
    """How far a call is: `done` of `total` bytes of weights."""

    what: str
    tensor: str
    done: int
    total: int


class Error(Exception):
    """A call failed; the text is the library's sentence. `status` is the exit status of the command."""

    status = 4


class Gate(Error):
    """The answer is no: a gate was missed, and nothing was written. `report` says by how much."""

    status = 1
    report: "Report"


class UsageError(Error, ValueError):
    """An option is unknown, has a wrong value, or does not go with another one."""

    status = 2


class InputError(Error, ValueError):
    """The input is damaged or not supported."""

    status = 3


class SystemFailure(Error, OSError):
    """The system refused: files, memory, device."""

    status = 4


class Report(Dict[str, Any]):
    """The document of a command, a dict of its schema. `ok` is the answer of commands that ask: fit, diff, verify. print() shows what
    the command prints, a notebook its page, and `tensors` are rows for pandas.DataFrame."""

    ok: bool = True
    sentence: str = ""
    text: str = ""  # what the command prints

    @property
    def tensors(self) -> List[Dict[str, Any]]:
        """A row for each tensor, with members of members as columns, "measured.sqnr_db"; empty for documents without tensors."""
        rows = self.get("tensors")
        return [_flat(row) for row in rows] if isinstance(rows, list) else []

    def __str__(self) -> str:
        return self.text.rstrip("\n") or repr(self)

    def __repr__(self) -> str:
        """<Report quantize --int8: 631.8 KiB -> 172.5 KiB, SQNR 42.6 dB: ok>"""
        totals = self.get("totals") or {}
        file = totals.get("file") if isinstance(totals, dict) else None
        parts = []
        if isinstance(file, dict) and file.get("after"):
            parts.append("%s -> %s" % (_size(file["before"]), _size(file["after"])))
        if isinstance(totals, dict) and isinstance(totals.get("sqnr_db"), (int, float)):
            parts.append("SQNR %.1f dB" % totals["sqnr_db"])
        name = self.get("command") or str(self.get("schema", "")).replace("vcompress.", "").split("/")[0]
        return "<Report %s%s: %s>" % (name, ": " + ", ".join(parts) if parts else "", "ok" if self.ok else self.sentence or "no")

    def _repr_html_(self) -> str:
        """The page of --html, in a frame of its own."""
        page = _library.vcompress_page(json.dumps(self).encode())
        if not page:
            return "<pre>" + html.escape(str(self)) + "</pre>"
        text = ctypes.string_at(page).decode("utf-8", "replace")
        _library.vcompress_text_free(page)
        return '<iframe srcdoc="%s" style="width:100%%;height:640px;border:0" title="%s"></iframe>' % (html.escape(text), html.escape(repr(self)))


def _flat(row: Dict[str, Any], before: str = "") -> Dict[str, Any]:
    flat: Dict[str, Any] = {}
    for name, value in row.items():
        flat.update(_flat(value, before + name + ".") if isinstance(value, dict) else {before + name: value})
    return flat


def _size(n: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n < 1023.5 or unit == "GiB":
            return "%.*f %s" % (0 if unit == "B" else 1, n, unit)
        n /= 1024
    return ""


_READ = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t)
_BEGIN = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_uint64)
_COMMIT = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)


class _Reader(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_void_p), ("size_bytes", ctypes.c_uint64), ("read", _READ), ("user", ctypes.c_void_p)]


class _Writer(ctypes.Structure):
    _fields_ = [("begin", _BEGIN), ("write", _READ), ("commit", _COMMIT), ("user", ctypes.c_void_p)]


class _Progress(ctypes.Structure):
    _fields_ = [("what", ctypes.c_char_p), ("tensor", ctypes.c_char_p), ("done", ctypes.c_uint64), ("total", ctypes.c_uint64)]


_PROGRESS = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(_Progress))


class _Call(ctypes.Structure):
    _fields_ = [("words", ctypes.POINTER(ctypes.c_char_p)), ("n_words", ctypes.c_int), ("reader", ctypes.POINTER(_Reader)),
                ("writer", ctypes.POINTER(_Writer)), ("progress", _PROGRESS), ("user", ctypes.c_void_p), ("status", ctypes.c_int),
                ("document", ctypes.c_char_p), ("text", ctypes.c_char_p), ("sentence", ctypes.c_char_p), ("ctx", ctypes.c_void_p),
                ("cancelled", ctypes.c_bool), ("printed", ctypes.c_void_p), ("n_text", ctypes.c_size_t)]


class _File(ctypes.Structure):
    """struct vcompress_file"""

    _fields_ = [("path", ctypes.c_char_p), ("reader", ctypes.POINTER(_Reader)), ("key", ctypes.c_char_p), ("decoded", ctypes.c_bool),
                ("status", ctypes.c_int), ("document", ctypes.c_char_p), ("sentence", ctypes.c_char_p), ("ctx", ctypes.c_void_p),
                ("model", ctypes.c_void_p)]


_library = ctypes.CDLL(os.environ.get("VCOMPRESS_CALL") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "vcompress_call.so"))
for _name in ("run", "cancel", "end"):
    getattr(_library, "vcompress_call_" + _name).argtypes = [ctypes.POINTER(_Call)]
    getattr(_library, "vcompress_call_" + _name).restype = None
_library.vcompress_page.argtypes, _library.vcompress_page.restype = [ctypes.c_char_p], ctypes.c_void_p
_library.vcompress_text_free.argtypes, _library.vcompress_text_free.restype = [ctypes.c_void_p], None
_library.vcompress_file_open.argtypes, _library.vcompress_file_open.restype = [ctypes.POINTER(_File)], ctypes.c_bool
_library.vcompress_file_read.argtypes = [ctypes.POINTER(_File), ctypes.c_size_t, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t]
_library.vcompress_file_read.restype = ctypes.c_bool
_library.vcompress_file_close.argtypes, _library.vcompress_file_close.restype = [ctypes.POINTER(_File)], None


def _word(name: str, value: Any) -> str:
    """Of numbers, those of NumPy too, the shortest digits without an exponent: 0.3 of float32(0.3), 0.00001 of 1e-05."""
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if isinstance(value, numbers.Real):
        return format(decimal.Decimal(str(value)), "f") if "e" in str(value) else str(value)
    raise TypeError(f"{name}: takes a text, a path or a number, not {type(value).__name__}")


def words_of(options: Dict[str, Any]) -> List[str]:
    """{"int8": True, "min_sqnr": 40, "exclude": ["a*", "b*"]} -> --int8 --min-sqnr=40 --exclude=a* --exclude=b*; {"type": {"a*": "int4"}} -> --type=a*=int4"""
    words = []
    for name, value in options.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        value = [f"{key}={one}" for key, one in value.items()] if isinstance(value, Mapping) else value
        for one in value if isinstance(value, (list, tuple, Iterator, KeysView, ValuesView)) else [value]:
            if type(one).__name__ in ("bool", "bool_"):  # NumPy's, too
                words += [option] if one else []
            elif one is not None:
                words.append(option + "=" + _word(name, one))
    return words


def _address(at: int, n: int) -> memoryview:
    return memoryview((ctypes.c_char * n).from_address(at)).cast("B")


class _Hooks:
    """What the library calls. What is raised there ends the call, which raises it again."""

    def __init__(self) -> None:
        self.raised: Optional[BaseException] = None
        self.cancel: Callable[[], None] = lambda: None

    def guarded(self, function: Callable[..., None]) -> Callable[..., bool]:
        def call(*values: Any) -> bool:
            try:
                function(*values)
            except BaseException as error:  # noqa: B902 - it cannot cross the library
                self.raised = self.raised or error
                self.cancel()
                return False
            return True

        return call


def call(words: List[str], progress: Optional[Callable[[Progress], None]] = None, source: Any = None, target: Any = None) -> Report:
    """Runs a command. source has size and read(offset, view), target begin(size), write(offset, view) and commit()."""
    hooks = _Hooks()
    encoded = [os.fsencode(word) for word in words]
    for word in encoded:
        if b"\0" in word:
            raise ValueError("a path or an option holds a NUL: %r" % word)
    made = _Call(words=(ctypes.c_char_p * len(encoded))(*encoded), n_words=len(encoded))
    if source is not None:
        read = hooks.guarded(lambda user, offset, to, n: source.read(offset, _address(to, n)))
        reader = _Reader(size_bytes=source.size, read=_READ(read))
        made.reader = ctypes.pointer(reader)
    if target is not None:
        write = hooks.guarded(lambda user, offset, at, n: target.write(offset, _address(at, n)))
        writer = _Writer(begin=_BEGIN(hooks.guarded(lambda user, size: target.begin(size))), write=_READ(write),
                         commit=_COMMIT(hooks.guarded(lambda user: target.commit())))
        made.writer = ctypes.pointer(writer)
    if progress is not None:
        def show(user: Any, at: Any) -> None:
            p = at.contents
            progress(Progress((p.what or b"").decode(), (p.tensor or b"").decode("utf-8", "replace"), p.done, p.total))

        made.progress = _PROGRESS(hooks.guarded(show))
    hooks.cancel = lambda: _library.vcompress_call_cancel(ctypes.byref(made))
    try:
        _run(made, hooks)
        status = made.status
        text, sentence = made.document, (made.sentence or b"").decode("utf-8", "replace")
        printed = (made.text or b"").decode("utf-8", "replace")
    finally:
        _library.vcompress_call_end(ctypes.byref(made))
    if hooks.raised is not None:
        raise hooks.raised
    sentence = _said(sentence)
    document = json.loads(text) if text else {}
    report = Report(document if isinstance(document, dict) else {"documents": document})
    report.ok, report.sentence, report.text = status == 0, sentence, printed
    _check(status, sentence)
    return report


def _said(sentence: str) -> str:
    """Sentences name options as the command has them; here they are keywords."""
    return re.sub(r"(?<![\w-])--([a-z][a-z0-9-]*)", lambda m: m[1].replace("-", "_"), sentence)


def _check(status: int, sentence: str) -> None:
    if status > 1:
        raise {2: UsageError, 3: InputError}.get(status, SystemFailure)(sentence or "the command failed")


class Checkpoint:
    """A checkpoint that is open (struct vcompress_file): its document, and its values by range. One thread at a time has it."""

    def __init__(self, name: str, source: Any, key: Optional[str], decoded: bool) -> None:
        self._hooks = _Hooks()
        self._file = _File(path=os.fsencode(name), key=None if key is None else os.fsencode(key), decoded=decoded)
        self._lock = threading.Lock()
        if source is not None:
            self._read = _READ(self._hooks.guarded(lambda user, offset, to, n: source.read(offset, _address(to, n))))
            self._reader = _Reader(size_bytes=source.size, read=self._read)
            self._file.reader = ctypes.pointer(self._reader)
        self._open = True
        if not _library.vcompress_file_open(ctypes.byref(self._file)):
            try:
                self._fail()
            finally:
                self.close()
        self.document: Dict[str, Any] = json.loads(self._file.document or b"{}")

    def _fail(self) -> None:
        raised, self._hooks.raised = self._hooks.raised, None
        if raised is not None:
            raise raised
        _check(max(self._file.status, 2), _said((self._file.sentence or b"").decode("utf-8", "replace")))

    def read(self, tensor: int, first: int, n: int, to: bytearray) -> None:
        """Elements of a tensor, as they lie in C order."""
        with self._lock:
            if not self._open:
                raise ValueError("the checkpoint is closed")
            at = (ctypes.c_char * len(to)).from_buffer(to) if to else None
            if n and not _library.vcompress_file_read(ctypes.byref(self._file), tensor, first, n, at, len(to)):
                self._fail()

    def close(self) -> None:
        """What was read stays."""
        with self._lock:
            if self._open:
                self._open = False
                _library.vcompress_file_close(ctypes.byref(self._file))


def _run(made: _Call, hooks: _Hooks) -> None:
    """Ctrl-C: Python sees signals in the main thread only, and only between its own instructions; so another thread works."""
    if threading.current_thread() is not threading.main_thread():
        _library.vcompress_call_run(ctypes.byref(made))
        return
    done = threading.Event()

    def work() -> None:
        try:
            _library.vcompress_call_run(ctypes.byref(made))
        finally:
            done.set()

    worker = threading.Thread(target=work, name="vcompress")
    worker.start()
    while not done.is_set():  # Thread.join does not survive an interrupt in Python 3.11
        try:
            done.wait()
        except BaseException as error:  # noqa: B902 - KeyboardInterrupt, or what a handler of signals raises
            hooks.raised = hooks.raised or error
            hooks.cancel()
    worker.join()
