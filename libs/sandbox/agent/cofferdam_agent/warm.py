"""What waits for the next program: nothing, an interpreter of its own (single use, and Node), or a fork of the fork server.

    cell, python    fork server ──fork──> waiting ──take──> the program        the next fork is made when the run has ended
    else            start ──> waiting ──take──> the program                    in a cell, another one when the run has ended

In a cell what waits is still there while a program of another language runs. A fork of the server is out of its reach; an
interpreter of another kind would not be, so it is killed when another program begins.
"""
import _signal as signal
import os
import select
import time

from . import spawn

ENTRIES = {"python": "main.py", "javascript": "main.js", "typescript": "main.ts"}
TOLD_MAX = 64 * 1024
# What a program waits at most for an interpreter that is still starting; after that it gets one of its own.
SETTLE_S = 20
# A fork takes a few milliseconds, an interpreter ten times that.
SETTLE_LOOK_MS = 100
# A message of no bytes, to which the gate says a line end.
ARE_YOU_THERE = bytes(4)


class Warm:
    def __init__(self, options, split, cwd, begun=None):
        self.options = options
        self.split = split
        self.cwd = cwd
        # A Python that was forked from this process's own start, for the language that is prepared first.
        self.begun = None if begun is None else spawn.Child(*begun)
        self.zygote = None
        self.child = None
        self.version = None
        self.preloaded = set()
        self.failure = None
        # gVisor (release 20221219) dies of the fork server, with Go's exit code 2; it also lacks this list. There a cell starts an
        # interpreter after each run.
        self.has_forks = options.cell and os.path.exists("/proc/self/task/%d/children" % os.getpid())
        if self.has_forks:
            # Only here: what it imports would make the start of every other agent longer.
            from . import zygote

            self.zygotes = zygote

    # ---- what is there

    def pids(self):
        """Processes that stay when everything else is killed. Nothing is starting when this is asked."""
        found = set()
        if not self.options.cell:
            return found
        if self.zygote is not None:
            found.add(self.zygote.pid)
        if self.child is not None and self.child.pid is not None:
            found.add(self.child.pid)
        return found

    def pending(self):
        """The pipe on which something that starts will say that it is ready."""
        if self.zygote is not None and self.zygote.mark is None:
            return self.zygote.child.control_out
        if self.child is not None and not self.is_ready():
            return self.child.control_out
        return None

    def is_ready(self):
        return self.child is not None and self.child.told.endswith(b"\n")

    # ---- starting

    def prepare(self, language):
        """Makes the next one wait; False when this language has none."""
        if language not in ENTRIES:
            return False
        if self.child is not None:
            if self.child.language == language:
                return True
            self.drop()
        if self.has_forks and language == "python":
            if self.zygote is not None and (self.zygote.mark is None or not self.zygote.is_fit()):
                self.drop_zygote()
            if self.zygote is None:
                self.zygote = self.zygotes.Zygote(self.options, self.split, self.cwd)
                self.zygote.child.told = b""
            else:
                self.fork()
        else:
            begun, self.begun = self.begun, None
            self.adopt(begun or self.start(language, ENTRIES[language], self.options.env, self.options.preload), language)
        return True

    def start(self, language, entry, env, preload=()):
        argv = spawn.interpreter_argv(language, entry, self.options)
        env = spawn.gate_env(language, env, preload)
        return spawn.spawn(argv, env, self.cwd, self.options, self.split, True)

    def fork(self):
        self.adopt(self.zygote.fork(), "python")

    def adopt(self, child, language):
        self.child = child
        child.language, child.entry, child.told = language, ENTRIES[language], b""
        child.is_fork, child.mark = False, None

    def on_told(self):
        """Something that starts said a word, or died. True when what waits is ready, None when it failed, else False."""
        if self.zygote is not None and self.zygote.mark is None:
            if self.read(self.zygote.child) is None:
                self.failure = self.words_of(self.zygote.child)
                self.drop_zygote()
                return None
            if self.zygote.child.told.endswith(b"\n"):
                self.zygote.begin()
                self.fork()
            return False
        if self.child is None:
            return False
        if self.read(self.child) is None:
            self.failure = self.words_of(self.child)
            self.drop()
            return None
        if not self.is_ready():
            return False
        self.on_ready()
        return True

    def read(self, child):
        try:
            told = os.read(child.control_out, TOLD_MAX)
        except BlockingIOError:
            return b""
        except OSError:
            told = b""
        child.told += told
        return told if told and len(child.told) <= TOLD_MAX else None

    def words_of(self, child):
        try:
            return os.read(child.stderr, TOLD_MAX).decode("utf-8", "replace")[-2000:]
        except OSError:
            return ""

    def on_ready(self):
        child = self.child
        words = child.told[1:-1].decode("utf-8", "replace").split(" ")
        self.version = words[0][:64]
        if child.language == "python":
            self.preloaded = set(words[2].split(",")) if len(words) > 2 and words[2] else set()
            if child.pid is None:
                child.pid = int(words[1])
                child.is_fork = True

    # ---- taking

    def settle(self):
        """Nothing may be starting while a program runs: a process that is not ready yet is not out of its reach."""
        until = time.monotonic() + SETTLE_S
        while self.pending() is not None:
            poller = select.poll()
            poller.register(self.pending(), select.POLLIN)
            if not poller.poll(SETTLE_LOOK_MS):
                if time.monotonic() > until or self.is_stuck():
                    self.drop()
                    self.drop_zygote()
                    return
                continue
            self.on_told()

    def is_stuck(self):
        """A stop that a program sent just before its end may be acted upon after the fork server was found fit."""
        return self.zygote is not None and self.zygote.mark is not None and not self.zygote.is_fit()

    def is_exposed(self):
        """What waits has the program's uid already: a kill of all that have it would take it too."""
        return self.child is not None and not self.child.is_fork

    def release(self):
        """A program that takes none begins: what it could reach goes, and what stays is looked at before and after."""
        if self.options.cell and self.is_exposed():
            self.drop()
        elif self.child is not None and self.child.is_fork and not self.split and self.child.mark is None:
            self.child.mark = self.zygotes.fingerprint(self.child.pid)

    def take(self, run, env_of_run):
        """The waiting interpreter, when a run in it is the same as in one of its own; else None."""
        child = self.child
        if child is None:
            return None
        is_untouched = self.is_untouched(child)
        fits = (
            run.language == child.language
            and run.entry == child.entry
            and self.is_ready()
            and spawn.fits_waiting(run.language, env_of_run, self.options.env, self.options.preload)
            and not self.is_shadowed()
            and is_untouched
        )
        if fits:
            self.child = None
            return child
        if not child.is_fork or not is_untouched:
            self.drop()
        self.release()
        return None

    def is_untouched(self, child):
        """With two uids nobody can change it, and no program that ran beside it means none that could have."""
        return child.mark is None or self.zygotes.is_intact(child.pid, child.mark) and self.answers(child)

    def answers(self, child):
        """A signal that a program sent before its end is acted upon when the busy host runs `child` again: who answers has done so."""
        until = time.monotonic() + SETTLE_S
        poller = select.poll()
        poller.register(child.control_out, select.POLLIN)
        try:
            os.write(child.control_in, ARE_YOU_THERE)
            while not poller.poll(SETTLE_LOOK_MS):
                if time.monotonic() > until or not self.zygotes.is_intact(child.pid, child.mark):
                    return False
            return os.read(child.control_out, TOLD_MAX) == b"\n"
        except OSError:
            return False

    def is_shadowed(self):
        """True when a file of the program has the name of a module that is imported already."""
        if not self.preloaded:
            return False
        if "*" in self.preloaded:
            return True
        try:
            return any(name.partition(".")[0] in self.preloaded for name in os.listdir(self.cwd))
        except OSError:
            return True

    # ---- ending

    def drop(self):
        child, self.child = self.child, None
        if child is None:
            return
        if child.pid is not None:
            _kill(child.pid)
        child.close()

    def drop_zygote(self):
        zygote, self.zygote = self.zygote, None
        if zygote is not None:
            zygote.end()

    def on_reaped(self, pid):
        """True when it was one of ours."""
        if self.zygote is not None and pid == self.zygote.pid and self.zygote.mark is not None:
            self.zygote.close()
            self.zygote = None
            return True
        if self.child is not None and pid == self.child.pid and self.is_ready():
            self.child.close()
            self.child = None
            return True
        return False


def _kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass
