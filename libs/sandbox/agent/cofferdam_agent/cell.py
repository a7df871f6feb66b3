"""Restores a cell's fresh state between two executions, and proves it.

`clean` empties every folder that a program can write to (writable_paths.py) and removes System V objects that
programs left. Files that were there before the first program stay. `prove` compares used bytes and inodes
with those of the fresh cell. It also compares the agent's limits and scheduling, which a process with its uid
can change and which everything that it starts inherits.
"""
import os
import time

from .writable_paths import is_on_own_mount, writable_paths
from .fork_server import fingerprint
from .root import Root, WIPE_S
from .sysv import SystemV
from .workdir import IO_ERROR, WorkError

# How long the kernel may take to free files of killed processes. The kernel's collector frees sockets in
# flight, which takes much longer on a busy host.
FREE_S = 3.0


class Cell:
    """`owns_mounts`: whether all writable mounts of the sandbox belong to the program. If not, only the work
    directory and the folders beside it do.
    """

    def __init__(self, options, work, split, owns_mounts=None):
        self.work = work
        owns_mounts = os.getpid() == 1 if owns_mounts is None else owns_mounts
        self.roots = [Root(path, owns_mounts and is_on_own_mount(path)) for path in writable_paths(options, work, owns_mounts)]
        self.objects = SystemV(options, split, split or owns_mounts)
        self.agent = fingerprint(os.getpid())
        # True if a program could change the agent's settings, because both have the same uid: always, or
        # during a kill by `kill_all`.
        self.was_in_reach = not split or os.geteuid() != 0

    def clean(self, keep):
        """Called when no program runs any more. Raises WorkError if the cell cannot be proven clean."""
        until = time.monotonic() + WIPE_S
        try:
            for root in self.roots:
                if root.path != self.work or keep == "none":
                    root.wipe(until)
            had_objects = self.objects.remove()
        except OSError as error:
            raise WorkError(IO_ERROR, "wipe: %s" % error)
        self.prove(keep, had_objects)

    def prove(self, keep, had_objects):
        """Called when all programs are gone, so nobody creates System V objects after their removal."""
        if self.was_in_reach and fingerprint(os.getpid(), self.agent) != self.agent:
            # Not restored, because a process without a capability cannot lower its nice value again.
            raise WorkError(IO_ERROR, "a program changed the agent's limits or scheduling")
        until = time.monotonic() + FREE_S
        while True:
            spared = keep != "none" and self.work
            wrong = [root.path for root in self.roots if not root.is_fresh(spared, keep == "interpreter")]
            wrong += ["System V IPC"] if had_objects and self.objects.left() else []
            if not wrong:
                return
            if time.monotonic() > until:
                raise WorkError(IO_ERROR, "not as it was when fresh: %s" % ", ".join(wrong))
            time.sleep(0.002)
