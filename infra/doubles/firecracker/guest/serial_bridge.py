"""Stands in for the vsock device of a machine that has none. vm_init.py follows in the same file.

The host reaches the vsock ports 5004 and 5005 over virtio-serial ports with the same numbers. Each serial
port carries one connection at a time. This process connects it to the guest's listener over vsock_loopback.
A frame is a letter, the length of its data in four bytes, and the data:

    from the host: O open, D data, E no more data, C close
    to the host:   R ready, A accepted, N nobody listens, D data, E no more data, C closed

After the host's C the guest may still send D and E. Its own C is the last frame of a connection.
serial-vsock.ts is the host's side.
"""


def _bridge():
    import os
    import socket
    import struct
    import threading
    import time

    head = struct.Struct(">cI")
    longest = 65536

    def open_serial(number):
        # The folder is there once vm_init.py has mounted /sys.
        root, wanted = "/sys/class/virtio-ports", "p%d" % number
        while True:
            for name in os.listdir(root) if os.path.isdir(root) else []:
                with open("%s/%s/name" % (root, name)) as told:
                    if told.read().strip() == wanted:
                        return os.open("/dev/" + name, os.O_RDWR | os.O_CLOEXEC)
            time.sleep(0.01)

    class Port:
        def __init__(self, number):
            self.number = number
            self.fd = open_serial(number)
            self.writing = threading.Lock()
            self.connection = self.reader = None

        def send(self, kind, data=b""):
            frame = head.pack(kind, len(data)) + data
            with self.writing:
                while frame:
                    frame = frame[os.write(self.fd, frame) :]

        def read(self, count):
            data = b""
            while len(data) < count:
                some = os.read(self.fd, count - len(data))
                if not some:
                    # An empty read means that the host has not opened its end yet.
                    time.sleep(0.002)
                data += some
            return data

        def serve(self):
            self.send(b"R")
            while True:
                kind, length = head.unpack(self.read(head.size))
                data = self.read(length)
                if kind == b"O":
                    self.open()
                elif kind == b"D":
                    self.pass_on(data)
                elif kind == b"E":
                    self.end(socket.SHUT_WR)
                elif kind == b"C":
                    self.close()

        def open(self):
            connection = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
            try:
                connection.connect((1, self.number))  # VMADDR_CID_LOCAL
            except OSError:
                connection.close()
                self.send(b"N")
                return
            self.connection = connection
            self.send(b"A")
            self.reader = threading.Thread(target=self.pump, args=(connection,))
            self.reader.start()

        def pass_on(self, data):
            try:
                self.connection.sendall(data)
            except OSError:
                pass  # The reader says that the connection is over.

        def pump(self, connection):
            while True:
                try:
                    data = connection.recv(longest)
                except OSError:
                    data = b""
                if not data:
                    break
                self.send(b"D", data)
            self.send(b"E")

        def end(self, how):
            try:
                self.connection.shutdown(how)
            except OSError:
                pass  # The other side was faster.

        def close(self):
            if self.connection is not None:
                self.end(socket.SHUT_RDWR)
                self.reader.join()
                self.connection.close()
                self.connection = None
            self.send(b"C")

    threads = [threading.Thread(target=Port(number).serve) for number in (5004, 5005)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


import os as _os  # noqa: E402

if _os.fork() == 0:
    _bridge()
    _os._exit(1)
