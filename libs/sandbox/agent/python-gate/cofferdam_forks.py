"""The fork server of a cell: an interpreter that stops half-way through its start and forks once per run.

It holds nothing of an execution, is not dumpable (no ptrace, no /proc/…/mem, no pidfd_getfd) and has another
uid than programs if the agent can give it one. A fork stays like that until it learns what to run; then the
function that `serve` returned makes it the program's. Forks become children of the agent:

    agent ── files of a run ──> server ── fork ──> between ── fork ──> fork
"""
import os
import sys

import _ctypes
import _socket

PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4

handle = _ctypes.dlopen(None, os.RTLD_NOW)
syscall_at = _ctypes.dlsym(handle, "syscall")


def prctl(option, value):
    return _ctypes.call_function(_ctypes.dlsym(handle, "prctl"), (option, value, 0, 0, 0))


def serve(gate, ready, without_input):
    """Returns only in forks: a function that turns the fork into the program's process."""
    gate.freeze()
    agent = os.getppid()
    channel = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, gate.CONTROL_IN)
    prctl(PR_SET_DUMPABLE, 0)
    os.write(gate.CONTROL_OUT, ready)
    os.close(gate.CONTROL_OUT)
    while True:
        request, held, _, _ = channel.recvmsg(128, 256)
        if not request:
            os._exit(0)
        fds = []
        for _, _, data in held:
            fds += [int.from_bytes(data[at : at + 4], sys.byteorder) for at in range(0, len(data), 4)]
        if fork() == 0:
            break
        # Closed even if the fork failed: then the agent sees the pipes end.
        for fd in fds:
            os.close(fd)

    os.setsid()
    channel.detach()
    without_input.is_forked(fds[0])
    for number, fd in zip((1, 2, gate.CONTROL_IN, gate.CONTROL_OUT, gate.RULES), fds[1:]):
        os.dup2(fd, number, number < 3)
    for fd in fds:
        os.close(fd)
    prctl(PR_SET_PDEATHSIG, 9)
    if os.getppid() != agent:
        os._exit(1)
    reseed()
    uid, gid, restrict = (int(word) for word in request.split())

    def become():
        try:
            change()
        except BaseException:
            os._exit(126)  # It may still have the agent's uid: never go on as a program.

    def change():
        if uid >= 0:
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
        prctl(PR_SET_DUMPABLE, 1)
        prctl(PR_SET_PDEATHSIG, 9)  # Changing the uid took it away.
        if os.getppid() != agent:
            os._exit(1)
        if restrict >= 0:
            _ctypes.call_function(syscall_at, (restrict, gate.RULES, 0))
            os.close(gate.RULES)

    return become


def fork():
    """Forks twice, so that the new process becomes a child of the agent."""
    try:
        first = os.fork()
    except OSError:
        return -1  # No process to be had.
    if first > 0:
        os.waitpid(first, 0)
        return first
    between = os.getpid()
    ending, held = os.pipe()
    if os.fork():
        os._exit(0)
    # The middle process closes this pipe shortly before it ends. Wait for that without spinning.
    os.close(held)
    os.read(ending, 1)
    os.close(ending)
    while os.getppid() == between:
        os.sched_yield()
    return 0


def reseed():
    """`random` reseeds itself after a fork, numpy does not."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
