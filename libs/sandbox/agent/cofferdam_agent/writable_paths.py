"""Folders that a program can write to: the work directory, and the folders of HOME and TMPDIR if they are
beside it. In a sandbox with its own mounts also every writable tmpfs, ramfs and message queue file system,
and the folders between such a mount and the work directory.
"""
import os

_OWN_MOUNTS = ("tmpfs", "ramfs", "mqueue")


def writable_paths(options, work, owns_mounts):
    paths = [work]
    if owns_mounts:
        own = [path for path in _own_mounts() if _is_programs(path)]
        paths += own + [path for path in _above(work) if any(path.startswith(root + "/") for root in own)]
    beside = os.path.dirname(work).rstrip("/") + "/"
    for name in ("HOME", "TMPDIR"):
        path = options.env.get(name, "")
        if path.startswith(beside) and os.path.isdir(path):
            paths.append(path)
    return sorted(set(os.path.normpath(path) for path in paths))


def _above(path):
    while path not in ("/", ""):
        path = os.path.dirname(path)
        yield path


def _is_programs(path):
    """Excludes /dev, whose devices are on a tmpfs, and tmpfs mounts that mask parts of /proc and /sys."""
    return path != "/dev" and not path.startswith(("/proc", "/sys")) and os.path.isdir(path) and is_writable(path)


def is_writable(path):
    """Tests by creating a file, while this process has the program's file IDs."""
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
    # There is no /proc, because in a container with a masked /proc the kernel refuses to mount another one.
    # Such a jail has its own file systems at /tmp and /dev/shm.
    folders = ["/" + name for name in os.listdir("/")]
    below = [os.path.join(path, name) for path in folders for name in _names(path)]
    return [path for path in folders + below if os.path.ismount(path)]


def _names(path):
    try:
        return os.listdir(path)
    except OSError:
        return []


def _mounts():
    """(mount point, type, root in its file system) of every mount. Of several at one mount point, the topmost
    comes last."""
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
    """False for a bind mount of a folder of another tmpfs, whose root is not /."""
    mount = _mount_of(path)
    return mount[1] in _OWN_MOUNTS and mount[2] == "/"
