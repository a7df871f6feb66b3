"""The interpreter that waits for the next program: a fork of the fork server for Python in a cell, otherwise
one with a start of its own.

    cell, python    fork server ──fork──> waiting ──take──> the program        the next fork is made when the run has ended
    else            start ──> waiting ──take──> the program                    in a cell, another one when the run has ended

In a cell it still waits while a program of another language runs. That program cannot reach a fork of the
server. It could reach any other interpreter, which is therefore killed before the program begins.
"""
import os
import select
import time

from . import gate, reap, spawn

ENTRIES = {"python": "main.py", "javascript": "main.js", "typescript": "main.ts"}
# How long a program waits for a starting interpreter, before it gets its own.
START_S = 20
# Time between two looks at a starting process. A fork takes a few milliseconds, an interpreter ten times
# that.
START_LOOK_MS = 100
# An empty message, which the gate answers with a newline.
ARE_YOU_THERE = bytes(4)


class WaitingInterpreter:
    def __init__(self, options, split, cwd, started_with_us=None):
        self.options = options
        self.split = split
        self.cwd = cwd
        # A Python forked from this process's own start (cofferdam_start); the first prepare() takes it.
        self.started_with_us = None if started_with_us is None else spawn.Child(*started_with_us)
        self.fork_server = None
        self.child = None
        self.version = None
        self.preloaded = set()
        self.failure = None
        # gVisor (release 20221219), which lacks the kernel's list of children, crashes with the fork server
        # (Go's exit code 2). There a cell starts a new interpreter after each run.
        self.has_forks = options.cell and os.path.exists("/proc/self/task/%d/children" % os.getpid())
        if self.has_forks:
            # Imported only here, because it would slow down every other agent's start.
            from . import fork_server

            self.fork_servers = fork_server

    # ---- which processes exist

    def pids(self):
        """Processes that are spared when everything else is killed. Called while nothing is starting."""
        if not self.options.cell:
            return set()
        found = [one for one in (self.fork_server, self.child) if one is not None]
        return {one.pid for one in found if one.pid is not None}

    def starting(self):
        """The pipe on which a starting process will say that it is ready; None when nothing starts."""
        if self.fork_server is not None and self.fork_server.mark is None:
            return self.fork_server.child.control_out
        if self.child is not None and not self.is_ready():
            return self.child.control_out
        return None

    def is_ready(self):
        return self.child is not None and self.child.unread.endswith(b"\n")

    # ---- starting

    def prepare(self, language):
        """Prepares the next interpreter; False if none can wait for this language."""
        if language not in ENTRIES:
            return False
        if self.child is not None:
            if self.child.language == language:
                return True
            self.drop()
        if self.has_forks and language == "python":
            if self.fork_server is not None and (self.fork_server.mark is None or not self.fork_server.is_fit()):
                self.drop_fork_server()
            if self.fork_server is None:
                self.fork_server = self.fork_servers.ForkServer(self.options, self.split, self.cwd)
            else:
                self.adopt(self.fork_server.fork(), "python")
        else:
            child, self.started_with_us = self.started_with_us, None
            child = child or self.start(language, ENTRIES[language], self.options.env, self.options.preload)
            self.adopt(child, language)
        return True

    def start(self, language, entry, env, preload=()):
        argv = gate.argv_of(language, entry, self.options)
        env = gate.environment_of(language, env, preload)
        return spawn.spawn(argv, env, self.cwd, self.options, self.split, True)

    def adopt(self, child, language):
        self.child = child
        child.language, child.entry = language, ENTRIES[language]
        child.is_fork, child.mark = False, None

    def on_message(self):
        """A starting process wrote or died. True if the interpreter waits, None if it failed, else False."""
        if self.fork_server is not None and self.fork_server.mark is None:
            if not self.fork_server.child.read_control():
                self.failure = self.fork_server.child.error()
                self.drop_fork_server()
                return None
            if self.fork_server.child.unread.endswith(b"\n"):
                self.fork_server.begin()
                self.adopt(self.fork_server.fork(), "python")
            return False
        if self.child is None:
            return False
        if not self.child.read_control():
            self.failure = self.child.error()
            self.drop()
            return None
        if self.is_ready():
            self.on_ready()
        return self.is_ready()

    def on_ready(self):
        child = self.child
        words = child.unread[1:-1].decode("utf-8", "replace").split(" ")
        self.version = words[0][:64]
        if child.language == "python":
            self.preloaded = set(words[2].split(",")) if len(words) > 2 and words[2] else set()
            if child.pid is None:
                child.pid = int(words[1])
                child.is_fork = True

    # ---- taking

    def wait_for_starting(self):
        """Waits until nothing is starting: a running program could reach a process that is not ready yet."""
        until = time.monotonic() + START_S
        while self.starting() is not None:
            poller = select.poll()
            poller.register(self.starting(), select.POLLIN)
            if not poller.poll(START_LOOK_MS):
                # The last program's SIGSTOP may take effect only now, after the fork server has passed the
                # check.
                server = self.fork_server
                is_stuck = server is not None and server.mark is not None and not server.is_fit()
                if time.monotonic() > until or is_stuck:
                    self.drop()
                    self.drop_fork_server()
                    return
                continue
            self.on_message()

    def is_exposed(self):
        """True if the waiting interpreter has the program's uid, so that killing that uid kills it too."""
        return self.child is not None and not self.child.is_fork

    def release(self):
        """Called when a program does not use the waiting interpreter. Drops it if the program can reach it.
        Takes the fingerprint of a fork that shares the program's uid.
        """
        if self.options.cell and self.is_exposed():
            self.drop()
        elif self.child is not None and self.child.is_fork and not self.split and self.child.mark is None:
            self.child.mark = self.fork_servers.fingerprint(self.child.pid)

    def take(self, run, env_of_run):
        """The waiting interpreter if the run behaves in it like in a fresh one; otherwise None."""
        child = self.child
        if child is None:
            return None
        is_untouched = self.is_untouched(child)
        fits = (
            (run.language, run.entry) == (child.language, child.entry)
            and self.is_ready()
            and gate.fits_waiting(run.language, env_of_run, self.options.env, self.options.preload)
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
        """True if no program ran beside `child`, or none changed it. With two uids no program can change it.
        """
        return child.mark is None or self.fork_servers.is_intact(child.pid, child.mark) and self.answers(child)

    def answers(self, child):
        """Asks `child` for an answer. An answer proves that it has obeyed every signal that earlier programs
        sent to it.
        """
        until = time.monotonic() + START_S
        poller = select.poll()
        poller.register(child.control_out, select.POLLIN)
        try:
            os.write(child.control_in, ARE_YOU_THERE)
            while not poller.poll(START_LOOK_MS):
                if time.monotonic() > until or not self.fork_servers.is_intact(child.pid, child.mark):
                    return False
            return os.read(child.control_out, spawn.CONTROL_MAX) == b"\n"
        except OSError:
            return False

    def is_shadowed(self):
        """True if a file of the program has the name of an imported module."""
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
            reap.kill(child.pid)
        child.close()

    def drop_fork_server(self):
        server, self.fork_server = self.fork_server, None
        if server is not None:
            server.end()

    def on_reaped(self, pid):
        """True if the process was the fork server or the waiting interpreter, and was ready."""
        if self.fork_server is not None and pid == self.fork_server.pid and self.fork_server.mark is not None:
            self.fork_server.close()
            self.fork_server = None
            return True
        if self.child is not None and pid == self.child.pid and self.is_ready():
            self.child.close()
            self.child = None
            return True
        return False
