"""First process of a virtual machine. Standard library only, Python 3.9 or newer, started with `-I -S`.

    boot ── mounts, loopback, kernel settings, interpreters read once ── {"hello"} on port 5004
    (the machine is saved here, and everything below happens in a clone that is used once)
    one line of JSON on port 5004 ── thaw: random numbers, clock ── the agent starts on port 5005 ── {"nonce"}
    (saved again, with a session in it) one more line ── thaw, and new processes for a fork ── {"nonce"}
    the agent ends ── {"ended", "oom_kills", "stderr"} ── the machine ends
    port 5004 ends ── the machine ends

A clone has the memory of its template, and with it the state of the kernel's random numbers. So nothing that
draws random numbers for a program runs before the thaw: each interpreter starts after it. The agent is a fork
of this process. Its code, and so its layout in memory, is that of the template.

The agent gets what it would have in a container: namespaces, a cgroup with the limits, three capabilities.
This process stays outside, so it can tell why the agent ended.
"""
import ctypes
import fcntl
import json
import os
import resource
import select
import socket
import stat
import struct
import sys
import time

HOST_NAME = "sandbox"
JOB = "/sys/fs/cgroup/job"
STDERR_KEPT = 4096
# How long the host may take to read the last words.
LAST_WORDS_S = 1
# How long the processes of a fork may take to end.
FRESH_S = 30
# Capabilities of the agent: to become the program's user, and to end its processes.
CAP_KILL, CAP_SETGID, CAP_SETUID, CAP_LAST = 5, 6, 7, 40
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2
NEW_MOUNTS, NEW_CGROUP, NEW_UTS, NEW_IPC, NEW_PIDS = 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x20000000
PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP = 38, 24
# Requests of random(4), and one of netdevice(7).
RNDADDENTROPY, RNDRESEEDCRNG = 0x40085203, 0x5207
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
SETTINGS = {
    "kernel/dmesg_restrict": "1",
    "kernel/kptr_restrict": "2",
    "kernel/unprivileged_bpf_disabled": "1",
    "kernel/unprivileged_userns_clone": "0",
    "kernel/printk": "1",
    "user/max_user_namespaces": "0",
    "vm/overcommit_memory": "1",
    "net/ipv4/ip_unprivileged_port_start": "0",
    "net/ipv4/ping_group_range": "0 2147483647",
}
# As in a container. They tell about the kernel, or are for root.
MASKED = ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/cmdline", "/proc/interrupts", "/proc/config.gz")
MASKED_FOLDERS = ("/proc/acpi", "/proc/scsi", "/sys/firmware", "/sys/class", "/sys/module", "/sys/block", "/sys/bus", "/sys/dev")
READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
AGENT_FOLDER, PORTS_FOLDER = "/usr/lib/cofferdam/agent", "/run"
sys.dont_write_bytecode = True
sys.path[:0] = [AGENT_FOLDER, PORTS_FOLDER]
from cofferdam_agent import collect, tunnel  # noqa: E402,F401 (needed by few programs, and late to import then)
from cofferdam_agent.main import main as agent_main  # noqa: E402
from vm_ports import LINE_MAX, LOOK_S, say, wait_for_host  # noqa: E402

sys.path.remove(PORTS_FOLDER)

libc = ctypes.CDLL(None, use_errno=True)


def checked(result, what):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (what, os.strerror(number)))
    return result


def mount(source, target, kind, flags=0, options=""):
    words = [None if text is None else text.encode() for text in (source, target, kind)]
    checked(libc.mount(*words, ctypes.c_ulong(flags), options.encode()), "mount %s" % target)


def write(path, text):
    with open(path, "w") as out:
        out.write(text)


# ---- boot


def boot():
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount("cgroup2", "/sys/fs/cgroup", "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777")
    write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu +memory +pids")
    for name, value in SETTINGS.items():
        try:
            write("/proc/sys/" + name, value)
        except OSError:
            pass  # Kernels differ in what they have.
    socket.sethostname(HOST_NAME)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))


def read_interpreters():
    """Starts each one, so that its files are in the memory of the template."""
    agent = AGENT_FOLDER + "/agent.py"
    for argv in (
        ["python3", "-c", "import ast, linecache, socket, traceback"],
        ["python3", "-I", "-S", agent, "--language", "python", "--work", "/tmp/warm"],
        ["node", "-e", "0"],
        ["bash", "-c", "true"],
    ):
        pid = os.posix_spawnp(
            argv[0],
            argv,
            {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp"},
            file_actions=[(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_RDWR, 0) for fd in (0, 1, 2)],
        )
        os.waitpid(pid, 0)


# ---- thaw


def thaw(told):
    """Afterwards this machine shares no random number and no clock with its template or another clone."""
    seed = bytes.fromhex(told["entropy"])
    if len(seed) < 32:
        raise ValueError("too little entropy")
    random = os.open("/dev/urandom", os.O_RDWR | os.O_CLOEXEC)
    fcntl.ioctl(random, RNDADDENTROPY, struct.pack("ii", len(seed) * 8, len(seed)) + seed)
    fcntl.ioctl(random, RNDRESEEDCRNG)
    os.close(random)
    time.clock_settime_ns(time.CLOCK_REALTIME, int(told["time_ns"]))


def thaw_again(told, agent):
    """For a machine that was saved between two programs of a session."""
    thaw(told)
    until, killed = time.monotonic() + FRESH_S, set()
    while told["fresh"]:
        # A generator inside a process cannot be seeded from outside. The agent starts new interpreters.
        with open(JOB + "/cgroup.procs") as listed:
            left = set(map(int, listed)) - {agent}
        killed |= left
        # The agent knows of an end when it has reaped it.
        if not left and not any(os.path.exists("/proc/%d" % pid) for pid in killed):
            return
        if time.monotonic() > until:
            raise OSError("processes of a fork do not end")
        for pid in left:
            libc.kill(pid, 9)  # One that ended meanwhile is no error.
        time.sleep(LOOK_S)


# ---- the agent


def start_agent(told, port):
    """Returns its pid and the end of its stderr."""
    os.mkdir(JOB)
    for name, value in told["cgroup"].items():
        write("%s/%s" % (JOB, name), value)
    outside, inside = os.pipe2(os.O_CLOEXEC)
    # Only children are in the new namespace, and this is the only one from now on.
    checked(libc.unshare(NEW_PIDS), "unshare")
    pid = os.fork()
    if pid == 0:
        try:
            become_agent(told, port, inside)
        except BaseException as error:
            os.write(inside, ("%s: %s" % (type(error).__name__, error)).encode())
        os._exit(71)
    os.close(inside)
    os.close(port)
    return pid, outside


def become_agent(told, port, errors):
    write(JOB + "/cgroup.procs", "0")
    checked(libc.unshare(NEW_MOUNTS | NEW_CGROUP | NEW_UTS | NEW_IPC), "unshare")
    own_mounts(told)
    for fd, number in ((port, 0), (port, 1), (errors, 2)):
        os.dup2(fd, number)
    resource.setrlimit(resource.RLIMIT_NOFILE, (told["open_files"],) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.setgroups([])
    drop_capabilities()
    os.chdir("/")
    os.environ.clear()
    # Imported before the machine was saved. An exec here would cost a third of a second where it is emulated.
    agent_main(told["options"])


def own_mounts(told):
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    plain = MS_NOSUID | MS_NODEV
    mount("tmpfs", "/tmp", "tmpfs", plain, told["tmp"])
    mount("tmpfs", "/run", "tmpfs", plain | MS_NOEXEC, "mode=755,size=1m")
    if told["filter"]:
        with open("/run/filter", "wb") as out:
            out.write(bytes.fromhex(told["filter"]))
    mount(None, "/run", None, MS_REMOUNT | MS_RDONLY | plain | MS_NOEXEC, "mode=755,size=1m")
    mount("proc", "/proc", "proc", plain | MS_NOEXEC)
    # The same file system cannot be mounted twice at one place.
    checked(libc.umount2(b"/sys", MNT_DETACH), "umount /sys")
    mount("sysfs", "/sys", "sysfs", plain | MS_NOEXEC | MS_RDONLY)
    mount("cgroup2", "/sys/fs/cgroup", "cgroup2", plain | MS_NOEXEC | MS_RDONLY)
    mount("tmpfs", "/dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=64k")
    os.umask(0)
    for name, (major, minor) in DEVICES.items():
        os.mknod("/dev/" + name, 0o20666, os.makedev(major, minor))
    os.umask(0o022)
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2"), ("ptmx", "pts/ptmx")):
        os.symlink(target, "/dev/" + name)
    for name in ("shm", "pts", "mqueue"):
        os.mkdir("/dev/" + name)
    mount("tmpfs", "/dev/shm", "tmpfs", plain | MS_NOEXEC, "mode=1777,size=%d" % told["shm_bytes"])
    mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
    mount("mqueue", "/dev/mqueue", "mqueue", plain | MS_NOEXEC)
    for path in MASKED:
        if os.path.exists(path):
            mount("/dev/null", path, None, MS_BIND)
    for path in MASKED_FOLDERS:
        if os.path.isdir(path):
            mount("tmpfs", path, "tmpfs", plain | MS_NOEXEC | MS_RDONLY, "size=0,mode=555")
    for path in READ_ONLY:
        if os.path.exists(path):
            mount(path, path, None, MS_BIND | MS_REC)
            mount(None, path, None, MS_BIND | MS_REMOUNT | MS_RDONLY | plain | MS_NOEXEC)


def drop_capabilities():
    kept = {CAP_KILL, CAP_SETGID, CAP_SETUID}
    for number in range(CAP_LAST + 1):
        if number not in kept:
            libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
    mask = sum(1 << number for number in kept)
    # Version 3 of the structures in linux/capability.h: two words each of effective, permitted, inheritable.
    head = struct.pack("Ii", 0x20080522, 0)
    checked(libc.capset(head, struct.pack("6I", mask, mask, 0, 0, 0, 0)), "capset")
    checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")


# ---- the end


def oom_kills():
    try:
        with open(JOB + "/memory.events") as events:
            return sum(int(line.split()[1]) for line in events if line.startswith("oom_kill "))
    except (OSError, ValueError, IndexError):
        return 0


def watch(pid, errors, control):
    """Until the agent has ended. The machine ends at once if the host does."""
    kept = heard = b""
    handle = os.pidfd_open(pid)
    poller = select.poll()
    for fd in (handle, errors, control):
        poller.register(fd, select.POLLIN)
    while True:
        ready = dict(poller.poll())
        if control in ready:
            data = read_or_end(control)
            if not data or len(heard) > LINE_MAX:
                end_machine()
            *lines, heard = (heard + data).split(b"\n")
            for told in map(json.loads, lines):
                thaw_again(told, pid)
                say(control, {"nonce": told["nonce"]})
        if errors in ready:
            data = os.read(errors, 65536)
            kept = (kept + data)[-STDERR_KEPT:]
            if not data:
                poller.unregister(errors)
        if handle in ready:
            break
    _, status = os.waitpid(pid, 0)
    os.set_blocking(errors, False)
    try:
        kept = (kept + (os.read(errors, 65536) or b""))[-STDERR_KEPT:]
    except OSError:
        pass
    say(control, {"ended": status, "oom_kills": oom_kills(), "stderr": kept.decode("utf-8", "replace")})
    if stat.S_ISSOCK(os.fstat(control).st_mode):
        # The kernel may still have what was written. The host reads it, and then kills the machine.
        select.select([control], [], [], LAST_WORDS_S)


def read_or_end(control):
    try:
        return os.read(control, LINE_MAX)
    except ConnectionError:
        return b""


def end_machine():
    # LINUX_REBOOT_CMD_RESTART ends the VMM: Firecracker knows no power-off, and QEMU is told not to restart.
    libc.reboot(ctypes.c_int(0x01234567))
    os._exit(0)


def main():
    boot()
    read_interpreters()
    control, port, told = wait_for_host()
    thaw(told)
    pid, errors = start_agent(told, port)
    say(control, {"nonce": told["nonce"]})
    watch(pid, errors, control)
    end_machine()


try:
    main()
except BaseException as error:
    # Nobody else may show it: the console of a clone is not read.
    with open("/dev/console", "w") as console:
        console.write("vm_init: %s: %s\n" % (type(error).__name__, error))
    raise
