"""The Python process that a session keeps. Cells arrive on one pipe, and their exit codes go to another.

At the end of a cell the kernel writes a mark to fds 1 and 2 directly. Output of the cell's children or of
os.write therefore precedes the mark.
"""
import json
import os
import sys
import traceback


def fresh():
    return {"__name__": "__main__", "__builtins__": __builtins__}


def run(space, code):
    try:
        exec(compile(code, "<cell>", "exec"), space)
        return 0
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 255
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1


def main():
    to_kernel, from_kernel = (int(fd) for fd in sys.argv[1:3])
    for fd in (to_kernel, from_kernel):
        os.set_inheritable(fd, False)
    cells, space = os.fdopen(to_kernel, "rb"), fresh()
    while True:
        head = cells.read(4)
        if len(head) < 4:
            return
        cell = json.loads(cells.read(int.from_bytes(head, "big")))
        if cell["clear"]:
            space = fresh()
        code = run(space, cell["code"])
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                pass
        mark = cell["mark"].encode()
        os.write(from_kernel, json.dumps({"code": code}).encode() + b"\n")
        os.write(1, mark)
        os.write(2, mark)


main()
