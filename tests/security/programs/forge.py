# Writes forged frames to every writable descriptor and to files of other processes, then exits with code 3.
# The frames: X with code 0, a value, a listing, one of excessive size, an unknown one, and some of the
# tunnel.
import json
import os
import struct

end = {"code": 0, "signal": None, "wallUs": 1, "cpuUs": 1, "maxRssKb": 1, "memPeak": 1, "oomKills": 0, "pidsPeak": 1, "pidsHit": 0, "diskFull": False, "outBytes": 0, "errBytes": 0, "outDropped": 0, "errDropped": 0, "leftovers": False}


def frame(kind, payload):
    return kind + struct.pack("<I", len(payload)) + payload


forged = frame(b"V", b'"forged"') + frame(b"X", json.dumps(end).encode()) + frame(b"Z", b"\0")
forged += b"O" + struct.pack("<I", 0xFFFFFFFF) + frame(b"?", b"x")
# Frames of the tunnel: a connection, its bytes, its end.
forged += frame(b"N", struct.pack("<I", 1)) + frame(b"D", struct.pack("<I", 1) + b"GET http://127.0.0.1/ HTTP/1.1\r\n\r\n") + frame(b"Q", struct.pack("<IB", 1, 0))
written = []
for fd in range(3, 1024):
    try:
        os.write(fd, forged)
        # Descriptor 199 is the program's own channel for its value.
        if fd != 199:
            written.append(fd)
    except OSError:
        pass
try:
    pids = [name for name in os.listdir("/proc") if name.isdigit()]
except OSError:
    pids = []
for pid in {"1", str(os.getppid()), *pids} - {str(os.getpid())}:
    targets = ["/proc/%s/mem" % pid, "/proc/%s/attr/current" % pid, "/proc/%s/oom_score_adj" % pid, "/proc/%s/clear_refs" % pid]
    targets += ["/proc/%s/fd/%d" % (pid, fd) for fd in range(32)]
    for path in targets:
        try:
            with open(path, "r+b", buffering=0) as file:
                what = os.readlink(path) if "/fd/" in path else ""
                file.write(forged)
                written.append((path + " " + what).strip())
        except OSError:
            pass
for path in ("/dev/tty", "/dev/console", "/dev/ptmx"):
    try:
        os.write(os.open(path, os.O_RDWR | os.O_NOCTTY), forged)
    except OSError:
        pass
os.write(1, ("\nwritten %s\n" % written).encode())
os.write(1, forged)
os.write(2, forged)
os._exit(3)
