"""First process of a pod: waits for one worker, then becomes the guest agent on that connection.

Start: `python3 -I -S pod.py LISTEN [OPTIONS OF agent.py that belong to the image]`. LISTEN is a TCP port or
the path of a unix socket. The worker sends one line of JSON, {"pod": NAME, "options": [MORE OPTIONS]}. The
answer is {"pod": NAME}, or {"error": TEXT} before the connection is closed. Another name is refused, because
the address may belong to another pod by now.

The agent is then this process, PID 1. When the connection ends, it ends everything, and with it the pod.

For a session that outlives its worker the line also has {"fence": N}, and 32 bytes of a key follow it. The
answer is then {"pod", "keeps": true}. If such a connection ends while the sandbox is proven clean, the agent
waits for the next worker that has the key (reattach.py). Otherwise everything ends, as above.
"""
import json
import os
import socket
import sys

HELLO_MAX = 16384
# A worker sends its line at once. A kubelet's probe sends none.
HELLO_SECONDS = 5
# If a worker's host is gone, its program ends after half a minute.
SILENCE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
HERE = os.path.dirname(os.path.abspath(__file__))


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


def configure(connection):
    # The timeout of the greeting ends here: the agent reads and writes blocking descriptors.
    connection.setblocking(True)
    if connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in SILENCE.items():
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def hello(connection, server):
    """Returns the agent's options and the session's Listener, which is None without a session. Returns only
    None if the peer is no worker.

    Reads byte by byte, because later bytes belong to the agent.
    """
    connection.settimeout(HELLO_SECONDS)
    line = b""
    while not line.endswith(b"\n"):
        byte = connection.recv(1)
        if not byte or len(line) >= HELLO_MAX:
            return None
        line += byte
    asked = json.loads(line)
    name, options, fence = asked["pod"], asked["options"], asked.get("fence")
    if name != socket.gethostname():
        connection.sendall(json.dumps({"error": "this is another pod"}).encode() + b"\n")
        return None
    if not all(isinstance(option, str) for option in options):
        raise ValueError("options")
    listener, answer = None, {"pod": name}
    if fence is not None:
        listener, answer["keeps"] = listener_for(connection, server, name, fence), True
    connection.sendall(json.dumps(answer).encode() + b"\n")
    return options, listener


def listener_for(connection, server, name, fence):
    sys.dont_write_bytecode = True
    if HERE not in sys.path:
        sys.path.insert(0, HERE)
    # Imported only for sessions.
    from cofferdam_agent.reattach import Key, Listener

    return Listener(server, configure, name, int(fence), Key(connection))


def main():
    server = listen(sys.argv[1])
    while True:
        connection, _ = server.accept()
        try:
            greeting = hello(connection, server)
        except (OSError, ValueError, KeyError, TypeError):
            greeting = None
        if greeting is not None:
            break
        connection.close()
    options, listener = greeting
    configure(connection)
    for number in (0, 1):
        os.dup2(connection.fileno(), number)
    connection.close()
    if listener is not None:
        from cofferdam_agent.main import main as become

        become([*sys.argv[2:], *options], listener=listener)
    server.close()
    os.execv(sys.executable, [sys.executable, "-I", "-S", os.path.join(HERE, "agent.py"), *sys.argv[2:], *options])


main()
