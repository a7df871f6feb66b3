"""Our end of one execution in an interpreter session. Started as `python3 -I -S in-session.py WISH`, WISH being JSON in base64.

  ask     one question to http_pod.py, which an earlier execution left behind: its answer
  batch   a fresh agent in the same work directory gets `frames`, and its frames up to the end of that one request are the answer;
          a batch is carried out once, whoever asks how often: the claim of its number is taken by who comes first
  result  what became of a batch; where it has not begun, it never will

What is printed stands between two nonces, for the service may cut it and programs may print too; what is too long for that
is left in a file. This file lies in the folder of its incarnation: in another session it is not there, and nothing happens.
"""
import base64
import json
import os
import select
import socket
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.dirname(HERE)
HEAD = struct.Struct("<BI")
# An answer of the agent ends with one of these: exit, end of a collection, usage, end of a copy.
LAST = "XZA"
# All that a run may print, twice, and its files: above it the agent is ended.
ANSWER_MAX = 64 * 1024 * 1024


def taken(wish):
    """The bytes that came with the wish, or before it as a file."""
    if "file" in wish:
        path = os.path.join(DATA, wish["file"])
        with open(path, "rb") as found:
            return found.read()
    return base64.b64decode(wish.get("bytes", ""))


def tell(wish, fields, data=b""):
    if len(data) > wish["inline"]:
        name = wish["out"]
        with open(os.path.join(DATA, name + ".part"), "wb") as out:
            out.write(data)
        os.rename(os.path.join(DATA, name + ".part"), os.path.join(DATA, name))
        fields = dict(fields, file=name, size=len(data))
    else:
        fields = dict(fields, bytes=base64.b64encode(data).decode())
    print(wish["nonce"] + json.dumps(fields) + wish["nonce"], flush=True)


def ask(wish):
    body = taken(wish)
    with socket.socket(socket.AF_UNIX) as pod:
        pod.settimeout(wish["seconds"])
        pod.connect(wish["socket"])
        head = "POST %s HTTP/1.1\r\nHost: pod\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (wish["path"], len(body))
        pod.sendall(head.encode() + body)
        parts = iter(lambda: pod.recv(65536), b"")
        status, _, answer = b"".join(parts).partition(b"\r\n\r\n")
    tell(wish, {"status": int(status.split()[1])}, answer)


def claims(number):
    """True for the first that comes for this number."""
    try:
        os.close(os.open(os.path.join(HERE, "claim-%d" % number), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        return True
    except FileExistsError:
        return False


def batch(wish):
    if not claims(wish["number"]):
        return result(wish)
    data, why = exchange(wish, taken(wish))
    kept = os.path.join(HERE, "result-%d" % wish["number"])
    with open(kept + ".part", "wb") as out:
        out.write(why.encode().ljust(16) + data)
    os.rename(kept + ".part", kept)
    tell(wish, {"state": why}, data)


def result(wish):
    if claims(wish["number"]):
        return tell(wish, {"state": "never"})
    try:
        with open(os.path.join(HERE, "result-%d" % wish["number"]), "rb") as found:
            why, data = found.read(16).strip().decode(), found.read()
    except FileNotFoundError:
        return tell(wish, {"state": "unfinished"})
    tell(wish, {"state": why}, data)


def exchange(wish, frames):
    """Feeds the agent and reads it at once: either side may be full. Its ready frame is left out but where it is what was asked for."""
    mine, agents = socket.socketpair()
    command = [sys.executable, "-I", "-S", os.path.join(HERE, "guest", "agent.py"), *wish["options"]]
    # Its crash is told by the service's own stderr.
    agent = subprocess.Popen(command, stdin=agents, stdout=agents)
    agents.close()
    mine.setblocking(False)
    begun, soft = time.monotonic(), wish.get("soft")
    rest, held, ready, answer, why = memoryview(frames), bytearray(), False, bytearray(), "lost"
    try:
        while True:
            now = time.monotonic() - begun
            if now > wish["hard"] or len(answer) > ANSWER_MAX:
                why = "hard" if now > wish["hard"] else "flood"
                break
            if soft is not None and ready and now > soft and not rest:
                rest, soft = memoryview(HEAD.pack(ord("S"), 4) + struct.pack("<I", wish["grace"])), None
            can_read, can_write, _ = select.select([mine], [mine] if ready and rest else [], [], 0.1)
            if can_write:
                rest = rest[mine.send(rest[:65536]) :]
            if not can_read:
                continue
            data = mine.recv(65536)
            if not data:
                break
            held += data
            while len(held) >= HEAD.size and len(held) >= HEAD.size + HEAD.unpack_from(held)[1]:
                kind, length = HEAD.unpack_from(held)
                frame = held[: HEAD.size + length]
                del held[: HEAD.size + length]
                if not ready:
                    ready = True
                    if frames:
                        continue
                answer += frame
                if not frames or chr(kind) in LAST:
                    why = "done"
                    return bytes(answer), why
    except OSError:
        pass
    finally:
        # The end of its channel: the agent ends all that it started, and then itself.
        mine.close()
        try:
            agent.wait(5)
        except subprocess.TimeoutExpired:
            agent.kill()
            agent.wait()
    return bytes(answer), why


def forget(names):
    """Files that carried earlier wishes and answers: the next execution of the session finds nothing of them."""
    for name in names:
        try:
            os.unlink(os.path.join(DATA, name))
        except OSError:
            pass


if __name__ == "__main__":
    asked = json.loads(base64.b64decode(sys.argv[1]))
    # A worker of before this says nothing of it.
    forget(asked.get("forget", []))
    {"ask": ask, "batch": batch, "result": result}[asked["op"]](asked)
