"""The two ports to the host: one of the first process (vm_init.py), one of the guest agent. Standard library
only.

They are virtio-serial ports (QEMU), or listeners on vsock where the kernel's command line has
`cofferdam.ports=vsock` (Firecracker). A snapshot resets connections of vsock, and listeners stay.
"""
import json
import os
import socket
import time

CONTROL, AGENT = 5004, 5005
LINE_MAX = 256 * 1024
LOOK_S = 0.002
VSOCK_WORD = "cofferdam.ports=vsock"


def wait_for_host():
    """Says hello in the machine that is saved. Returns control port, agent's port and what the thaw tells."""
    hello = {"hello": 1, "kernel": os.uname().release}
    with open("/proc/cmdline") as words:
        return wait_on_vsock(hello) if VSOCK_WORD in words.read().split() else wait_on_serial(hello)


def wait_on_serial(hello):
    control, port = open_serial(CONTROL), open_serial(AGENT)
    say(control, hello)
    return control, port, read_line(control)


def open_serial(number):
    """The descriptor of a virtio-serial port by its name."""
    root, wanted = "/sys/class/virtio-ports", "p%d" % number
    until = time.monotonic() + 10
    while True:
        for name in os.listdir(root) if os.path.isdir(root) else []:
            with open("%s/%s/name" % (root, name)) as told:
                if told.read().strip() == wanted:
                    return os.open("/dev/" + name, os.O_RDWR | os.O_CLOEXEC)
        if time.monotonic() > until:
            raise OSError("there is no port %s" % wanted)
        time.sleep(0.01)


def wait_on_vsock(hello):
    """The connection of the hello ends with the snapshot or before it, and the thaw comes on another one."""
    with listen_on_vsock(CONTROL) as controls, listen_on_vsock(AGENT) as agents:
        told = None
        while told is None:
            control = controls.accept()[0].detach()
            try:
                if hello is not None:
                    say(control, hello)
                    hello = None
                told = read_line(control, may_end=True)
            except ConnectionError:
                pass
            if told is None:
                os.close(control)
        # From here on nobody listens, so no program can take the place of the host.
        return control, agents.accept()[0].detach(), told


def listen_on_vsock(number):
    listener = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
    listener.bind((socket.VMADDR_CID_ANY, number))
    listener.listen()
    return listener


def read_line(fd, may_end=False):
    """A line of JSON. None if the connection ended before it was there."""
    line = bytearray()
    while not line.endswith(b"\n"):
        data = os.read(fd, 65536)
        if not data and may_end:
            return None
        if not data:
            # The host has not opened its end of the serial port yet. Look again: nothing announces that it
            # does.
            time.sleep(LOOK_S)
        line += data
        if len(line) > LINE_MAX:
            raise ValueError("a line of more than %d bytes" % LINE_MAX)
    return json.loads(line)


def say(fd, words):
    data = json.dumps(words).encode() + b"\n"
    while data:
        data = data[os.write(fd, data) :]
