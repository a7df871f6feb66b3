# argv[1]: JSON list of [label, raw request as latin-1 text]. Sends each to the proxy on its own connection.
# Prints the status lines that came back, or why there was none.
import json
import re
import socket
import sys

answers = {}
for label, request in json.loads(sys.argv[1]):
    try:
        with socket.create_connection(("127.0.0.1", 3128), 10) as one:
            one.sendall(request.encode("latin-1"))
            one.settimeout(6)
            got = b""
            try:
                while len(got) < 65536:
                    data = one.recv(65536)
                    if not data:
                        break
                    got += data
                    if label == "upgrade" and b"\r\n\r\n" in got:
                        # This connection stays open after its answer.
                        one.settimeout(0.7)
            except socket.timeout:
                pass
            answers[label] = re.findall(r"HTTP/1\.[01] (\d{3})", got.decode("latin-1")) + (["SECRET"] if b"forbidden origin" in got else [])
    except OSError as error:
        answers[label] = [type(error).__name__]
print(json.dumps(answers))
