"""Watching of envd's `filesystem.Filesystem` with inotify: as a stream, and as watchers that clients poll."""
import ctypes
import os
import select
import socket
import struct
import threading
import time
import uuid

from envd_files import Refused, expand

# Constants of linux/inotify.h.
ATTRIB, MODIFY, MOVED_FROM, MOVED_TO = 0x4, 0x2, 0x40, 0x80
CREATE, DELETE, DELETE_SELF, MOVE_SELF = 0x100, 0x200, 0x400, 0x800
HEARD = ATTRIB | MODIFY | MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | MOVE_SELF
IS_DIRECTORY = 0x40000000
TYPES = (
    (CREATE | MOVED_TO, "EVENT_TYPE_CREATE"),
    (MOVED_FROM | MOVE_SELF, "EVENT_TYPE_RENAME"),
    (ATTRIB, "EVENT_TYPE_CHMOD"),
    (MODIFY, "EVENT_TYPE_WRITE"),
    (DELETE | DELETE_SELF, "EVENT_TYPE_REMOVE"),
)
HEAD = struct.Struct("iIII")
libc = ctypes.CDLL(None, use_errno=True)


class Watch:
    def __init__(self, wish):
        self.root, self.is_recursive = expand(wish["path"]), bool(wish.get("recursive"))
        if not os.path.exists(self.root):
            raise Refused("not_found", "path %s not found" % self.root)
        if not os.path.isdir(self.root):
            raise Refused("invalid_argument", "path %s not a directory" % self.root)
        self.fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise Refused("internal", "error creating watcher: %s" % os.strerror(ctypes.get_errno()))
        self.paths = {}
        self.add(self.root)

    def add(self, path):
        number = libc.inotify_add_watch(self.fd, os.fsencode(path), HEARD)
        if number < 0:
            return
        self.paths[number] = path
        if self.is_recursive:
            for entry in os.scandir(path):
                if entry.is_dir(follow_symlinks=False):
                    self.add(entry.path)

    def events(self):
        """Events since the last call."""
        try:
            data = os.read(self.fd, 256 * 1024)
        except BlockingIOError:
            return []
        found, at = [], 0
        while at < len(data):
            number, mask, _, length = HEAD.unpack_from(data, at)
            at += HEAD.size + length
            folder = self.paths.get(number)
            if folder is None:
                continue
            name = os.fsdecode(data[at - length : at].rstrip(b"\0"))
            path = os.path.join(folder, name) if name else folder
            if self.is_recursive and mask & IS_DIRECTORY and mask & (CREATE | MOVED_TO):
                self.add(path)
            shown = os.path.relpath(path, self.root)
            found += [{"name": shown, "type": kind} for bits, kind in TYPES if mask & bits]
        return found

    def close(self):
        os.close(self.fd)


def watch_folder(wish, call):
    watch = Watch(wish)
    try:
        yield {"start": {}}
        spoke_at = time.monotonic()
        while not is_gone(call.connection):
            select.select([watch.fd, call.connection], [], [], min(1.0, call.left_s()))
            for event in watch.events():
                yield {"filesystem": event}
                spoke_at = time.monotonic()
            call.check_deadline()
            if time.monotonic() - spoke_at >= call.keepalive_s:
                yield {"keepalive": {}}
                spoke_at = time.monotonic()
    finally:
        watch.close()


def is_gone(connection):
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


watchers, lock = {}, threading.Lock()


def create_watcher(wish):
    watch, name = Watch(wish), "w" + uuid.uuid4().hex
    with lock:
        watchers[name] = watch
    return {"watcherId": name}


def watcher_events(wish):
    with lock:
        events = watcher_of(wish).events()
    return {"events": events} if events else {}


def remove_watcher(wish):
    with lock:
        watcher_of(wish).close()
        del watchers[wish["watcherId"]]
    return {}


def watcher_of(wish):
    watch = watchers.get(wish.get("watcherId"))
    if watch is None:
        raise Refused("not_found", "watcher with id %s not found" % wish.get("watcherId"))
    return watch


WATCH_CALLS = {
    "/filesystem.Filesystem/CreateWatcher": create_watcher,
    "/filesystem.Filesystem/GetWatcherEvents": watcher_events,
    "/filesystem.Filesystem/RemoveWatcher": remove_watcher,
}
WATCH_STREAMS = {"/filesystem.Filesystem/WatchDir": watch_folder}
