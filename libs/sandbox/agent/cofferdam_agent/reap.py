"""Kills and reaps what a program left behind.

As PID 1 of a pid namespace, kill(-1) reaches everything and every orphan becomes our child, so "no child
left" proves that nothing is left. Elsewhere the agent is a child subreaper: a killed parent's children become
ours, so killing our children until none is left reaches every descendant. `confined` means that kill(-1)
cannot leave the sandbox (pid namespace, or Landlock's signal scope).
"""
import _signal as signal
import os
import time

from . import linux

# gVisor lacks this list, and may not make every orphan our child. So kill there before waiting.
LISTS_CHILDREN = os.path.exists("/proc/self/task/%d/children" % os.getpid())


def kill_others(kept, confined, kill_all, on_reaped, deadline_s):
    """Kills every descendant except `kept`, which have no children. True if all are proven gone by the
    deadline.

    `kill_all` is a kill(-1) that spares `kept`, or None. The proof is the kernel's list of our children. A
    process leaves it only when we wait for it, and before that its children become ours. So if the list holds
    only `kept`, no other descendant exists. If the list cannot be read, or a fork bomb outruns this and
    `confined` allows kill(-1), `kept` is killed too.
    """
    end = time.monotonic() + deadline_s
    sacrifice = time.monotonic() + 0.2
    pause = 0.0002
    # Most programs leave no process, which the list proves at once.
    if reap(on_reaped) and LISTS_CHILDREN or _other_children(kept, False) == []:
        return True
    while True:
        if kill_all is not None:
            kill_all()
        if reap(on_reaped):
            return True
        others = _other_children(kept, kill_all is not None)
        if others is not None and not others:
            return True
        if others is None or time.monotonic() > sacrifice and confined:
            return kill_leftovers(confined, on_reaped, deadline_s)
        if kill_all is None:
            for pid in others:
                kill(pid)
        if time.monotonic() > end:
            return False
        time.sleep(pause)
        pause = min(pause * 2, 0.02)


def _other_children(kept, is_shrinking):
    listed = _listed_children()
    if listed is None and is_shrinking:
        # gVisor has no such list. A scan of /proc is complete here, because all that is left is dying.
        listed = _children()
    return None if listed is None else [pid for pid in listed if pid not in kept]


def kill_leftovers(confined, on_reaped, deadline_s=2.0):
    """Kills every descendant and waits for them. True if all are proven gone by the deadline."""
    end = time.monotonic() + deadline_s
    pause = 0.0005
    if reap(on_reaped) and LISTS_CHILDREN:
        return True
    while True:
        if confined:
            kill(-1)
        else:
            for pid in _children():
                kill(pid)
        gone = reap(on_reaped)
        if gone:
            return True
        if time.monotonic() > end:
            return False
        time.sleep(pause)
        pause = min(pause * 2, 0.02)


def reap(on_reaped):
    """Collects every dead child; True if there is no child at all."""
    while True:
        try:
            pid, status, used = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            return False
        if os.WIFSTOPPED(status):
            linux.stop_tracing(pid, os.WSTOPSIG(status))
            continue
        on_reaped(pid, status, used)


def kill_group(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass


def open_wake():
    """A descriptor that becomes readable when a child has ended."""
    wake, wake_write = os.pipe()
    for fd in (wake, wake_write):
        os.set_blocking(fd, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    return wake


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass


def _listed_children():
    """The kernel's list of our children; None without one. Read in large pieces, because each read walks the
    list."""
    try:
        fd = os.open("/proc/self/task/%d/children" % os.getpid(), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    parts = []
    try:
        while not parts or parts[-1]:
            parts.append(os.read(fd, 65536))
        return [int(pid) for pid in b"".join(parts).split()]
    except (OSError, ValueError):
        return None
    finally:
        os.close(fd)


def _children():
    listed = _listed_children()
    if listed is not None:
        return listed
    me, found = os.getpid(), []
    try:
        names = os.listdir("/proc")
    except OSError:
        return found
    for name in names:
        if not name.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % name, "rb") as line:
                if int(line.read().rpartition(b")")[2].split()[1]) == me:
                    found.append(int(name))
        except (OSError, ValueError, IndexError):
            continue
    return found
