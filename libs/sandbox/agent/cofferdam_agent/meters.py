"""Kernel counters of one program, from bind to its end. Null means that nothing counted the value.

    cpuUs, memPeak,      with `--cgroup`: of the cgroup at /sys/fs/cgroup, the sandbox's own (v1 or v2);
    oomKills, pidsHit,   otherwise cpuUs and memPeak by rusage of the reaped children, the rest null
    pidsPeak
    readBytes,           rchar and wchar: bytes of read(2), write(2) and similar calls, cached or not, on
    writeBytes           files and pipes, but not of mmap, send(2), recv(2). Block devices (io.stat, blkio)
                         would show almost nothing: work directories are tmpfs, the rest is page cache
    diskBytes            growth of the work directory's own file system (`--own-disk`) from bind to end

When a parent waits for a child, the kernel adds the child's I/O to the parent's (wait_task_zombie). So the
I/O of all reaped processes is the I/O of the agent's process minus that of its only thread. This needs no
rights over other uids and includes killed processes. It misses children of a parent that ignores SIGCHLD.
gVisor keeps no such sum, so the value is null there.
"""
import os
import resource
import time

ROOT = "/sys/fs/cgroup"
_SUMS = ("cpuUs", "oomKills", "pidsHit", "readBytes", "writeBytes", "diskBytes")


def _text(path):
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(fd, 65536).decode("ascii", "replace")
    except OSError:
        return None
    finally:
        os.close(fd)


class _Files:
    """Counter files, each opened once and read for each program. A file that is missing at the first read is
    not tried again."""

    def __init__(self):
        self._fds = {}

    def text(self, path):
        if path not in self._fds:
            try:
                self._fds[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                self._fds[path] = None
        fd = self._fds[path]
        try:
            return None if fd is None else os.pread(fd, 65536, 0).decode("ascii", "replace")
        except OSError:
            return None

    def number(self, path, scale=1):
        text = self.text(path)
        try:
            return int(text) // scale if text is not None else None
        except ValueError:
            return None

    def field(self, path, name):
        for line in (self.text(path) or "").splitlines():
            parts = line.split()
            if len(parts) == 2 and parts[0] == name and parts[1].isdigit():
                return int(parts[1])
        return None


def _io_fields(text):
    found = {}
    for line in (text or "").splitlines():
        name, _, value = line.partition(":")
        if value.strip().isdigit():
            found[name] = int(value)
    return (found["rchar"], found["wchar"]) if "rchar" in found and "wchar" in found else None


def _io_of(pid):
    return _io_fields(_text("/proc/%d/io" % pid))


class _ReapedIo:
    """I/O of reaped children. Keeps its files open, because the agent may not open them again later."""

    def __init__(self):
        self._fds = []
        # The first file counts only the thread itself. The second also counts reaped children. The agent has
        # no other thread.
        for path in ("/proc/self/task/%d/io" % os.getpid(), "/proc/self/io"):
            try:
                self._fds.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
            except OSError:
                return

    def read(self):
        try:
            # Read the thread's file first: the process's count then includes that read, so the result is a
            # little too high, never negative. The difference of two results cancels it out.
            thread, process = [_io_fields(os.pread(fd, 4096, 0).decode("ascii", "replace")) for fd in self._fds]
        except (OSError, ValueError):
            return None
        return None if process is None or thread is None else [max(0, a - b) for a, b in zip(process, thread)]


class Meters:
    def __init__(self, use_cgroup, root=ROOT):
        self.root = root
        self.version = None
        self.used_bytes = None
        self.runs = 0
        self._io = _ReapedIo()
        self._files = _Files()
        if use_cgroup:
            if os.path.exists(root + "/cgroup.controllers"):
                self.version = "v2"
            elif os.path.isdir(root + "/memory"):
                self.version = "v1"

    def read(self):
        seen = self._controllers()
        io = self._io.read()
        seen["readBytes"], seen["writeBytes"] = (None, None) if io is None else io
        seen["diskBytes"] = None if self.used_bytes is None else self.used_bytes()
        return seen

    def _controllers(self):
        root, _number, _field = self.root, self._files.number, self._files.field
        if self.version == "v2":
            return {
                "cpuUs": _field(root + "/cpu.stat", "usage_usec"),
                # The peaks need a newer kernel than the rest (memory.peak: Linux 5.19).
                "memPeak": _number(root + "/memory.peak"),
                "oomKills": _field(root + "/memory.events", "oom_kill"),
                "pidsPeak": _number(root + "/pids.peak"),
                "pidsHit": _field(root + "/pids.events", "max"),
            }
        if self.version == "v1":
            # The hierarchy is called cpu,cpuacct. The short name is a link that some hosts lack.
            cpu = [_number(root + "/%s/cpuacct.usage" % name, 1000) for name in ("cpuacct", "cpu,cpuacct")]
            return {
                "cpuUs": next((value for value in cpu if value is not None), None),
                "memPeak": _number(root + "/memory/memory.max_usage_in_bytes"),
                "oomKills": _field(root + "/memory/memory.oom_control", "oom_kill"),
                "pidsPeak": _number(root + "/pids/pids.peak"),
                "pidsHit": _field(root + "/pids/pids.events", "max"),
            }
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return {
            "cpuUs": int((used.ru_utime + used.ru_stime) * 1e6),
            "memPeak": used.ru_maxrss * 1024,
            "oomKills": None,
            "pidsPeak": None,
            "pidsHit": None,
        }

    def bind(self):
        """Returns the counters at the start of a program."""
        self.runs += 1
        return self.read()

    def exclude(self, at_bind, pid, is_fork):
        """Excludes what the waiting interpreter used before its program began. The kernel adds it to the sums
        when the interpreter ends.
        """
        if self.version is None:
            at_bind["cpuUs"] += cpu_us_of(pid)
        # In a cell, the agent cannot read the I/O of a waiting fork. A fork's counters start at zero.
        used = _io_of(pid) or ((0, 0) if is_fork else None)
        for at, name in enumerate(("readBytes", "writeBytes")):
            at_bind[name] = None if used is None or at_bind[name] is None else at_bind[name] + used[at]

    def since(self, at_bind, live_pid=None):
        """Counters since bind, and peaks as they are. `live_pid`: a running program whose use is added."""
        seen = self.read()
        if live_pid is not None:
            if self.version is None:
                seen["cpuUs"] += cpu_us_of(live_pid)
            used = _io_of(live_pid)
            for at, name in enumerate(("readBytes", "writeBytes")):
                seen[name] = None if used is None or seen[name] is None else seen[name] + used[at]
        return since(seen, at_bind, self.runs > 1)


def since(now, then, is_reused=False):
    """In a sandbox with earlier runs, a peak that did not rise is theirs and says nothing about this run."""
    out = dict(now)
    for name in _SUMS:
        if now[name] is not None:
            out[name] = None if then[name] is None else max(0, now[name] - then[name])
    if not out["readBytes"] and not out["writeBytes"]:
        # Every program reads something at its start, so 0 means that the kernel does not count (gVisor).
        out["readBytes"] = out["writeBytes"] = None
    for name in ("memPeak", "pidsPeak"):
        if is_reused and now[name] == then[name]:
            out[name] = None
    return out


def cpu_us_of(pid):
    """CPU time of a live process in microseconds, with its ended threads; 0 if the kernel does not tell."""
    try:
        # The scheduler's clock of a process, numbered as in clock_getcpuclockid(3); Python has it for threads
        # only.
        return time.clock_gettime_ns(~pid << 3 | 2) // 1000
    except OSError:
        return 0


def peak_kb_of(pid):
    """Peak resident size of a live process in KiB; 0 if /proc does not show it."""
    for line in (_text("/proc/%d/status" % pid) or "").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return 0
