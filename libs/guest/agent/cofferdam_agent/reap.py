"""Kills and reaps what a program left behind.

As PID 1 of a pid namespace, kill(-1) reaches everything and every orphan becomes our child, so "no child left" proves
that nothing is left. Elsewhere the agent is a child subreaper: it kills its children until none comes back; a killed
parent hands its own children to us, so the loop reaches every descendant. `confined` says that kill(-1) cannot leave
the sandbox (pid namespace, or Landlock's signal scope).
"""
import _signal as signal
import os
import time


def kill_others(kept, confined, kill_all, on_reaped, deadline_s=2.0):
    """Kills every descendant but `kept`, which have no children. True when proven gone, False when the deadline came first.

    `kill_all` is a kill(-1) that spares them, or None. The proof is the kernel's list of our children: it loses nobody but
    by our own wait, and a process hands its children to us before it can be waited for, so a reading with nobody
    but `kept` in it means that nobody else descends from us. Where it cannot be read, or a bomb outruns this and
    `confined` allows kill(-1), `kept` goes too.
    """
    end = time.monotonic() + deadline_s
    sacrifice = time.monotonic() + 0.2
    pause = 0.0002
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
                _signal(pid)
        if time.monotonic() > end:
            return False
        time.sleep(pause)
        pause = min(pause * 2, 0.02)


def _other_children(kept, is_shrinking):
    try:
        with open("/proc/self/task/%d/children" % os.getpid()) as listing:
            return [pid for pid in map(int, listing.read().split()) if pid not in kept]
    except (OSError, ValueError):
        # gVisor has no such list. A scan of /proc misses nobody where nobody new can come: all that is left is dying.
        return [pid for pid in _children() if pid not in kept] if is_shrinking else None


def kill_leftovers(confined, on_reaped, deadline_s=2.0):
    """Kills every descendant and waits for them. True when proven gone, False when the deadline came first."""
    end = time.monotonic() + deadline_s
    pause = 0.0005
    while True:
        if confined:
            _signal(-1)
        else:
            for pid in _children():
                _signal(pid)
        gone = reap(on_reaped)
        if gone:
            return True
        if time.monotonic() > end:
            return False
        time.sleep(pause)
        pause = min(pause * 2, 0.02)


def reap(on_reaped):
    """Collects every dead child; True when there is no child at all."""
    while True:
        try:
            pid, status, used = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            return False
        on_reaped(pid, status, used)


def _signal(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass


def _children():
    try:
        with open("/proc/self/task/%d/children" % os.getpid()) as listing:
            return [int(pid) for pid in listing.read().split()]
    except (OSError, ValueError):
        pass
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
