"""Reads a text file, or lines of it. A large file is streamed, so memory is bounded whatever its size."""

CHUNK = 64 * 1024


def text_of(data):
    return data.decode("utf-8", "replace")


def read(call):
    name, limit, wanted = call["file_path"], call["limit"], call["view_range"]
    path = confine(call, name)
    if wanted and len(wanted) != 2:
        raise ToolError("read: view_range must be [start_line, end_line]")
    try:
        fd, size = open_regular(path, "read", name)
        with open(fd, "rb") as file:
            # A file of /proc has more bytes than its size says.
            data = file.read(limit + 1) if size <= limit else b""
            if size > limit or len(data) > limit:
                if not wanted:
                    raise ToolError(
                        "read: %s is %d bytes, exceeds %d-byte limit. Use the view_range parameter to read "
                        "specific line ranges, e.g. view_range: [1, 500]." % (name, max(size, len(data)), limit)
                    )
                file.seek(0)
                return text_of(read_lines(file, name, wanted, limit))
    except OSError as error:
        raise ToolError("read: " + error_text(error, name))
    if not wanted:
        return text_of(data)
    first, last = wanted
    lines = text_of(data).split("\n")
    return "\n".join(lines[max(0, first - 1) : last if last > 0 else len(lines)])


def read_lines(file, name, wanted, limit):
    """Lines `first` to `last`. Never holds more than `limit` bytes and one chunk."""
    first, last = wanted
    start = max(0, first - 1)
    end = last if last > 0 else float("inf")
    number, kept = 0, bytearray()
    if end <= start:
        return b""
    while number < end:
        chunk = file.read(CHUNK)
        if not chunk:
            break
        at = 0
        while at < len(chunk) and number < end:
            newline = chunk.find(b"\n", at)
            if number >= start:
                kept += chunk[at : newline if newline >= 0 else len(chunk)]
                if newline >= 0 and number + 1 < end:
                    kept += b"\n"
                if len(kept) > limit:
                    raise ToolError(too_long(name, wanted, start, end, limit))
            if newline < 0:
                break
            number += 1
            at = newline + 1
    return bytes(kept)


def too_long(name, wanted, start, end, limit):
    if end - start == 1:
        return (
            "read: line %d of %s alone exceeds %d-byte limit. The read tool cannot return part of a line, so "
            "view_range cannot narrow this further." % (start + 1, name, limit)
        )
    return (
        "read: view_range [%d, %d] of %s exceeds %d-byte limit. Narrow the view_range to read a smaller portion."
        % (wanted[0], wanted[1], name, limit)
    )


answer(read)
