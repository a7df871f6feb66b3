"""Lets the next worker of a session attach between two turns.

    worker ── {"pod", "fence", "nonce"} ──▶        another pod's name, or a fence that is not higher: refused
           ◀── {"nonce", "proof"} ──               proves the agent's key: nobody can impersonate it
           ── {"proof"} ──▶                        wrong: refused
           ◀── {"pod"} ── then frames

A program of the session has the same loopback, so it can reach the port. The key is sent only once and kept
in a page that no child inherits, and this process is not dumpable. The agent listens from the first worker
on, so no program can listen on the port in its place.
"""
import hmac
import json
import mmap
import os
import select
import time

KEY_SIZE = 32
LINE_MAX = 4096
# Time to prove the key. A worker answers at once.
CANDIDATE_SECONDS = 5
# More connections than this can only be left over from a program's turn, so the oldest are closed.
CANDIDATES_MAX = 16


class Key:
    """Reads the key into a page that forked children do not get: a child is dumpable for a moment before
    exec.
    """

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
        """Proof of worker or pod for these nonces. Copies the key nowhere that a child could see."""
        text = json.dumps([side, name, fence, theirs, ours], separators=(",", ":"))
        return hmac.digest(self.bytes, text.encode(), "sha256").hex()


class Listener:
    """`configure` sets the options that the agent needs on a connection."""

    def __init__(self, server, configure, name, fence, key):
        self.server, self.configure, self.name, self.fence, self.key = server, configure, name, fence, key

    def next_worker(self, watch_at_rest):
        """Blocks until a worker with the key and a higher fence attaches. Returns its connection.

        `watch_at_rest(watch)` adds what the agent has to do meanwhile, and returns after how many
        milliseconds to ask it again, or None.
        """
        self.server.setblocking(False)
        candidates = {}
        try:
            while True:
                poller, handlers = select.poll(), {}

                def watch(fd, events, handler):
                    poller.register(fd, events)
                    handlers[fd] = handler

                pauses = [watch_at_rest(watch), CANDIDATE_SECONDS * 1000 if candidates else None]
                for fd in [self.server.fileno(), *candidates]:
                    poller.register(fd, select.POLLIN)
                for fd, _ in poller.poll(min((ms for ms in pauses if ms is not None), default=None)):
                    if fd in handlers:
                        handlers[fd]()
                    elif fd == self.server.fileno():
                        self.admit(candidates)
                    elif fd in candidates and candidates[fd].on_data():
                        worker = candidates.pop(fd).connection
                        self.configure(worker)
                        return worker
                now = time.monotonic()
                for fd in [fd for fd, candidate in candidates.items() if candidate.is_over or now > candidate.until]:
                    candidates.pop(fd).connection.close()
        finally:
            for candidate in candidates.values():
                candidate.connection.close()

    def admit(self, candidates):
        try:
            connection, _ = self.server.accept()
        except OSError:
            # The peer is gone, or a program used up our descriptors. The pause prevents a busy loop.
            return time.sleep(0.01)
        connection.setblocking(False)
        if len(candidates) == CANDIDATES_MAX:
            candidates.pop(next(iter(candidates))).connection.close()
        candidates[connection.fileno()] = Candidate(connection, self)


class Candidate:
    def __init__(self, connection, listener):
        self.connection, self.listener = connection, listener
        self.until = time.monotonic() + CANDIDATE_SECONDS
        self.line, self.expected, self.is_over = b"", None, False

    def on_data(self):
        """Reads what has arrived. True when this is the next worker."""
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
        listener, fence, theirs = self.listener, said["fence"], said["nonce"]
        if said["pod"] != listener.name:
            return self.refuse("this is another pod")
        if type(fence) is not int or type(theirs) is not str:
            raise ValueError("not a worker's")
        if fence <= listener.fence:
            return self.refuse("fenced")
        ours = os.urandom(16).hex()
        self.fence, self.expected = fence, listener.key.proof("worker", listener.name, fence, theirs, ours)
        self.say({"nonce": ours, "proof": listener.key.proof("pod", listener.name, fence, theirs, ours)})
        return False

    def prove(self, said):
        proof = said["proof"]
        if type(proof) is not str or not hmac.compare_digest(proof.encode(), self.expected.encode()):
            return self.refuse("not a worker of this session")
        # Checked again: another worker may have attached since.
        if self.fence <= self.listener.fence:
            return self.refuse("fenced")
        self.say({"pod": self.listener.name})
        self.listener.fence = self.fence
        return True

    def refuse(self, why):
        self.say({"error": why})
        self.is_over = True
        return False

    def say(self, words):
        # A few hundred bytes, which fit into the empty buffer of a new connection.
        self.connection.sendall(json.dumps(words).encode() + b"\n")
