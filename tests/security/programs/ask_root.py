# argv[1]: Python for the root of a hostile machine (hostile-guest.ts). Stays until it is ended.
import socket
import sys
import time

with socket.socket(socket.AF_UNIX) as root:
    root.connect("\0root")
    root.sendall(sys.argv[1].encode())
    root.shutdown(socket.SHUT_WR)
    print("asked", flush=True)
    print(root.makefile().read(), flush=True)
time.sleep(float(sys.argv[2]))
