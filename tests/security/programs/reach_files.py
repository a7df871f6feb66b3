# argv[1]: a file of the worker's user. argv[2]: its folder. Tries to read, change or notice them.
import ctypes
import errno
import json
import os
import socket
import sys

victim, folder = sys.argv[1:3]
libc = ctypes.CDLL(None, use_errno=True)
out = {}


def attempt(name, work):
    try:
        got = work()
        out[name] = "allowed " + str(got)[:60]
    except OSError as error:
        out[name] = errno.errorcode.get(error.errno, "?")


def watch(path):
    fd = libc.inotify_init1(0)
    if fd < 0 or libc.inotify_add_watch(fd, path.encode(), 0x100) < 0:
        raise OSError(ctypes.get_errno(), "")


def opened(path, flags):
    os.close(os.open(path, flags))


for path in (victim, "/etc/shadow", "/etc/passwd-", os.path.join("/root", ".ssh"), "/proc/1/environ", "/proc/1/maps", "/proc/1/mem", "/proc/kcore"):
    attempt("read " + path, lambda: open(path, "rb").read(20))
for path in (victim, folder + "/new", "/etc/x", "/usr/x", "/x", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/x", "/sys/fs/cgroup/x", "/dev/kmsg", "/dev/mem", "/dev/x"):
    attempt("write " + path, lambda: open(path, "wb").write(b"x"))
for path in (victim, folder):
    attempt("chmod " + path, lambda: os.chmod(path, 0o777))
    attempt("chown " + path, lambda: os.chown(path, os.getuid(), os.getgid()))
    attempt("utime " + path, lambda: os.utime(path, (1, 1)))
    attempt("setxattr " + path, lambda: os.setxattr(path, "user.x", b"1"))
    attempt("rename " + path, lambda: os.rename(path, path + ".moved"))
    attempt("chdir and list " + path, lambda: (os.chdir(path), os.listdir(".")))
attempt("list folder", lambda: os.listdir(folder))
attempt("truncate", lambda: os.truncate(victim, 0))
attempt("unlink", lambda: os.unlink(victim))
attempt("link", lambda: os.link(victim, "linked"))
attempt("symlink", lambda: os.symlink("x", folder + "/link"))
attempt("mkdir", lambda: os.mkdir(folder + "/made"))
attempt("fchmod", lambda: os.fchmod(os.open(os.path.dirname(os.path.realpath(sys.executable)), os.O_RDONLY), 0o777))
attempt("watch", lambda: watch(folder))
for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/dbus/system_bus_socket"):
    attempt("connect " + path, lambda: socket.socket(socket.AF_UNIX).connect(path))
print(json.dumps(out))
