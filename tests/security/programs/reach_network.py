# argv: JSON list of [host, port], and the name of an abstract socket of the host. Prints what was reached.
import json
import socket
import sys

reached = []


def attempt(name, work):
    try:
        work()
        reached.append(name)
    except OSError:
        pass


def tcp(host, port):
    socket.create_connection((host, port), 1).close()


def udp(host, port):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"hello", (host, port))


def abstract(name):
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1)
        client.connect("\0" + name)


for host, port in json.loads(sys.argv[1]):
    attempt("tcp %s %d" % (host, port), lambda: tcp(host, port))
    if host not in ("127.0.0.1", "::1"):
        attempt("udp %s %d" % (host, port), lambda: udp(host, port))
attempt("abstract", lambda: abstract(sys.argv[2]))
attempt("name", lambda: socket.getaddrinfo("example.com", 80))
print(json.dumps(reached))
