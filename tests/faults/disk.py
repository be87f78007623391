"""What a disk may hold after the power was cut, made of the changes that interpose.c logged.

A file is there with the bytes of its last sync, and of what was written since each block (4096 bytes,
or a sector of 512) may have got to the disk or not, in the version of any moment; its length is that
of any moment, too. Names (made, renamed, removed) get there in their order, as journals of file
systems have it, up to any moment since their folder was synced: a file's own sync does not give it
its name.
"""
import os
import random
import struct

OPEN, WRITE, TRUNCATE, SYNC, SYNC_ALL, RENAME, UNLINK, MKDIR = range(8)
RECORD = struct.Struct("<5Q")
SHAPES = ["lost", "kept", "blocks", "sectors", "lengths"]


def read_log(path):
    """[(op, inode, at, path, data)]"""
    events = []
    with open(path, "rb") as file:
        raw = file.read()
    at = 0
    while at < len(raw):
        op, inode, where, path_len, size = RECORD.unpack_from(raw, at)
        at += RECORD.size
        name = os.fsdecode(raw[at:at + path_len])
        at += path_len
        events.append((op, inode, where, name, raw[at:at + size]))
        at += size
    return events


class File:
    def __init__(self, data=b""):
        self.durable = bytearray(data)
        self.now = bytearray(data)
        self.pending = []  # (at, data), or (size, None)

    def write(self, at, data):
        if len(self.now) < at:
            self.now.extend(bytes(at - len(self.now)))
        self.now[at:at + len(data)] = data
        self.pending.append((at, data))

    def truncate(self, size):
        del self.now[size:]
        self.now.extend(bytes(size - len(self.now)))
        self.pending.append((size, None))

    def sync(self):
        self.durable = bytearray(self.now)
        self.pending = []

    def lengths(self):
        """After each of the changes that wait."""
        size, found = len(self.durable), [len(self.durable)]
        for at, data in self.pending:
            size = at if data is None else max(size, at + len(data))
            found.append(size)
        return found

    def after_cut(self, shape, rng):
        if shape == "lost" or not self.pending:
            return bytes(self.durable)
        if shape == "kept":
            return bytes(self.now)
        unit = 512 if shape == "sectors" else 4096
        lengths = self.lengths()
        size = lengths[-1] if shape == "lengths" else rng.choice(lengths)
        data = bytearray(self.durable[:size])
        data.extend(bytes(size - len(data)))
        chance = rng.choice((0.1, 0.5, 0.9))
        touched = {}  # block: its changes, in their order
        for number, (at, new) in enumerate(self.pending):
            if new:
                for block in range(at // unit, (at + len(new) - 1) // unit + 1):
                    touched.setdefault(block, []).append(number)
        for block, numbers in touched.items():
            if rng.random() >= chance:
                continue
            for number in numbers[:rng.randint(1, len(numbers))]:
                at, new = self.pending[number]
                begin, end = max(at, block * unit), min(at + len(new), (block + 1) * unit, size)
                if begin < end:
                    data[begin:end] = new[begin - at:end - at]
        return bytes(data)


class Disk:
    """Begins as `base`, a folder's files, all of them synced. Log paths begin with `root`."""

    def __init__(self, base, root):
        self.root = root
        self.files, self.inodes = {}, {}
        self.folders = {""}
        for where, folders, names in os.walk(base):
            below = os.path.relpath(where, base)
            below = "" if below == "." else below
            self.folders.update(os.path.join(below, name) for name in folders)
            for name in names:
                path = os.path.join(where, name)
                if os.path.isfile(path):
                    with open(path, "rb") as file:
                        self.files[os.path.join(below, name)] = File(file.read())
        self.durable = dict(self.files), set(self.folders)
        self.names = []  # what waits: (op, path, other path or File)

    def below(self, path):
        return os.path.relpath(path, self.root) if path != self.root else ""

    @staticmethod
    def change_names(state, change):
        files, folders = state
        op, path, other = change
        if op == OPEN:
            files[path] = other
        elif op == UNLINK:
            files.pop(path, None)
            folders.discard(path)
        elif op == MKDIR:
            folders.add(path)
        elif path in files:
            files[other] = files.pop(path)

    def note(self, op, path, other=None):
        self.names.append((op, path, other))
        self.change_names((self.files, self.folders), (op, path, other))

    def event(self, event):
        op, inode, at, path, data = event
        path = self.below(path) if path else ""
        if op == OPEN:
            if path not in self.files:
                self.note(OPEN, path, File())
            self.inodes[inode] = self.files[path]
            if at:
                self.files[path].truncate(0)
        elif op == WRITE:
            self.inodes[inode].write(at, data)
        elif op == TRUNCATE:
            self.inodes[inode].truncate(at)
        elif op == SYNC and at:
            self.sync_folder(path)
        elif op == SYNC:
            if inode in self.inodes:
                self.inodes[inode].sync()
        elif op == SYNC_ALL:
            for file in self.files.values():
                file.sync()
            self.durable = dict(self.files), set(self.folders)
            self.names = []
        elif op == RENAME:
            self.note(RENAME, path, self.below(os.fsdecode(data)))
        elif op in (UNLINK, MKDIR):
            self.note(op, path)

    def sync_folder(self, folder):
        """Names before the last one that it holds come along: they are in its journal."""
        last = max((i for i, change in enumerate(self.names)
                    if os.path.dirname(change[1]) == folder), default=-1)
        for change in self.names[:last + 1]:
            self.change_names(self.durable, change)
        del self.names[:last + 1]

    def write_out(self, target, shape, seed):
        rng = random.Random(seed)
        files, folders = dict(self.durable[0]), set(self.durable[1])
        some = {"lost": 0, "kept": len(self.names)}.get(shape, rng.randint(0, len(self.names)))
        for change in self.names[:some]:
            self.change_names((files, folders), change)
        for folder in sorted(folders):
            os.makedirs(os.path.join(target, folder), exist_ok=True)
        for path, file in sorted(files.items()):
            where = os.path.join(target, path)
            os.makedirs(os.path.dirname(where), exist_ok=True)
            with open(where, "wb") as out:
                if path.endswith("-shm"):  # shared memory: whatever pages were ever written back
                    out.write(rng.randbytes(32768) if rng.random() < 0.5 else b"")
                else:
                    out.write(file.after_cut(shape, rng))


def at_cut(base, root, events, cut):
    disk = Disk(base, root)
    for event in events[:cut]:
        disk.event(event)
    return disk
