"""Starts the first process of jails, so that the worker never forks: `python3 -I -S starter.py FILES PATH…`.

fork(2) copies the caller's page tables. That blocked a worker of 150 MiB for 8 ms per sandbox; this process
of 8 MiB takes 0.4 ms.

Requests come on stdin: u32 LE length, then fields separated by NUL. They are `kill` and a channel, or
`start`, channel, uid, gid (-1: this process's), filter (a file for fd 4, or nothing), number of arguments,
arguments, environment. The channel is a socket of the worker (fd 3 and up here) and becomes stdin and stdout
of the started process. Answers go to stdout, one line each:

   started CHANNEL PID     failed CHANNEL TEXT     ended CHANNEL CODE SIGNAL (-1: none)
   info CHANNEL TEXT       a line that the process wrote on its fd 3
   said CHANNEL HEX        bytes of its stderr

A started process may open FILES files. With PATHs, this process unmounts for itself every mount that has
none of them, if it may do that. It ends when its stdin ends. Started processes that asked for it then get
a signal from the kernel, because their parent dies.
"""
import _signal as signal
import fcntl
import os
import resource
import select
import sys

# Output on stderr or fd 3 beyond this is read and dropped. The worker keeps the first 4 KiB of stderr.
TOLD_MAX = 64 * 1024
BASE = 3
CLONE_NEWNS, MS_REC, MS_PRIVATE, MNT_DETACH = 0x20000, 0x4000, 1 << 18, 2


class Started:
    def __init__(self, channel, pid):
        self.channel = channel
        self.pid = pid
        self.open = 0
        self.status = None
        self.told = 0
        self.line = b""


def tell(*words):
    data = (" ".join(str(word) for word in words) + "\n").encode("utf-8", "replace")
    while data:
        data = data[os.write(1, data) :]


class Starter:
    def __init__(self):
        self.pids = {}
        # fd → (started, whether it is stderr)
        self.pipes = {}
        self.poller = select.poll()
        self.requests = bytearray()

    def start(self, fields):
        channel, uid, gid, filter_path, count = int(fields[0]), int(fields[1]), int(fields[2]), fields[3], int(fields[4])
        argv, env = fields[5 : 5 + count], fields[5 + count :]
        socket = BASE + channel
        ours = []
        try:
            said, stderr = os.pipe()
            ours += [said, stderr]
            told, info = os.pipe()
            ours += [told, info]
            if filter_path:
                ours.append(os.open(filter_path, os.O_RDONLY))
            pid = os.fork()
        except OSError as error:
            for fd in ours:
                os.close(fd)
            os.close(socket)
            tell("failed", channel, error.strerror)
            return
        if pid == 0:
            become(argv, env, uid, gid, [socket, socket, stderr, info] + ours[4:])
        for fd in [socket, stderr, info] + ours[4:]:
            os.close(fd)
        started = Started(channel, pid)
        self.pids[pid] = started
        for fd, is_stderr in ((said, True), (told, False)):
            os.set_blocking(fd, False)
            self.pipes[fd] = (started, is_stderr)
            self.poller.register(fd, select.POLLIN)
        tell("started", channel, pid)

    def read(self, fd):
        started, is_stderr = self.pipes[fd]
        try:
            data = os.read(fd, 4096)
        except BlockingIOError:
            return False
        if not data:
            self.poller.unregister(fd)
            del self.pipes[fd]
            os.close(fd)
            return False
        started.told += len(data)
        if started.told > TOLD_MAX:
            return True
        if is_stderr:
            tell("said", started.channel, data.hex())
            return True
        *lines, started.line = (started.line + data).split(b"\n")
        for line in lines:
            tell("info", started.channel, line.decode("utf-8", "replace"))
        return True

    def reap(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            started = self.pids.pop(pid)
            # Read the last output of the process first.
            for fd in [fd for fd, (owner, _) in self.pipes.items() if owner is started]:
                while self.read(fd):
                    pass
            code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1
            tell("ended", started.channel, code, os.WTERMSIG(status) if os.WIFSIGNALED(status) else -1)

    def hear(self):
        data = os.read(0, 65536)
        if not data:
            os._exit(0)
        self.requests += data
        while len(self.requests) >= 4:
            size = int.from_bytes(self.requests[:4], "little")
            if len(self.requests) < 4 + size:
                return
            fields = bytes(self.requests[4 : 4 + size]).decode("utf-8", "surrogateescape").split("\0")
            del self.requests[: 4 + size]
            if fields[0] == "kill":
                self.kill(int(fields[1]))
            else:
                self.start(fields[1:])

    def kill(self, channel):
        for pid, started in self.pids.items():
            if started.channel == channel:
                os.kill(pid, signal.SIGKILL)

    def serve(self):
        wake, wake_write = os.pipe()
        for fd in (wake, wake_write):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        self.poller.register(0, select.POLLIN)
        self.poller.register(wake, select.POLLIN)
        while True:
            for fd, _ in self.poller.poll():
                if fd == 0:
                    self.hear()
                elif fd == wake:
                    os.read(wake, 4096)
                    self.reap()
                elif fd in self.pipes:
                    self.read(fd)


def leave_mounts(kept):
    """Enters a mount namespace of its own and removes the mounts that no sandbox shows. The kernel copies all
    mounts for each sandbox, and lists them for each of bwrap's forty mounts. On a host with 28 mounts that
    took 1.5 of 11 ms CPU.
    """
    import _ctypes

    def call(name, *arguments):
        return _ctypes.call_function(_ctypes.dlsym(handle, name), arguments)

    handle = _ctypes.dlopen(None, os.RTLD_NOW)
    # The unmounts must not propagate to the host. If either call fails they might, so keep all mounts.
    if call("unshare", CLONE_NEWNS) != 0 or call("mount", None, b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        return
    with open("/proc/self/mountinfo", "rb") as listing:
        mounts = [line.split()[4] for line in listing]
    # A link and its target may be on different mounts.
    needed = [os.fsencode(path) for name in kept for path in (os.path.abspath(name), os.path.realpath(name))]
    for mount in reversed(mounts):
        above = mount.rstrip(b"/") + b"/"
        if not any(path == mount or path.startswith(above) or mount.startswith(path.rstrip(b"/") + b"/") for path in needed):
            call("umount2", mount, MNT_DETACH)


def become(argv, env, uid, gid, fds):
    """Puts the process into the state in which Node would start it."""
    try:
        signal.set_wakeup_fd(-1)
        for number in range(1, signal.NSIG):
            try:
                signal.signal(number, signal.SIG_DFL)
            except (OSError, ValueError):
                pass
        # First copies each descriptor to a number above 4, so that dup2 overwrites none that is still needed.
        for number, fd in enumerate([fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 5) for fd in fds]):
            os.dup2(fd, number)
        if uid >= 0:
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
        os.chdir("/")
        os.execve(argv[0], argv, dict(item.split("=", 1) for item in env))
    except BaseException as error:
        os.write(2, ("%s: %s\n" % (argv[0], error)).encode("utf-8", "replace"))
    os._exit(127)


def limit_files(wanted):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main():
    # The worker decides what a terminal's Ctrl-C does.
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    # Inherited, so no sandbox writes a core file, and an agent need not set this.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit_files(int(sys.argv[1]))
    # No other descriptor of the worker may reach the process.
    for fd in [int(name) for name in os.listdir("/proc/self/fd")]:
        if fd >= BASE:
            try:
                os.set_inheritable(fd, False)
            except OSError:
                pass  # The listing's own.
    if len(sys.argv) > 2:
        leave_mounts(sys.argv[2:])
    Starter().serve()


main()
