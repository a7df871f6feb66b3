"""What the kernel counted, from bind to the end of a program. Null is what nobody counted.

    cpuUs, memPeak,      with `--cgroup`: of the cgroup at /sys/fs/cgroup, which is the sandbox's own (v1 or v2);
    oomKills, pidsHit,   else cpuUs and memPeak by rusage of the reaped children, the rest null
    pidsPeak
    readBytes,           rchar and wchar: bytes that passed read(2), write(2) and their kin, files and pipes alike, cached
    writeBytes           or not; not what mmap moved, nor send(2) and recv(2). Block devices (io.stat, blkio) would show
                         next to nothing here: work directories are tmpfs, and the rest is the page cache of the host
    diskBytes            what was taken on the work directory's own file system (`--own-disk`) and is left at the end

The kernel adds the I/O of a child to its parent's when that one waits for it (wait_task_zombie), so the I/O
of everything that the agent has reaped is what its process has beyond what its only thread did. That needs no
rights over other uids and misses nothing that was killed; it does miss children of a parent that ignores
SIGCHLD, and everything in gVisor, which keeps no such sum: there it is null.
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
    """Counters that are read for each program: opened once. What is missing at first stays so."""

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
    """I/O of the children that were waited for. Open files, because the agent may not open them again later.
    """

    def __init__(self):
        self._fds = []
        # Only the first thread's own file tells it apart from the process; the agent has no other.
        for path in ("/proc/self/task/%d/io" % os.getpid(), "/proc/self/io"):
            try:
                self._fds.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
            except OSError:
                return

    def read(self):
        try:
            # The thread first: reading its file then counts for the process alike each time, and subtracts
            # itself.
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
                # The peaks are younger (memory.peak: Linux 5.19) than the rest.
                "memPeak": _number(root + "/memory.peak"),
                "oomKills": _field(root + "/memory.events", "oom_kill"),
                "pidsPeak": _number(root + "/pids.peak"),
                "pidsHit": _field(root + "/pids.events", "max"),
            }
        if self.version == "v1":
            # The hierarchy is called cpu,cpuacct; the short name is a link that not every host has.
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
        """Counters as a program begins."""
        self.runs += 1
        return self.read()

    def exclude(self, at_bind, pid, is_fork):
        """Takes out what the waiting interpreter used while it started, which the kernel adds up when it
        ends.
        """
        if self.version is None:
            at_bind["cpuUs"] += cpu_us_of(pid)
        # A fork begins at zero, and a cell's is hidden until it is the program's.
        used = _io_of(pid) or ((0, 0) if is_fork else None)
        for at, name in enumerate(("readBytes", "writeBytes")):
            at_bind[name] = None if used is None or at_bind[name] is None else at_bind[name] + used[at]

    def since(self, at_bind, live_pid=None):
        """Counters minus their value at bind, peaks as they are. `live_pid`: the program still runs, add what
        it has.
        """
        seen = self.read()
        if live_pid is not None:
            if self.version is None:
                seen["cpuUs"] += cpu_us_of(live_pid)
            used = _io_of(live_pid)
            for at, name in enumerate(("readBytes", "writeBytes")):
                seen[name] = None if used is None or seen[name] is None else seen[name] + used[at]
        return since(seen, at_bind, self.runs > 1)


def since(now, then, is_reused=False):
    """Of a sandbox that had other runs, a peak that did not rise is theirs: it says nothing of this one."""
    out = dict(now)
    for name in _SUMS:
        if now[name] is not None:
            out[name] = None if then[name] is None else max(0, now[name] - then[name])
    if not out["readBytes"] and not out["writeBytes"]:
        # No program starts without reading something: a kernel that does not add up (gVisor).
        out["readBytes"] = out["writeBytes"] = None
    for name in ("memPeak", "pidsPeak"):
        if is_reused and now[name] == then[name]:
            out[name] = None
    return out


def cpu_us_of(pid):
    """CPU time of a live process, microseconds, with its threads that have ended; 0 where the kernel does not
    tell.
    """
    try:
        # The scheduler's clock of a process, as clock_getcpuclockid(3) makes its number, which Python has for
        # threads only.
        return time.clock_gettime_ns(~pid << 3 | 2) // 1000
    except OSError:
        return 0


def peak_kb_of(pid):
    """Largest resident size of a live process so far, KiB; 0 when /proc does not show it."""
    for line in (_text("/proc/%d/status" % pid) or "").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return 0
