"""The fork server of a cell: a real start, held half-way, that forks here once per run and never goes on
itself.

It holds nothing of an execution, is not dumpable (no ptrace, no /proc/…/mem, no pidfd_getfd) and, where the
agent can give it one, has another uid than programs. Its forks stay like that until they are told what to
run: only then does what `serve` returns in them make them the program's. They become children of the agent,
which alone waits for them:

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
    """Returns in the forks: a function that makes one the program's."""
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
        # Whether there is a fork or not: without one the agent sees the pipes end.
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
    """Twice, so that the child becomes one of the agent's."""
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
    # Its end closes the pipe a moment before it hands us on: waited for, not spun for, on a busy host.
    os.close(held)
    os.read(ending, 1)
    os.close(ending)
    while os.getppid() == between:
        os.sched_yield()
    return 0


def reseed():
    """`random` does this itself after a fork, numpy does not. What asks the kernel each time needs nothing.
    """
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
