"""Frames v1 on two file descriptors: type u8, length u32 LE, payload.

To the host a payload has at most 64 KiB, to the agent at most 1 MiB. The channel never blocks: sent frames wait in a
queue, and whoever produces output looks at `pending` first. Any error means that the worker is gone: exit.
"""
import fcntl
import os
import struct

HEAD = struct.Struct("<BI")
TO_HOST_MAX = 64 * 1024
TO_AGENT_MAX = 1024 * 1024
READ_SIZE = 256 * 1024


class Closed(Exception):
    """The worker closed the channel or broke the protocol."""


class Channel:
    def __init__(self, fd_in, fd_out):
        self.fd_in = fd_in
        self.fd_out = fd_out
        self.pending = 0
        self._in = bytearray()
        self._out = []
        for fd in (fd_in, fd_out):
            flags = fcntl.fcntl(fd, fcntl.F_GETFL)
            fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_NONBLOCK)

    def receive(self):
        """Reads once; yields (type, payload) of every complete frame."""
        try:
            data = os.read(self.fd_in, READ_SIZE)
        except BlockingIOError:
            return
        except OSError as error:
            raise Closed("read: %s" % error)
        if not data:
            raise Closed("end of input")
        buffer = self._in
        buffer += data
        at = 0
        while len(buffer) - at >= HEAD.size:
            kind, length = HEAD.unpack_from(buffer, at)
            if length > TO_AGENT_MAX:
                raise Closed("frame of %d bytes" % length)
            if len(buffer) - at - HEAD.size < length:
                break
            payload = bytes(buffer[at + HEAD.size : at + HEAD.size + length])
            at += HEAD.size + length
            yield chr(kind), payload
        del buffer[:at]

    def send(self, kind, payload=b""):
        if len(payload) > TO_HOST_MAX:
            raise ValueError("frame %s of %d bytes" % (kind, len(payload)))
        self._out.append(HEAD.pack(ord(kind), len(payload)) + payload)
        self.pending += HEAD.size + len(payload)
        self.flush()

    def flush(self):
        while self._out:
            data = self._out[0]
            try:
                written = os.write(self.fd_out, data)
            except BlockingIOError:
                return
            except OSError as error:
                raise Closed("write: %s" % error)
            self.pending -= written
            if written == len(data):
                self._out.pop(0)
            else:
                self._out[0] = data[written:]
