"""Installs the agent into a foreign image, and becomes or starts it. Given to python3 by -c, with arguments:

BUNDLE FOLDER HOST exec ARGS...           becomes agent.py ARGS, whose channel is stdin and stdout
BUNDLE FOLDER HOST listen ARGS...         starts pod.py ARGS in the background and ends

BUNDLE is JSON: {name: base64}. If HOST is not the host's name, the address belongs to another pod by now, and
nothing is started.
"""
import base64
import json
import os
import socket
import sys

bundle, folder, host, way, arguments = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5:]
if socket.gethostname() != host:
    sys.exit("this is another pod")
with open(bundle, "rb") as packed:
    files = json.load(packed)
os.unlink(bundle)
for name, content in files.items():
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(base64.b64decode(content))
    if name.startswith("bin/"):
        os.chmod(path, 0o755)
if way == "listen":
    if os.fork():
        os._exit(0)
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
program = os.path.join(folder, "pod.py" if way == "listen" else "agent.py")
os.execv(sys.executable, [sys.executable, "-I", "-S", program, *arguments])
