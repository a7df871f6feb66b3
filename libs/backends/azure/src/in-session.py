"""Our end of one execution in an interpreter session: `python3 -I -S in-session.py WISH`, base64 of JSON.

  ask     sends one request to the http_pod.py of an earlier execution, and returns its answer
  batch   gives the request's frames to a new agent in the same work directory, and returns the agent's frames
          up to the end of its answer; carried out once, however often it is requested
  result  returns the outcome of a batch; if the batch has not begun, it never will

A batch has a permit: a file with a secret, named by the secret's hash. Beginning the batch destroys the file,
so whoever shows the secret later proves that the batch did not begin. A program has our uid, but cannot know
its own batch's secret. Each answer to `batch` and `result` has the next permit. A permit that was created
after a program ran proves nothing.

The answer is printed between two copies of a nonce, because the service may cut output and programs may print
too. A long answer is left in a file. A session that replaced this one lacks this folder, so nothing runs
there.
"""
import base64
import json
import os
import select
import socket
import struct
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.dirname(HERE)
HEAD = struct.Struct("<BI")
# The agent's answer ends with one of these frames: exit (X), end of a collection (Z), usage (A).
LAST = "XZA"
# The largest file (64 MiB) and the heads of its frames. An agent that says more is ended.
ANSWER_MAX = 65 * 1024 * 1024


def taken(wish):
    """Returns the bytes of a request: those in it, or those of the uploaded file that it names."""
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


def place_of(permit):
    return os.path.join(HERE, "permit-" + permit)


def mint():
    """Creates a permit. None if nothing can be written any more: then no further batch can begin."""
    secret = os.urandom(32).hex()
    permit = hashed(secret)
    try:
        with open(place_of(permit), "w") as out:
            out.write(secret)
    except OSError:
        return None
    return permit


def hashed(secret):
    # Imported here, because each request to the pod starts Python anew and does not need it.
    import hashlib

    return hashlib.sha256(secret.encode()).hexdigest()


def spends(permit):
    """True for the first call with this permit, unless the permit is forged."""
    place = place_of(permit)
    # Spend the permit in a child process, so that this process, whose memory a program may read, never holds
    # the secret.
    child = os.fork()
    if child == 0:
        try:
            os.rename(place, place + ".spent")
            with open(place + ".spent") as found:
                secret = found.read(64)
            os.unlink(place + ".spent")
            os._exit(0 if hashed(secret) == permit else 1)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def voids(permit):
    """Returns the secret of an unspent permit, which then can never be spent. None for a spent one."""
    place = place_of(permit)
    try:
        os.rename(place, place + ".void")
    except FileNotFoundError:
        pass  # Spent, or voided by a call whose answer was lost.
    try:
        with open(place + ".void") as found:
            return found.read(64)
    except FileNotFoundError:
        return None


def batch(wish):
    if not spends(wish["permit"]):
        return result(wish)
    data, why = exchange(wish, taken(wish))
    kept = place_of(wish["permit"]) + ".result"
    try:
        with open(kept + ".part", "wb") as out:
            out.write(why.encode().ljust(16) + data)
        os.rename(kept + ".part", kept)
    except OSError:
        pass  # The program filled the disk, so only this answer has the result.
    tell(wish, {"state": why, "permit": mint()}, data)


def result(wish):
    secret = voids(wish["permit"])
    if secret is not None:
        return tell(wish, {"state": "never", "proof": secret, "permit": mint()})
    try:
        with open(place_of(wish["permit"]) + ".result", "rb") as found:
            why, data = found.read(16).strip().decode(), found.read()
    except FileNotFoundError:
        # The answer includes the permit of the next batch, because the worker may still collect files after
        # the service ended this batch.
        return tell(wish, {"state": "unfinished", "permit": mint()})
    tell(wish, {"state": why, "permit": mint()}, data)


def exchange(wish, frames):
    """Sends frames to an agent while reading its answers, because either buffer may fill up."""
    import subprocess

    mine, agents = socket.socketpair()
    command = [sys.executable, "-I", "-S", os.path.join(HERE, "guest", "agent.py"), *wish["options"]]
    # The agent's stderr becomes the execution's, so a crash is reported there.
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
        # The agent ends everything that it started, and itself, when its channel ends.
        mine.close()
        try:
            agent.wait(5)
        except subprocess.TimeoutExpired:
            agent.kill()
            agent.wait()
    return bytes(answer), why


def forget(names):
    """Removes the transfer files of earlier executions, so that later executions find nothing in them."""
    for name in names:
        try:
            os.unlink(os.path.join(DATA, name))
        except OSError:
            pass


if __name__ == "__main__":
    asked = json.loads(base64.b64decode(sys.argv[1]))
    # An older worker does not send it.
    forget(asked.get("forget", []))
    {"ask": ask, "batch": batch, "result": result}[asked["op"]](asked)
