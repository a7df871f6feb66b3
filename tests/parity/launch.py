"""Runs one program bare: what a person types in an empty folder, and nothing of ours around it.

Started as PID 1 of a throw-away sandbox with JSON on stdin: entry, source, argv, env, stdin (text or null), rlimits.
After the program and all that it left are gone, the last line on stderr is MARK and the wait status.
"""
import json
import os
import resource
import signal
import sys
import time

MARK = b"\n\0wait status "


def start(job):
    if job["stdin"] is None:
        stdin = os.open(os.devnull, os.O_RDONLY)
        feed = None
    else:
        stdin, feed = os.pipe()
    pid = os.fork()
    if pid:
        os.close(stdin)
        if feed is not None and os.fork() == 0:
            try:
                os.write(feed, job["stdin"].encode())
            finally:
                os._exit(0)
        if feed is not None:
            os.close(feed)
        return pid
    os.setsid()
    os.dup2(stdin, 0)
    os.closerange(3, 4096)
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError):
            pass
    for name, value in job["rlimits"].items():
        resource.setrlimit(getattr(resource, "RLIMIT_" + name.upper()), (value, value))
    os.umask(0o022)
    os.execvpe(job["argv"][0], job["argv"], job["env"])


def end(main):
    status = None
    while True:
        try:
            pid, found = os.wait()
        except ChildProcessError:
            return status
        if pid == main:
            status = found
            # PID 1: this reaches everything in the sandbox and not the caller.
            try:
                os.kill(-1, signal.SIGKILL)
            except OSError:
                pass


def say(status):
    rest = MARK + b"%d\n" % status
    while rest:
        try:
            rest = rest[os.write(2, rest) :]
        except BlockingIOError:
            # The program left the pipe in non-blocking mode.
            time.sleep(0.01)


if os.getpid() != 1:
    raise SystemExit("only as PID 1: it kills everything that it sees")
task = json.load(sys.stdin.buffer)
os.makedirs("/tmp/work", exist_ok=True)
os.chdir("/tmp/work")
with open(task["entry"], "wb") as out:
    out.write(task["source"].encode())
say(end(start(task)))
