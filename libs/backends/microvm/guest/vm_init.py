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
import select
import socket
import stat
import struct
import sys
import time

HOST_NAME = "sandbox"
STDERR_KEPT = 4096
# How long the host may take to read the last line (`ended`).
LAST_WORDS_S = 1
# How long the processes of a forked session may take to end.
FRESH_S = 30
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
AGENT_FOLDER, OWN_FOLDER = "/usr/lib/cofferdam/agent", "/run"
sys.dont_write_bytecode = True
sys.path[:0] = [AGENT_FOLDER, OWN_FOLDER]
from vm_agent import JOB, MS_NODEV, MS_NOEXEC, MS_NOSUID, libc, mount, start_agent, write  # noqa: E402
from vm_ports import LINE_MAX, LOOK_S, say, wait_for_host  # noqa: E402

sys.path.remove(OWN_FOLDER)

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
    """Thaws a machine that was saved between two programs of a session. With `fresh`, also ends all processes
    but the agent.
    """
    thaw(told)
    until, killed = time.monotonic() + FRESH_S, set()
    while told["fresh"]:
        # The state of random generators in these processes cannot be changed from outside, so end them. The
        # agent starts new interpreters.
        with open(JOB + "/cgroup.procs") as listed:
            left = set(map(int, listed)) - {agent}
        killed |= left
        # Wait until the agent has reaped them: only then does it know that they ended.
        if not left and not any(os.path.exists("/proc/%d" % pid) for pid in killed):
            return
        if time.monotonic() > until:
            raise OSError("processes of a fork do not end")
        for pid in left:
            libc.kill(pid, 9)  # One that ended meanwhile is no error.
        time.sleep(LOOK_S)


# ---- the end


def oom_kills():
    try:
        with open(JOB + "/memory.events") as events:
            return sum(int(line.split()[1]) for line in events if line.startswith("oom_kill "))
    except (OSError, ValueError, IndexError):
        return 0


def watch(pid, errors, control):
    """Watches until the agent has ended. Ends the machine at once if the host closes the control port."""
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
        # What was written may still be in the kernel, and would be lost. Wait: the host reads it and then
        # kills the machine.
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
    # Report it on the console. QEMU's engine quotes the console if the boot of a template fails. A clone's is
    # not read.
    with open("/dev/console", "w") as console:
        console.write("vm_init: %s: %s\n" % (type(error).__name__, error))
    raise
