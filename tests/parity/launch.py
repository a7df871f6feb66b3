"""Runs one program as if a person typed it in an empty folder, with nothing of this product around it.

Started as PID 1 of a throw-away sandbox with JSON on stdin: entry, source, argv, env, stdin (text or null), rlimits.
After the program and all that it left are gone, the last line on stderr is MARK and the wait status.
"""
import json
import os
import resource
import select
import signal
import sys

MARK = b"\n\0wait status "


def start(job, outputs):
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
    os.dup2(outputs[0], 1)
    os.dup2(outputs[1], 2)
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


def run_to_end(main, sources):
    """Copies the output until all processes are gone. Starts no thread, because that would take a process id.

    The program writes to pipes, as in `... | cat`. Our own output may be something else, such as a socket.
    """
    wake, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_write)
    poller = select.poll()
    for fd in (wake, *sources):
        poller.register(fd, select.POLLIN)
    status = None
    reaped = reap()
    while True:
        for pid, found in reaped:
            if pid == main:
                status = found
                # As PID 1 this kills everything in the sandbox, but not the caller.
                try:
                    os.kill(-1, signal.SIGKILL)
                except OSError:
                    pass
        if status is not None and not sources:
            return status
        for fd, _ in poller.poll():
            data = os.read(fd, 65536)
            if fd == wake:
                continue
            write(sources[fd], data)
            if not data:
                poller.unregister(fd)
                del sources[fd]
        reaped = reap()


def reap():
    found = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        found.append((pid, status))


def write(target, data):
    while data:
        data = data[os.write(target, data) :]


if os.getpid() != 1:
    raise SystemExit("only as PID 1: it kills everything that it sees")
task = json.load(sys.stdin.buffer)
os.makedirs("/tmp/work", exist_ok=True)
os.chdir("/tmp/work")
with open(task["entry"], "wb") as out:
    out.write(task["source"].encode())
pipes = [os.pipe(), os.pipe()]
main = start(task, [write_end for _, write_end in pipes])
for _, write_end in pipes:
    os.close(write_end)
status = run_to_end(main, {read_end: target for target, (read_end, _) in enumerate(pipes, 1)})
write(2, MARK + b"%d\n" % status)
