"""What the file tools share: their input, their answer, paths, and the texts of errors.

Python 3.9 or newer, standard library only. The source of a tool is this file followed by the tool's own. Paths
are bytes, so that the locale of the sandbox does not matter. Texts and rules are those of Anthropic's SDK.
"""

import errno
import json
import os
import re
import stat
import sys

MAX_LINKS = 40  # MAXSYMLINKS of Linux
TEXTS = {
    errno.ENOENT: "no such file or directory",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.ENOTDIR: "not a directory",
    errno.EISDIR: "is a directory",
    errno.ELOOP: "too many levels of symbolic links",
    errno.ENAMETOOLONG: "file name too long",
    errno.ENOSPC: "no space left on device",
    errno.EMFILE: "too many open files",
    errno.ENFILE: "too many open files",
}


class ToolError(Exception):
    """The message is the answer to the agent, and says what went wrong."""


def to_bytes(text):
    """UTF-8. A surrogate without its other half becomes U+FFFD, as in JavaScript."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text).encode("utf-8")


def error_text(error, name):
    """An OS error as the agent reads it, without a path of the host."""
    if isinstance(error, ValueError):  # a NUL in the path; Node's name for that
        return "%s: i/o error (ERR_INVALID_ARG_VALUE)" % name
    text = TEXTS.get(error.errno)
    return "%s: %s" % (name, text or "i/o error (%s)" % errno.errorcode.get(error.errno, error.errno))


def resolve(base, path):
    """An absolute path without `.` and `..`, decided by its text alone."""
    joined = os.path.normpath(os.path.join(base, path))
    return b"/" + joined.lstrip(b"/")


def realpath(path):
    """Like realpath(3): raises OSError if anything on the way is missing, a loop, or not readable."""
    if len(path) > 4095:
        raise OSError(errno.ENAMETOOLONG, "")
    todo, real, links = path.split(b"/")[::-1], b"/", 0
    while todo:
        name = todo.pop()
        if name in (b"", b"."):
            continue
        if name == b"..":
            real = os.path.dirname(real)
            continue
        step = os.path.join(real, name)
        if not stat.S_ISLNK(os.lstat(step).st_mode):
            if any(part not in (b"", b".") for part in todo) and not os.path.isdir(step):
                raise OSError(errno.ENOTDIR, "")
            real = step
            continue
        links += 1
        if links > MAX_LINKS:
            raise OSError(errno.ELOOP, "")
        target = os.readlink(step)
        real = b"/" if target.startswith(b"/") else real
        todo += target.split(b"/")[::-1]
    return real


def canonical(path):
    """Resolves every link in `path`, even one that leads to nothing. The last parts of `path` need not exist.
    """
    tail, prefix, links = [], path, 0
    while True:
        try:
            return os.path.join(realpath(prefix), *tail[::-1])
        except OSError as error:
            failure = error
        try:
            is_link = stat.S_ISLNK(os.lstat(prefix).st_mode)
        except OSError as error:
            parent = os.path.dirname(prefix)
            if error.errno not in (errno.ENOENT, errno.ENOTDIR) or parent == prefix:
                raise
            tail.append(os.path.basename(prefix))
            prefix = parent
            continue
        if not is_link:
            raise failure
        links += 1
        if links > MAX_LINKS:
            raise OSError(errno.ELOOP, "")
        parent = realpath(os.path.dirname(prefix))
        prefix = resolve(parent, os.path.join(os.readlink(prefix), *tail[::-1]))
        tail = []


def is_within(root, path):
    return path == root or path.startswith(root.rstrip(b"/") + b"/")


def containing(roots, path):
    """The first of `roots` that holds the canonical `path`, or None. Returns the root as it was configured.
    """
    return next((root for root in roots if is_within(canonical(to_bytes(root)), path)), None)


def confine(call, path):
    """The canonical form of `path`, which is inside the working directory or another permitted directory."""
    workdir = canonical(to_bytes(call["workdir"]))
    try:
        real = canonical(resolve(workdir, to_bytes(path)))
    except (OSError, ValueError) as error:
        raise ToolError(error_text(error, "path " + quoted(path)))
    if is_within(workdir, real) or containing(call["allowed"], real) is not None:
        return real
    others = " and its other permitted directories" if call["allowed"] else ""
    raise ToolError("path %s is outside the session's working directory%s" % (quoted(path), others))


def confine_for_writing(call, tool, path):
    real = confine(call, path)
    root = containing(call["readOnly"], real)
    if root is not None:
        raise ToolError("%s: %s is inside read-only directory %s" % (tool, path, root))
    return real


def quoted(text):
    """As JSON.stringify quotes it."""
    text = json.dumps(text, ensure_ascii=False)
    return re.sub("[\ud800-\udfff]", lambda found: "\\u%04x" % ord(found[0]), text)


def open_regular(path, tool, name):
    """A descriptor and the size of a regular file. Does not wait for the writer of a FIFO."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ToolError("%s: %s is not a regular file" % (tool, name))
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    seen = os.fstat(fd)
    if not stat.S_ISREG(seen.st_mode):
        os.close(fd)
        raise ToolError("%s: %s is not a regular file" % (tool, name))
    return fd, seen.st_size


def write_whole(path, data):
    """Replaces the file in one step. A new file is private to its owner; an existing file keeps its mode."""
    try:
        mode = os.stat(path).st_mode & 0o777
    except OSError:
        mode = None
    temporary = os.path.join(os.path.dirname(path), b".tmp-%d-%s" % (os.getpid(), os.urandom(16).hex().encode()))
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as file:
            if mode is not None:
                os.fchmod(fd, mode)
            file.write(data)
        os.rename(temporary, path)
    except BaseException:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise


def answer(run):
    """Reads the call, runs the tool, and prints a line of JSON about the answer, then its text as it is."""
    is_error, text = False, b""
    try:
        text = run(json.loads(sys.stdin.buffer.read()))
    except ToolError as error:
        is_error, text = True, str(error)
    except RecursionError:
        is_error, text = True, "the input is nested too deeply"
    except MemoryError:
        is_error, text = True, "the sandbox has too little memory for this call"
    text = text if isinstance(text, bytes) else to_bytes(text)
    sys.stdout.buffer.write(b'{"is_error":%s}\n' % (b"true" if is_error else b"false") + text)
    sys.stdout.buffer.flush()
