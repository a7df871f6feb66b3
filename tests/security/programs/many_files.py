# Creates 100,000 names, if the sandbox allows it. Hard links use no bytes.
import os

open("first.txt", "w").write("x")
made = 1
try:
    for made in range(1, 100000):
        os.link("first.txt", "n%06d.txt" % made)
except OSError:
    pass
print(made, flush=True)
os._exit(0)
