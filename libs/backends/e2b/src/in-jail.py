"""Starts a session's agent in a jail, so that the agent can prove that only files are left.

`python3 -I -S in-jail.py JAIL DISK INODES SHM AGENT-OPTIONS…`: DISK and SHM in bytes, INODES as a number.
JAIL (jail.py of the process backend) makes the agent the first process of its namespaces. All processes of
its programs are below it, and they can write only to file systems that the agent can wipe. The machine's
folders are visible read-only; its ports, devices, processes and /run are not.
"""
import os
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# Folders not shown in the jail: programs could leave something there, the jail has its own, or nobody needs
# them.
HIDDEN = {"boot", "dev", "lost+found", "media", "mnt", "proc", "root", "run", "sys", "tmp"}
# The jail's root is mounted over it, so nothing of /tmp is visible inside.
ROOT = "/tmp/cofferdam"


def folders():
    names = sorted(name for name in os.listdir("/") if name not in HIDDEN)
    return ["/" + name for name in names if os.path.isdir("/" + name) and not set(name) & set(" \n")]


def become_jail(jail, disk, inodes, shm, options):
    os.makedirs(ROOT, exist_ok=True)
    settings = {
        "guest": HERE,
        "folder": ROOT,
        "filter": os.path.join(HERE, os.uname().machine + ".bpf"),
        "links": "",
        "binds": "\n".join("%s %s" % (path, path) for path in folders()),
        "masks": "",
        "disk": disk,
        "inodes": inodes,
        "shm": shm,
    }
    pairs = [word for pair in settings.items() for word in pair]
    os.execv(sys.executable, [sys.executable, "-I", "-S", jail, *pairs, "--", *options])


heard, told = os.pipe()
# The jail calls setsid(), which fails for a session leader. This process is one, so fork.
pid = os.fork()
if pid == 0:
    os.dup2(told, 3)
    os.set_inheritable(3, True)
    become_jail(*sys.argv[1:5], sys.argv[5:])
os.close(told)
# Only the agent keeps the channel, so the channel ends with the agent.
os.closerange(0, 2)
if b'"proc":false' in b"".join(iter(lambda: os.read(heard, 256), b"")):
    # An agent that does not see its mounts could not wipe them.
    os.kill(pid, signal.SIGKILL)
    sys.stderr.write("jail: this sandbox lets no other /proc be mounted\n")
os.waitpid(pid, 0)
