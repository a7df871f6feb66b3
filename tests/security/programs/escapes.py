# argv[1]: the folder of the agent's socket. Tries ways out of containers that are files of the kernel, host,
# runtime or agent. Prints what could wrongly be opened for writing or entered, and writes nothing harmful.
import errno
import glob
import json
import os
import socket
import sys

out = []


def attempt(label, work):
    try:
        got = work()
        if got is None or got is True or (not isinstance(got, bool) and got >= 0):
            out.append(label)
    except (OSError, ValueError):
        pass


def writable(path):
    fd = os.open(path, os.O_WRONLY | os.O_NOCTTY)
    # Docker masks a file by the null device, which everybody may write.
    is_masked = os.fstat(fd).st_rdev == os.makedev(1, 3)
    os.close(fd)
    return not is_masked or -1


# Files of the kernel: settings, memory, and names of programs that the kernel runs as root.
for path in (
    "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hotplug", "/proc/sys/kernel/ns_last_pid",
    "/proc/sys/kernel/yama/ptrace_scope", "/proc/sys/fs/binfmt_misc/register", "/proc/sys/vm/overcommit_memory", "/proc/sys/vm/panic_on_oom",
    "/proc/sysrq-trigger", "/proc/kcore", "/proc/kmem", "/proc/kpageflags", "/proc/mtrr", "/proc/irq/default_smp_affinity",
    "/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/dev/kvm", "/dev/fuse", "/dev/loop-control", "/dev/net/tun", "/dev/vhost-net",
    "/dev/cpu_dma_latency", "/dev/watchdog", "/dev/console", "/dev/tty1", "/dev/vcs", "/dev/uinput", "/sys/kernel/uevent_helper",
    "/sys/kernel/security/apparmor/.replace", "/sys/power/state", "/sys/fs/selinux/enforce", "/sys/firmware/efi/efivars",
):
    attempt("write " + path, lambda: writable(path))
for pattern in ("/dev/sd*", "/dev/vd*", "/dev/nvme*", "/dev/dm-*", "/dev/loop*", "/dev/mapper/*", "/dev/disk/*", "/dev/input/*"):
    for path in glob.glob(pattern):
        attempt("read " + path, lambda: os.open(path, os.O_RDONLY))
for top in ("/proc/sys", "/sys"):
    for folder, folders, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            if not os.path.islink(path) and os.access(path, os.W_OK):
                attempt("write " + path, lambda: writable(path))
# Control groups: a release agent runs on the host as root, a limit could be lifted, or a process moved out.
for folder, folders, names in os.walk("/sys/fs/cgroup"):
    for name in [n for n in names if n in ("release_agent", "notify_on_release", "cgroup.procs", "tasks", "memory.limit_in_bytes", "memory.max", "pids.max", "cpu.max", "cgroup.kill", "cgroup.freeze", "devices.allow")]:
        attempt("write %s/%s" % (folder, name), lambda: writable(os.path.join(folder, name)))
    attempt("mkdir " + folder, lambda: os.mkdir(folder + "/mine"))
for path in ("/sys/kernel/debug", "/sys/kernel/tracing", "/sys/fs/bpf", "/sys/kernel/security"):
    attempt("list " + path, lambda: len(os.listdir(path)) > 0 or -1)
# Mounts: everything writable must be memory of the sandbox, not a file system of the host.
try:
    mounts = open("/proc/self/mountinfo").readlines()
except OSError:
    mounts = []
for line in mounts:
    fields, _, rest = line.partition(" - ")
    where, options, kind = fields.split()[4], fields.split()[5].split(","), rest.split()[0]
    if "rw" in options and kind not in ("tmpfs", "proc", "mqueue", "devpts", "sysfs", "cgroup", "cgroup2", "devtmpfs", "none"):
        if os.path.isdir(where):
            attempt("write into the mount %s (%s)" % (where, kind), lambda: os.close(os.open(where + "/.probe", os.O_CREAT | os.O_WRONLY)))
# Other processes' root, directory, namespaces and program. The first process is the agent or its starter.
try:
    pids = os.listdir("/proc")
except OSError:
    pids = ["1", str(os.getppid())]
others = [name for name in pids if name.isdigit() and int(name) != os.getpid()]
for pid in others:
    for link in ("root", "cwd"):
        attempt("enter /proc/%s/%s" % (pid, link), lambda: len(os.listdir("/proc/%s/%s" % (pid, link))))
        attempt("climb /proc/%s/%s" % (pid, link), lambda: len(os.listdir("/proc/%s/%s/../../../../root" % (pid, link))))
    for kind in ("mnt", "net", "pid", "user"):
        attempt("namespace %s of %s" % (kind, pid), lambda: os.setns(os.open("/proc/%s/ns/%s" % (pid, kind), os.O_RDONLY), 0) if hasattr(os, "setns") else -1)
    attempt("map uids of " + pid, lambda: os.write(os.open("/proc/%s/uid_map" % pid, os.O_WRONLY), b"0 0 1"))
    # runc's CVE-2019-5736: overwrites the running program (the runtime, the agent) through its link.
    attempt("write the program of " + pid, lambda: writable("/proc/%s/exe" % pid))
attempt("write one's own interpreter", lambda: writable("/proc/self/exe"))
attempt("write the interpreter", lambda: writable(os.path.realpath(sys.executable)))
for folder in ("/usr/lib/cofferdam/agent", "/usr/lib/cofferdam", "/opt/cofferdam", "/guest"):
    for path in glob.glob(folder + "/**", recursive=True)[:200]:
        attempt("write " + path, lambda: writable(path) if os.path.isfile(path) else os.close(os.open(path + "/new", os.O_CREAT | os.O_WRONLY)))
for path in ("/etc/ld.so.preload", "/etc/ld.so.cache", "/usr/lib/python3/dist-packages/x.pth", "/usr/lib/x86_64-linux-gnu/libc.so.6"):
    attempt("write " + path, lambda: os.close(os.open(path, os.O_WRONLY | os.O_CREAT)))
# Sockets that lead out of the sandbox: those of the runtimes, and the agent's own, which was unlinked.
for path in ["/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/crio/crio.sock", "/run/podman/podman.sock", "/run/dbus/system_bus_socket", "/run/systemd/private"] + glob.glob(sys.argv[1] + "/*") + [sys.argv[1] + "/s"]:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        attempt("connect " + path, lambda: socket.socket(socket.AF_UNIX, kind).connect(path))
attempt("listen in the agent's place", lambda: socket.socket(socket.AF_UNIX).bind(sys.argv[1] + "/s"))
try:
    names = open("/proc/net/unix").read().split()[8:]
except OSError:
    names = []
for name in names:
    if name[:1] in "/@":
        attempt("connect " + name, lambda: socket.socket(socket.AF_UNIX).connect(name.replace("@", "\0", 1)))
# A terminal of another program.
attempt("open the terminal", lambda: os.open("/dev/tty", os.O_RDWR))
for fd in (0, 1, 2):
    attempt("terminal %d" % fd, lambda: os.isatty(fd) or -1)
print(json.dumps(sorted(set(out))))
