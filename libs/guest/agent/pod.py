"""First process of a pod: waits for one worker, then becomes the guest agent whose channel is that connection.

Start: `python3 -I -S pod.py LISTEN [OPTIONS OF agent.py that are the image's own]`, LISTEN being a TCP port, or the path of a unix
socket. The worker sends one line of JSON, {"pod": NAME, "options": [MORE OF THEM]}; the answer is {"pod": OUR NAME}, or {"error": TEXT} and the end of the connection. An
address may have come to another pod meanwhile: who asks for another name is refused. A probe that says nothing costs nothing.

The agent is then this process, PID 1: when the connection ends it ends everything, the container, and so the pod.
"""
import json
import os
import socket
import sys

HELLO_MAX = 16384
# A worker sends its line at once; a kubelet's probe sends none.
HELLO_SECONDS = 5


def listen(where):
    if where.isdigit():
        server = socket.socket(socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET)
        if server.family == socket.AF_INET6:
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("", int(where)))
    else:
        server = socket.socket(socket.AF_UNIX)
        server.bind(where)
    server.listen(8)
    return server


def hello(connection):
    """The options of the agent, or None for who is no worker of ours. Reads byte by byte: what follows is the agent's."""
    connection.settimeout(HELLO_SECONDS)
    line = b""
    while not line.endswith(b"\n"):
        byte = connection.recv(1)
        if not byte or len(line) >= HELLO_MAX:
            return None
        line += byte
    asked = json.loads(line)
    name, options = asked["pod"], asked["options"]
    if name != socket.gethostname():
        connection.sendall(json.dumps({"error": "this is another pod"}).encode() + b"\n")
        return None
    if not all(isinstance(option, str) for option in options):
        raise ValueError("options")
    connection.sendall(json.dumps({"pod": name}).encode() + b"\n")
    return options


def main():
    server = listen(sys.argv[1])
    while True:
        connection, _ = server.accept()
        try:
            options = hello(connection)
        except (OSError, ValueError, KeyError, TypeError):
            options = None
        if options is not None:
            break
        connection.close()
    server.close()
    # No timeout any more: the agent reads and writes blocking descriptors.
    connection.setblocking(True)
    if connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for number in (0, 1):
        os.dup2(connection.fileno(), number)
    connection.close()
    agent = os.path.join(os.path.dirname(os.path.abspath(__file__)), "agent.py")
    os.execv(sys.executable, [sys.executable, "-I", "-S", agent, *sys.argv[2:], *options])


main()
