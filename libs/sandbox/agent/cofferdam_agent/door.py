"""Where the next worker of a session comes in, when nothing of a program runs.

    worker ── {"pod", "fence", "nonce"} ──▶        another pod's name, or a fence that is not higher: refused
           ◀── {"nonce", "proof"} ──               we have the key as well, so that nobody else can stand in for us
           ── {"proof"} ──▶                        wrong: refused
           ◀── {"pod"} ── then frames

A program of the session shares this loopback and so reaches the port. The key never travels again, it lies in a page that no child
gets, and this process is not dumpable; the port stays ours from the first worker on, so nobody else can listen on it.
"""
import hmac
import json
import mmap
import os
import select
import time

KEY_SIZE = 32
LINE_MAX = 4096
# A worker answers at once; whoever does not is none.
GUEST_SECONDS = 5
# More at once are a program's own, left from its turn: the oldest go.
GUESTS_MAX = 16


class Key:
    """Read from a connection straight into a page that forks do not have: a child is dumpable for a moment before its exec."""

    def __init__(self, connection):
        self.page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.page.madvise(mmap.MADV_DONTFORK)
        self.bytes = memoryview(self.page)[:KEY_SIZE]
        at = 0
        while at < KEY_SIZE:
            read = connection.recv_into(self.bytes[at:])
            if read == 0:
                raise ValueError("no key")
            at += read

    def proof(self, side, name, fence, theirs, ours):
        """Of worker or pod, for these two nonces. Nothing of the key is copied to where a child could see it."""
        text = json.dumps([side, name, fence, theirs, ours], separators=(",", ":"))
        return hmac.digest(self.bytes, text.encode(), "sha256").hex()


class Door:
    """`settle` makes a connection what the agent wants."""

    def __init__(self, server, settle, name, fence, key):
        self.server, self.settle, self.name, self.fence, self.key = server, settle, name, fence, key

    def next(self):
        """Blocks until a worker with the key and a higher fence is there; its connection."""
        self.server.setblocking(False)
        guests = {}
        try:
            while True:
                poller = select.poll()
                for fd in [self.server.fileno(), *guests]:
                    poller.register(fd, select.POLLIN)
                for fd, _ in poller.poll(GUEST_SECONDS * 1000 if guests else None):
                    if fd == self.server.fileno():
                        self.admit(guests)
                    elif fd in guests and guests[fd].hear():
                        worker = guests.pop(fd).connection
                        self.settle(worker)
                        return worker
                now = time.monotonic()
                for fd in [fd for fd, guest in guests.items() if guest.is_over or now > guest.until]:
                    guests.pop(fd).connection.close()
        finally:
            for guest in guests.values():
                guest.connection.close()

    def admit(self, guests):
        try:
            connection, _ = self.server.accept()
        except OSError:
            # It went again, or a program took our descriptors' limit: then this must not become a busy loop.
            return time.sleep(0.01)
        connection.setblocking(False)
        if len(guests) == GUESTS_MAX:
            guests.pop(next(iter(guests))).connection.close()
        guests[connection.fileno()] = Guest(connection, self)


class Guest:
    def __init__(self, connection, door):
        self.connection, self.door = connection, door
        self.until = time.monotonic() + GUEST_SECONDS
        self.line, self.expected, self.is_over = b"", None, False

    def hear(self):
        """True when it is the next worker."""
        try:
            data = self.connection.recv(LINE_MAX)
            self.line += data
            if not data or len(self.line) > LINE_MAX:
                raise ValueError("no line")
            if not self.line.endswith(b"\n"):
                return False
            said, self.line = json.loads(self.line), b""
            return self.challenge(said) if self.expected is None else self.prove(said)
        except BlockingIOError:
            return False
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            self.is_over = True
            return False

    def challenge(self, said):
        door, fence, theirs = self.door, said["fence"], said["nonce"]
        if said["pod"] != door.name:
            return self.refuse("this is another pod")
        if type(fence) is not int or type(theirs) is not str:
            raise ValueError("not a worker's")
        if fence <= door.fence:
            return self.refuse("fenced")
        ours = os.urandom(16).hex()
        self.fence, self.expected = fence, door.key.proof("worker", door.name, fence, theirs, ours)
        self.say({"nonce": ours, "proof": door.key.proof("pod", door.name, fence, theirs, ours)})
        return False

    def prove(self, said):
        proof = said["proof"]
        if type(proof) is not str or not hmac.compare_digest(proof.encode(), self.expected.encode()):
            return self.refuse("not a worker of this session")
        # Looked at again: another may have come in since.
        if self.fence <= self.door.fence:
            return self.refuse("fenced")
        self.say({"pod": self.door.name})
        self.door.fence = self.fence
        return True

    def refuse(self, why):
        self.say({"error": why})
        self.is_over = True
        return False

    def say(self, words):
        # A few hundred bytes: they fit into the buffer of a connection that has carried nothing.
        self.connection.sendall(json.dumps(words).encode() + b"\n")
