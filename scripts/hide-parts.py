"""Runs a command on this machine as if parts of it were missing, to see what the tests do then.

    sudo python3 scripts/hide-parts.py all -- npm test
    sudo python3 scripts/hide-parts.py docker,bwrap -- npm test -- tests/e2e

The parts are those of PROGRAMS, `user-namespaces`, `all` for every one of these, and `root`, which runs the
command as the owner of the current folder (use an ordinary user's clone, and set HOME to its home).
The script itself needs root. An overlay in a mount namespace that only the command sees hides programs, and a
seccomp filter refuses user namespaces. So the machine does not change and needs no repair.
"""
import ctypes
import os
import struct
import subprocess
import sys
import tempfile

# Folders and files of each part. Missing ones are ignored.
PROGRAMS = {
    "docker": ["docker", "dockerd"],
    "gvisor": ["runsc"],
    "microvm": ["qemu-system-x86_64", "mkfs.erofs"],
    "bwrap": ["bwrap"],
    "ip": ["ip"],
    "kubectl": ["kubectl"],
    "openssl": ["openssl"],
    "unzip": ["unzip"],
    "redis-server": ["redis-server", "redis-check-rdb", "redis-cli", "valkey-server"],
    "initdb": ["initdb", "postgres"],
    "chromium": ["chromium-headless-shell", "chromium", "google-chrome"],
}
FOLDERS = ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/bin", "/sbin"]
SOCKETS = ["/run/docker.sock", "/var/run/docker.sock"]
INSTALLED_POSTGRES = "/usr/lib/postgresql"

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
# The actions that the seccomp(2) filter returns.
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
EPERM, ENOSYS = 1, 38
# Numbers of unshare, clone and clone3 (asm/unistd.h).
CALLS = {"x86_64": (272, 56, 435), "aarch64": (97, 220, 435)}

libc = ctypes.CDLL(None, use_errno=True)


def checked(result):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def mount(*words):
    subprocess.run(["mount", *words], check=True)


def hide_programs(names):
    """Puts an overlay over each folder that has one of the programs, and removes them there."""
    layers = tempfile.mkdtemp(prefix="cofferdam-hidden-")
    mount("-t", "tmpfs", "cofferdam-hidden", layers)
    for index, folder in enumerate(dict.fromkeys(os.path.realpath(folder) for folder in FOLDERS)):
        found = [name for name in names if os.path.lexists(os.path.join(folder, name))]
        if not found:
            continue
        upper, work = (os.path.join(layers, kind + str(index)) for kind in ("upper", "work"))
        os.mkdir(upper, 0o755)
        os.mkdir(work)
        mount("-t", "overlay", "overlay", "-o", f"lowerdir={folder},upperdir={upper},workdir={work}", folder)
        for name in found:
            os.remove(os.path.join(folder, name))
    # The overlays keep the layers that they need, so this mount can be removed.
    subprocess.run(["umount", "--lazy", layers], check=True)
    os.rmdir(layers)


def refuse_user_namespaces():
    """unshare and clone fail with EPERM for user namespaces. clone3 is absent, so libc uses clone."""
    unshare, clone, clone3 = CALLS[os.uname().machine]
    load, equal, any_of, answer = 0x20, 0x15, 0x45, 0x06
    number, first_argument = 0, 16
    program = [
        (load, 0, 0, number),
        (equal, 0, 1, clone3),
        (answer, 0, 0, ERRNO | ENOSYS),
        (equal, 1, 0, unshare),
        (equal, 0, 3, clone),
        (load, 0, 0, first_argument),
        (any_of, 0, 1, CLONE_NEWUSER),
        (answer, 0, 0, ERRNO | EPERM),
        (answer, 0, 0, ALLOW),
    ]
    code = b"".join(struct.pack("HBBI", *step) for step in program)
    steps = ctypes.create_string_buffer(code)
    filter_ = struct.pack("HxxxxxxP", len(program), ctypes.addressof(steps))
    checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    checked(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.create_string_buffer(filter_), 0, 0))


def become_owner_of_this_folder():
    owner = os.stat(".")
    if owner.st_uid == 0:
        sys.exit("hide-parts: to hide root, run it in a folder of an ordinary user")
    os.setgroups([])
    os.setgid(owner.st_gid)
    os.setuid(owner.st_uid)


def main(words):
    known = [*PROGRAMS, "user-namespaces"]
    if len(words) < 3 or words[1] != "--":
        sys.exit(f"usage: hide-parts.py all|{'|'.join(known)}|root[,…] -- COMMAND [ARGUMENT …]")
    asked = words[0].split(",")
    hidden = {*asked, *known} if "all" in asked else set(asked)
    unknown = hidden - {*known, "all", "root"}
    if unknown:
        sys.exit(f"hide-parts: no such part: {', '.join(sorted(unknown))}; there are {', '.join(known)}, root")
    if os.getuid() != 0:
        sys.exit("hide-parts: needs root, to mount what hides a part")

    checked(libc.unshare(CLONE_NEWNS))
    mount("--make-rprivate", "/")
    hide_programs([name for part in hidden for name in PROGRAMS.get(part, [])])
    if "docker" in hidden:
        os.environ.pop("DOCKER_HOST", None)
        for socket in dict.fromkeys(os.path.realpath(path) for path in SOCKETS if os.path.exists(path)):
            mount("--bind", "/dev/null", socket)
    if "initdb" in hidden and os.path.isdir(INSTALLED_POSTGRES):
        mount("-t", "tmpfs", "cofferdam-hidden", INSTALLED_POSTGRES)
    if "root" in hidden:
        become_owner_of_this_folder()
    if "user-namespaces" in hidden:
        refuse_user_namespaces()
    os.execvp(words[2], words[2:])


main(sys.argv[1:])
