"""Writes a text file in one step, and makes the folders above it."""


def make_folders(path):
    """Like `mkdir -p`. New folders are private to their owner."""
    missing = []
    while True:
        try:
            os.mkdir(path, 0o700)
            break
        except FileExistsError:
            if os.path.isdir(path):
                break
            # Node reports EEXIST if a file has the name of the folder, and ENOTDIR if a file is further up
            # the path.
            raise OSError(errno.ENOTDIR if missing else errno.EEXIST, "")
        except FileNotFoundError:
            missing.append(path)
            path = os.path.dirname(path)
    for path in reversed(missing):
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            pass


def write(call):
    name, data = call["file_path"], to_bytes(call["content"])
    path = confine_for_writing(call, "write", name)
    try:
        make_folders(os.path.dirname(path))
        write_whole(path, data)
    except OSError as error:
        raise ToolError("write: " + error_text(error, name))
    return "wrote %d bytes to %s" % (len(data), name)


answer(write)
