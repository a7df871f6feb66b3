"""Replaces a string in a file. Works on bytes, so bytes that are not UTF-8 stay as they are."""


def edit(call):
    name, limit = call["file_path"], call["limit"]
    path = confine_for_writing(call, "edit", name)
    try:
        fd, size = open_regular(path, "edit", name)
        with open(fd, "rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise ToolError("edit: " + error_text(error, name))
    size = max(size, len(data))
    if size > limit:
        raise ToolError(
            "edit: %s is %d bytes, exceeds %d-byte limit. The edit tool loads the whole file and cannot modify "
            "a file this large." % (name, size, limit)
        )
    old, new = to_bytes(call["old_string"]), to_bytes(call["new_string"])
    count = data.count(old)
    if count == 0:
        raise ToolError("edit: old_string not found in %s" % name)
    if count > 1 and not call["replace_all"]:
        raise ToolError("edit: old_string appears %d times in %s (must be unique)" % (count, name))
    try:
        write_whole(path, data.replace(old, new))
    except OSError as error:
        raise ToolError("edit: write: " + error_text(error, name))
    return "edited %s (%d replacement(s))" % (name, count)


answer(edit)
