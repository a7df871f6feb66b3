"""`filesystem.Filesystem` of envd, but for watching, and the words in which envd refuses."""
import os
import shutil
import stat
import time


class Refused(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code, self.message = code, message


def expand(path):
    home = os.path.expanduser("~")
    return os.path.normpath(os.path.join(home, os.path.expanduser(path)))


def entry_of(path):
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        raise Refused("not_found", "file not found: %s" % path)
    kinds = {stat.S_IFDIR: "FILE_TYPE_DIRECTORY", stat.S_IFLNK: "FILE_TYPE_SYMLINK"}
    entry = {
        "name": os.path.basename(path) or "/",
        "type": kinds.get(stat.S_IFMT(found.st_mode), "FILE_TYPE_FILE"),
        "path": path,
        "size": str(found.st_size),
        "mode": stat.S_IMODE(found.st_mode),
        "permissions": stat.filemode(found.st_mode),
        "owner": "user",
        "group": "user",
        "modifiedTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(found.st_mtime)),
    }
    if stat.S_ISLNK(found.st_mode):
        entry["symlinkTarget"] = os.path.realpath(path)
    return entry


def list_folder(wish):
    root, depth = expand(wish["path"]), wish.get("depth") or 1
    if not os.path.isdir(root):
        entry_of(root)
        raise Refused("invalid_argument", "path is not a directory: %s" % root)
    found = []

    def walk(folder, level):
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            found.append(entry_of(path))
            if level < depth and os.path.isdir(path) and not os.path.islink(path):
                walk(path, level + 1)

    walk(root, 1)
    return {"entries": found}


def make_folder(wish):
    path = expand(wish["path"])
    if os.path.isdir(path):
        raise Refused("already_exists", "directory already exists: %s" % path)
    if os.path.lexists(path):
        raise Refused("invalid_argument", "path is a file: %s" % path)
    os.makedirs(path)
    return {"entry": entry_of(path)}


def move(wish):
    source, target = expand(wish["source"]), expand(wish["destination"])
    entry_of(source)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    os.rename(source, target)
    return {"entry": entry_of(target)}


def remove(wish):
    path = expand(wish["path"])
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
    return {}


FILE_CALLS = {
    "/filesystem.Filesystem/Stat": lambda wish: {"entry": entry_of(expand(wish["path"]))},
    "/filesystem.Filesystem/ListDir": list_folder,
    "/filesystem.Filesystem/MakeDir": make_folder,
    "/filesystem.Filesystem/Move": move,
    "/filesystem.Filesystem/Remove": remove,
}
