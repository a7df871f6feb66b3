"""Unpacks the agent in an interpreter session; with `pod`, leaves http_pod.py running.

`python3 -I -S -c THIS WISH`. Repeating it changes nothing: the folder exists completely or not at all.
"""
import base64
import json
import os
import subprocess
import sys
import time

wish = json.loads(base64.b64decode(sys.argv[1]))
folder = wish["folder"]
if not os.path.isdir(folder):
    making = folder + ".new"
    with open(wish["bundle"], "rb") as packed:
        files = json.load(packed)
    for name, content in files.items():
        path = os.path.join(making, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as out:
            out.write(base64.b64decode(content))
        if "/bin/" in name:
            os.chmod(path, 0o755)
    os.rename(making, folder)
    os.unlink(wish["bundle"])
if wish["pod"] and not os.path.exists(wish["socket"]):
    null = subprocess.DEVNULL
    command = [sys.executable, "-I", "-S", folder + "/guest/http_pod.py", wish["socket"]]
    subprocess.Popen(command, stdin=null, stdout=null, stderr=null, start_new_session=True)
    until = time.monotonic() + 20
    while not os.path.exists(wish["socket"]) and time.monotonic() < until:
        time.sleep(0.02)
is_ready = not wish["pod"] or os.path.exists(wish["socket"])
print(wish["nonce"] + json.dumps({"state": "ready" if is_ready else "failed"}) + wish["nonce"])
