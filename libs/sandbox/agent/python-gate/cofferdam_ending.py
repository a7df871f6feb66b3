"""Leaves out the end of an interpreter where nobody can tell: some 2 ms of CPU after the last byte of `print(1+1)`.

CPython ends in this order: the main module's last statement, threads are joined, atexit functions (the last registered
first), stdout and stderr are flushed, every module and object is taken apart, exit. This file's function is the first
that is registered, so it runs as the last of them: when nothing is left whose taking apart does anything but give memory
back, it flushes both streams and calls _exit(0).

Where the agent looks for it, the process rests before that: the kernel takes 0.6 ms to take an interpreter apart, with pandas some
4, and nobody need wait for it. Both streams are closed and a signal mask that no program has is set; the agent, which sees
that nobody writes any more, reads the kernel's counters, answers, and kills what rests. If it does not come, the process exits.

"Nothing" is decided in doubt for the long way, which is CPython's own end and no other:

    before    the source has none of `WORDS`; no variable that makes CPython or the linker do more at the end
    at the    the last statement was reached (no exception, no SystemExit), no thread, trace or profile function, the
    end       streams are the first ones and still open, each module that came since is one of `LIBRARIES` from the
              interpreter's own folder, and no object that the collector knows has a finaliser: that is files, generators,
              coroutines, sockets and all classes with `__del__`
    flushing  succeeded

Not for Python before 3.10, whose `atexit` belongs to the module object that the program would import again.
"""
import _io
import _signal
import _thread
import atexit
import gc
import os
import sys
import time
from itertools import takewhile

from cofferdam_watchers import looks

# Words of programs that can see or do something at the end which the checks at the end do not find. Part of a longer word
# will do: nothing is lost but 2 ms. `gc` can add callbacks, `ctypes` fills libc's own buffers, `PYTHON` may turn on -i.
WORDS = [
    word.encode()
    for word in "__del__ weakref warnings faulthandler tracemalloc audit monitoring ctypes cffi gc sqlite dbm shelve PYTHON".split()
]
# Variables of these kinds change how a process ends (PYTHONINSPECT, PYTHONMALLOCSTATS, LD_PRELOAD, …), except the ones named.
PREFIXES = ("PYTHON", "LD_", "MALLOC_", "GLIBC_")
HARMLESS = {
    "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHASHSEED", "PYTHONUTF8", "PYTHONIOENCODING", "PYTHONUNBUFFERED",
    "PYTHONDONTWRITEBYTECODE", "PYTHONSAFEPATH", "PYTHONNOUSERSITE",
}  # fmt: skip
# Modules whose C types do nothing but free memory when they go, and that start nothing.
LIBRARIES = set(
    "__future__ _abc _ast _ast_unparse _bisect _blake2 _bootlocale _codecs _collections _collections_abc _colorize _compat_pickle _contextvars _csv "
    "_datetime _decimal _elementtree _functools _hashlib _heapq _io _json _locale _md5 _opcode _opcode_metadata _operator _pickle _posixsubprocess "
    "_pydatetime _pydecimal _random _sha1 _sha2 _sha256 _sha3 _sha512 _signal _sitebuiltins _sre _stat _statistics _string _strptime "
    "_struct _thread _threading_local _tokenize _typing _uuid _warnings _weakref _weakrefset _zoneinfo abc annotationlib argparse array ast "
    "atexit base64 binascii bisect calendar cmath cmd codecs collections colorsys contextlib contextvars copy copyreg csv "
    "dataclasses datetime decimal difflib dis encodings enum errno fnmatch fractions functools genericpath gettext glob "
    "graphlib grp hashlib heapq hmac html importlib inspect io itertools json keyword linecache locale logging marshal math "
    "ntpath numbers opcode operator os pathlib pickle platform posix posixpath pprint pwd queue random re reprlib resource sched "
    "secrets shlex signal sre_compile sre_constants sre_parse stat statistics string stringprep struct sys textwrap "
    "threading time timeit token tokenize traceback types typing unicodedata urllib uuid warnings weakref zipimport zlib zoneinfo".split()
)
# What a preload may hold for its programs to end like this; they have no finalisers that write, and no threads that print.
PRELOADS = {"numpy", "pandas", "dateutil", "pytz", "six", "tzdata"}
# What comes with them and holds only data: of Cython's modules, whose names have its version, and of `sysconfig`.
DATA = ("cython_runtime", "_cython_", "_sysconfigdata_")
# A program with more has much to take apart, and looking through it would cost what is saved: 1 ms.
OBJECTS_MAX = 50000

# What an agent on a busy host has time for. Whoever holds the streams open by another name waits for it in vain.
REST_S = 0.02
# By this mask the agent knows it, see meters.py.
AT_REST = set(_signal.valid_signals()) - {_signal.SIGRTMAX, _signal.SIGRTMAX - 7}

_exit, getpid, close = os._exit, os.getpid, os.close
set_mask, SETMASK, sleep = _signal.pthread_sigmask, _signal.SIG_SETMASK, time.sleep
get_objects, unfreeze, count_frozen = gc.get_objects, gc.unfreeze, gc.get_freeze_count
count_threads, get_trace, get_profile = _thread._count, sys.gettrace, sys.getprofile
# By name, because the program may put others in place of what a name of `builtins` means.
set_of, map_over, kind_of, text_of, any_of = set, map, type, str, any
# Of the class itself, because a metaclass of the program may answer for `__mro__` and `__dict__`.
mro_of, names_of = type.__dict__["__mro__"].__get__, type.__dict__["__dict__"].__get__
MODULE = type(sys)
# Both have finalisers, which only forget their bytes.
IN_MEMORY = {_io.StringIO, _io.BytesIO}


class Ending:
    """One per interpreter; `arm` makes it this process's. `completed` is set when the last statement was reached."""

    def __init__(self):
        self.pid = None
        self.completed = False
        self.streams = sys.stdout, sys.stderr
        self.before = set_of(sys.modules)
        self.folders = (os.path.dirname(os.__file__) + os.sep,)
        self.preload_is_plain = True
        # How many objects the gate froze, where that is undone; 0 where it is not.
        self.frozen = 0
        self.own = []
        # Whether the agent looks for a process that rests.
        self.is_awaited = False
        self.steps = None

    def preloaded(self, names):
        """Looks at what the preload brought: other packages may do anything when they go."""
        own = {name.partition(".")[0] for name in set_of(sys.modules) - self.before}
        foreign = set_of(name for name in own - sys.stdlib_module_names if not name.startswith(DATA))
        self.preload_is_plain = foreign <= PRELOADS and "*" not in names
        for name in foreign & PRELOADS:
            home = getattr(sys.modules.get(name), "__path__", None)
            if home:
                self.folders += (os.path.join(list(home)[0], ""),)

    def note_frozen(self):
        """The gate froze what is there, for this one program only."""
        self.frozen = count_frozen()

    def arm(self, source):
        """True when the program may end early, as far as can be seen before it begins."""
        if not self.preload_is_plain or None in self.streams:
            return False
        head = b"".join(source.split(b"\n", 2)[:2])
        if b"coding" in head or any_of(word in source for word in WORDS):
            return False  # Another encoding hides words.
        if any_of(name.startswith(PREFIXES) and name not in HARMLESS for name in os.environ):
            return False
        # Not frozen with the rest: the gate makes another one for a program without input, when `__main__` has its names.
        for part in (sys.stdin, getattr(sys.stdin, "buffer", None), getattr(getattr(sys.stdin, "buffer", None), "raw", None)):
            self.own.append(part)
        self.pid = getpid()
        self.known = set_of(sys.modules)
        return True

    def at_exit(self):
        """A generator, because its first step leads into the `try`: an interrupt at the entry of a function would be told."""
        try:
            yield
            if self.completed and self.pid == getpid() and self.leaves_nothing():
                for stream in self.streams:
                    stream.flush()
                if self.is_awaited:
                    rest()
                _exit(0)
        except GeneratorExit:
            return  # The program forgot all atexit functions.
        except BaseException:
            pass
        try:
            # So that the collector finds at the end what it finds in a bare run, unless the program froze more itself.
            if count_frozen() <= self.frozen:
                unfreeze()
        except BaseException:
            pass
        yield

    def leaves_nothing(self):
        if count_threads() or get_trace() is not None or get_profile() is not None:
            return False
        out, err = self.streams
        if sys.stdout is not out or sys.stderr is not err or sys.__stdout__ is not out or sys.__stderr__ is not err:
            return False
        if out.closed or err.closed:
            return False
        modules = sys.modules
        if kind_of(modules) is not dict:
            return False
        for name in set_of(modules) - self.known:
            if not self.is_library(name, modules[name]):
                return False
        return not has_finalisers(self.own)

    def is_library(self, name, module):
        top = name.partition(".")[0]
        if kind_of(module) is not MODULE or top not in LIBRARIES and top not in PRELOADS:
            return False
        home = module.__dict__.get("__file__")
        if home is None:
            return name in sys.builtin_module_names
        return kind_of(home) is text_of and home.startswith(self.folders)


def rest():
    try:
        set_mask(SETMASK, AT_REST)
        close(1)
        close(2)
        sleep(REST_S)
    finally:
        _exit(0)


def has_finalisers(own):
    """Whether any object has one, but ours. Of a C type's, too: CPython shows them all as `__del__`."""
    objects = get_objects()
    if len(objects) > OBJECTS_MAX:
        return True
    kinds = [kind for kind in set_of(map_over(kind_of, objects)) - IN_MEMORY if has_finaliser(kind)]
    known = [kind for kind in kinds if any_of(kind is kind_of(part) for part in own)]
    if not kinds or kinds != known:
        return kinds != known
    for one in objects:
        if kind_of(one) in kinds and not any_of(one is part for part in own):
            return True
    return False


def has_finaliser(kind):
    return any_of("__del__" in names_of(base) for base in mro_of(kind))


def register():
    """To be called before anything else of the start could register: the first one runs last."""
    ending = Ending()
    steps = ending.at_exit()
    next(steps)
    # Where the program is watched, none of ours runs: down to the step all is C's own, and steps that hold themselves, frozen as
    # they are soon, are not closed either.
    ending.steps = steps
    atexit.register(any, map(steps.send, takewhile(bool, looks())))
    return ending
