"""Files that come before a program. F frames carry (index u32, bytes); indexes go up, sizes are declared in J."""
import os
import struct

from .workdir import REFUSED, WorkError


class GivenFiles:
    def __init__(self, work, declared):
        self.work = work
        self.declared = declared
        # Index, descriptor and bytes to come of the one that is being written.
        self.opened = None

    def take(self, payload):
        index = struct.unpack_from("<I", payload)[0]
        if self.opened is None or self.opened[0] != index:
            self._next(index)
        opened = self.opened
        opened[2] -= len(payload) - 4
        if opened[2] < 0:
            raise WorkError(REFUSED, "more bytes than declared")
        self.work.append(opened[1], memoryview(payload)[4:], self.declared[index]["path"])

    def finish(self):
        self._next(len(self.declared))

    def _next(self, index):
        at = -1
        if self.opened is not None:
            at, fd, left = self.opened
            os.close(fd)
            self.opened = None
            if left:
                raise WorkError(REFUSED, "fewer bytes than declared")
        for empty in range(at + 1, min(index, len(self.declared))):
            if self.declared[empty]["size"]:
                raise WorkError(REFUSED, "a file was left out")
            os.close(self._create(self.declared[empty]))
        if index < len(self.declared):
            declared = self.declared[index]
            self.opened = [index, self._create(declared), declared["size"]]

    def _create(self, declared):
        return self.work.create(declared["path"], declared.get("exec", False))
