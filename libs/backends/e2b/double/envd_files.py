"""envd's `filesystem.Filesystem` except watching, and the messages of envd's refusals."""
import os
import pwd
import shutil
import stat
import time

KINDS = {stat.S_IFDIR: "FILE_TYPE_DIRECTORY", stat.S_IFREG: "FILE_TYPE_FILE"}


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
    is_link = stat.S_ISLNK(found.st_mode)
    entry = {
        "name": os.path.basename(path) or "/",
        "path": path,
        "permissions": permissions_of(found.st_mode),
        "owner": name_of(pwd.getpwuid, found.st_uid),
        "group": name_of(pwd.getpwuid, found.st_gid),
        "modifiedTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(found.st_mtime)),
    }
    if found.st_size:
        entry["size"] = str(found.st_size)
    if is_link:
        entry["symlinkTarget"] = os.path.realpath(path) if os.path.exists(path) else path
    # Type and mode of a link are those of its target. A broken link has neither.
    target = found if not is_link else os.stat(path) if os.path.exists(path) else None
    if target is not None:
        if stat.S_IMODE(target.st_mode):
            entry["mode"] = stat.S_IMODE(target.st_mode)
        kind = KINDS.get(stat.S_IFMT(target.st_mode))
        if kind is not None:
            entry["type"] = kind
    return entry


def permissions_of(mode):
    """Permissions as Go prints them, because envd is written in Go: those of a link begin with L."""
    words = stat.filemode(mode)
    return "L" + words[1:] if stat.S_ISLNK(mode) else words


def name_of(look_up, number):
    """A jail has no groups, so each user has one with the user's name."""
    try:
        return look_up(number).pw_name
    except KeyError:
        return str(number)


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
        raise Refused("invalid_argument", "path already exists but it is not a directory: %s" % path)
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
