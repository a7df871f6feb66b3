"""Where a program can write: the work directory and, where the sandbox has mounts of its own, every writable tmpfs and message queue
file system; elsewhere the folders of HOME and TMPDIR beside the work directory.
"""
import os

_OWN_MOUNTS = ("tmpfs", "ramfs", "mqueue")


def places(options, work, owns_mounts):
    places = [work]
    if owns_mounts:
        own = [path for path in _own_mounts() if _is_programs(path)]
        places += own + [path for path in _above(work) if any(path.startswith(root + "/") for root in own)]
    beside = os.path.dirname(work).rstrip("/") + "/"
    for name in ("HOME", "TMPDIR"):
        path = options.env.get(name, "")
        if path.startswith(beside) and os.path.isdir(path):
            places.append(path)
    return sorted(set(os.path.normpath(path) for path in places))


def _above(path):
    while path not in ("/", ""):
        path = os.path.dirname(path)
        yield path


def _is_programs(path):
    """/dev has its devices on a tmpfs; /proc and /sys are covered by some."""
    return path != "/dev" and not path.startswith(("/proc", "/sys")) and os.path.isdir(path) and is_writable(path)


def is_writable(path):
    """Asked by doing it: the file system's ids are the program's."""
    probe = os.path.join(path, ".cofferdam-%d" % os.getpid())
    try:
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.unlink(probe)
        return True
    except OSError:
        return False


def _own_mounts():
    listed = _mounts()
    if listed:
        return [where for where, kind, _ in listed if kind in _OWN_MOUNTS]
    # No /proc (a container whose masked one lets no other be mounted). A jail's own file systems stand at /tmp and /dev/shm.
    folders = ["/" + name for name in os.listdir("/")]
    below = [os.path.join(path, name) for path in folders for name in _names(path)]
    return [path for path in folders + below if os.path.ismount(path)]


def _names(path):
    try:
        return os.listdir(path)
    except OSError:
        return []


def _mounts():
    """(where, type, root in its file system) of every mount, the topmost of each place last."""
    found = []
    try:
        with open("/proc/self/mountinfo", "rb") as listing:
            for line in listing:
                before, _, after = line.partition(b" - ")
                root, where = before.split()[3:5]
                where = os.fsdecode(where.replace(b"\\040", b" "))
                found.append((where, os.fsdecode(after.split()[0]), os.fsdecode(root)))
    except (OSError, IndexError, ValueError):
        pass
    return found


def _mount_of(path):
    best = ("", None, None)
    for mount in _mounts():
        where = mount[0]
        if (path == where or path.startswith(where.rstrip("/") + "/")) and len(where) >= len(best[0]):
            best = mount
    return best


def is_on_own_mount(path):
    """A folder of another's tmpfs, bound in, has that folder as its root."""
    mount = _mount_of(path)
    return mount[1] in _OWN_MOUNTS and mount[2] == "/"
