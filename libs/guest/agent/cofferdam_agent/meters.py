"""What the kernel counted. With `--cgroup` the agent reads the cgroup that is mounted at /sys/fs/cgroup (a container's
own, v1 or v2) and takes counters minus their value at bind; else only rusage of the reaped children is known.
"""
import os
import resource

ROOT = "/sys/fs/cgroup"


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


def _number(path, scale=1):
    text = _text(path)
    try:
        return int(text) // scale if text is not None else None
    except ValueError:
        return None


def _field(path, name):
    for line in (_text(path) or "").splitlines():
        parts = line.split()
        if len(parts) == 2 and parts[0] == name and parts[1].isdigit():
            return int(parts[1])
    return None


class Meters:
    def __init__(self, use_cgroup):
        self.version = None
        if use_cgroup:
            if os.path.exists(ROOT + "/cgroup.controllers"):
                self.version = "v2"
            elif os.path.isdir(ROOT + "/memory"):
                self.version = "v1"

    def read(self):
        if self.version == "v2":
            return {
                "cpuUs": _field(ROOT + "/cpu.stat", "usage_usec"),
                "memPeak": _number(ROOT + "/memory.peak"),
                "oomKills": _field(ROOT + "/memory.events", "oom_kill"),
                "pidsPeak": _number(ROOT + "/pids.peak"),
                "pidsHit": _field(ROOT + "/pids.events", "max"),
            }
        if self.version == "v1":
            return {
                "cpuUs": _number(ROOT + "/cpuacct/cpuacct.usage", 1000),
                "memPeak": _number(ROOT + "/memory/memory.max_usage_in_bytes"),
                "oomKills": _field(ROOT + "/memory/memory.oom_control", "oom_kill"),
                "pidsPeak": None,
                "pidsHit": _field(ROOT + "/pids/pids.events", "max"),
            }
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return {
            "cpuUs": int((used.ru_utime + used.ru_stime) * 1e6),
            "memPeak": used.ru_maxrss * 1024,
            "oomKills": None,
            "pidsPeak": None,
            "pidsHit": None,
        }


def since(now, then):
    """Counters minus their value at bind; peaks as they are."""
    out = dict(now)
    for name in ("cpuUs", "oomKills", "pidsHit"):
        if now[name] is not None and then[name] is not None:
            out[name] = max(0, now[name] - then[name])
    return out


def cpu_us_of(pid):
    """CPU time of a live process, microseconds; 0 when /proc does not show it."""
    text = _text("/proc/%d/schedstat" % pid)
    try:
        return int(text.split()[0]) // 1000 if text else 0
    except (ValueError, IndexError):
        return 0
