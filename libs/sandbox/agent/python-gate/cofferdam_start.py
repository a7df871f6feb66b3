"""One start of Python for two processes: the agent, and the interpreter that waits for the program.

   python3 main.py ── gate ── G with the agent's options ── fork ─┬─ the agent, PID 1: never goes on
                                                                  └─ the gate goes on, as in a start of its own

It saves a second start, 8 of 45 ms CPU. Nothing of the agent is imported before the fork, so the interpreter
is like one with its own start. Program and agent then share the hash seed and the address layout, like forks
of a cell's server.

It is used only if the interpreter can become the program's process without the system calls that the agent
usually makes for it. For that, the agent must be PID 1, whose death ends everything. There must be one uid
without capabilities, and no_new_privs, the filter and the ban on core dumps must already be in force.
Otherwise the agent starts another interpreter.
"""
import os
import sys

OPTIONS_MAX = 64 * 1024
# The mask of a file's type, and the types pipe and socket.
S_IFMT, STREAMS = 0o170000, (0o010000, 0o140000)


def begin(control):
    """Returns only in the interpreter. `control`: the numbers of its two control pipes."""
    options = [os.fsdecode(option) for option in hear().split(b"\0")]
    close_inherited()
    if not can_fork():
        serve(options, None)
    ours, theirs = pipes()
    pid = os.fork()
    if pid == 0:
        become(ours, theirs, control, options)
        return
    for fd in theirs:
        os.close(fd)
    serve(options, (pid,) + ours)


def hear():
    """Receives the first frame. Before it, the worker has not applied the limits to this process."""
    head = read(5)
    size = int.from_bytes(head[1:], "little")
    if head[:1] != b"G" or size > OPTIONS_MAX:
        os._exit(70)
    return read(size)


def read(size):
    data = b""
    while len(data) < size:
        part = os.read(0, size - len(data))
        if not part:
            os._exit(0)
        data += part
    return data


def close_inherited():
    """Closes all descriptors above 2, because a program must not get what the worker passed on."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.close(int(name))
            except OSError:
                pass  # The listing's own.


def can_fork():
    if os.geteuid() == 0:
        return False
    with open("/proc/self/status", "rb") as status:
        if b"\nNoNewPrivs:\t1\n" not in status.read():
            return False
    # Python set up sys.stdin, sys.stdout and sys.stderr for these descriptors. Programs get pipes, so these
    # must be pipes or sockets too.
    return all(os.fstat(fd).st_mode & S_IFMT in STREAMS for fd in range(3))


def pipes():
    """The agent's ends (input, output, errors, control both ways) and the interpreter's, like spawn.pipes."""
    made = [os.pipe() for _ in range(5)]
    # The agent writes to the first and the fourth.
    ours = tuple(made[at][1 if at in (0, 3) else 0] for at in range(5))
    theirs = tuple(made[at][0 if at in (0, 3) else 1] for at in range(5))
    for fd in ours[:3] + ours[4:]:
        os.set_blocking(fd, False)
    return ours, theirs


def become(ours, theirs, control, options):
    """spawn's steps between fork and exec. A failure ends this process, which has the agent's channel."""
    try:
        os.setsid()
        for number, fd in zip((0, 1, 2) + control, theirs):
            os.dup2(fd, number, inheritable=True)
        for fd in ours + theirs:
            os.close(fd)
        limit([value for name, value in zip(options, options[1:]) if name == "--rlimit"])
        prefer_for_oom()
        os.umask(0o022)
    except BaseException:
        os._exit(126)
    # Set by bwrap. The program brings its own variables.
    os.environ.pop("PWD", None)


def limit(wanted):
    if not wanted:
        return
    import resource

    for text in wanted:
        name, _, value = text.partition("=")
        which = getattr(resource, "RLIMIT_" + name.upper())
        hard = resource.getrlimit(which)[1]
        value = int(value) if hard == resource.RLIM_INFINITY else min(int(value), hard)
        resource.setrlimit(which, (value, value))
    del sys.modules["resource"]


def prefer_for_oom():
    """Makes the kernel's OOM killer choose the program before the agent."""
    try:
        with open("/proc/self/oom_score_adj", "w") as out:
            out.write("500")
    except OSError:
        pass


def serve(options, waiting):
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, os.path.dirname(here))
    sys.dont_write_bytecode = True
    from cofferdam_agent.main import main

    main(options, waiting)
