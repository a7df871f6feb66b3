# argv[1]: a file of the host. Leaves everything in the work directory that may be a trap for the collector of
# files, and a daemon that keeps swapping a file for a link. With a second argument it runs until it is ended.
import os
import socket
import sys
import time

victim = sys.argv[1]
open("good.txt", "w").write("good")
for name, target in (("shadow.txt", "/etc/shadow"), ("passwd.txt", "/etc/passwd"), ("victim.txt", victim), ("zero.txt", "/dev/zero"), ("loop.txt", "loop.txt"), ("agent.txt", "/proc/1/environ"), ("self.txt", "/proc/self/mem")):
    os.symlink(target, name)
for name, target in (("rootdir", "/"), ("etcdir", "/etc"), ("updir", "../.."), ("victimdir", os.path.dirname(victim)), ("looped", ".")):
    os.symlink(target, name)
os.mkfifo("fifo.txt")
sock = socket.socketpair() and None
try:
    sock = socket.socket(socket.AF_UNIX)
    sock.bind("socket.txt")
except OSError:
    pass
try:
    with open("sparse.txt", "wb") as sparse:
        sparse.truncate(1 << 40)
except OSError:
    pass
open("line\nbreak.txt", "w").write("1")
open(b"invalid-\xff\xfe.txt", "w").write("1")
open("back\\slash.txt", "w").write("1")
open("\u202egpj.txt", "w").write("1")
os.mkdir("sub")
open("sub/deep.txt", "w").write("deep")
open("unreadable.txt", "w").write("no")
try:
    os.chmod("unreadable.txt", 0)
except OSError:
    pass
for source in ("/etc/passwd", "/bin/sh"):
    try:
        os.link(source, "hard-%s.txt" % os.path.basename(source))
    except OSError:
        pass
long = "d" * 200
path = ""
for _ in range(30):
    path += long + "/"
    try:
        os.mkdir(path)
    except OSError:
        break
here = os.getcwd()
for _ in range(200):
    try:
        os.mkdir("nest")
        os.chdir("nest")
    except OSError:
        break
os.chdir(here)
if os.fork() == 0:
    os.setsid()
    while True:
        for make in (lambda: open("swap.new", "w").close(), lambda: os.symlink(victim, "swap.new")):
            try:
                make()
                os.rename("swap.new", "swap.txt")
            except OSError:
                pass
while not os.path.lexists("swap.txt"):
    pass
if len(sys.argv) > 2:
    time.sleep(60)
