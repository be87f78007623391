#!/usr/bin/env python3
"""A file system whose files can be looked at and opened, and whose reads, or opens, are never answered: a share
that hangs. `stalled_mount.py FOLDER read|open|none SOURCE` serves the files of the folder SOURCE until it is
ended; needs /dev/fuse and the right to mount."""
import ctypes
import os
import stat
import struct
import sys

LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = (
    1, 2, 3, 14, 15, 18, 25, 26, 27, 28, 29, 36, 42)
ROOT = 1
DIRECT_IO = 1  # a read is the reader's own, and waits where it cannot be killed
libc = ctypes.CDLL(None, use_errno=True)


def attributes(inode, path):
    info = os.stat(path)
    return struct.pack("<QQQQQQIIIIIIIIII", inode, info.st_size, (info.st_size + 511) // 512, int(info.st_atime),
                       int(info.st_mtime), int(info.st_ctime), 0, info.st_mtime_ns % 10**9, 0, info.st_mode, 1,
                       info.st_uid, info.st_gid, 0, 4096, 0)


class Server:
    def __init__(self, where, how, source):
        self.how, self.paths = how, [None, source]
        for name in sorted(os.listdir(source)):
            self.paths.append(os.path.join(source, name))
        self.fd = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={self.fd},rootmode={stat.S_IFDIR:o},user_id={os.getuid()},group_id={os.getgid()},allow_other"
        if libc.mount(b"stalled", os.fsencode(where), b"fuse.stalled", 0, options.encode()) != 0:
            raise OSError(ctypes.get_errno(), "mount")

    def answer(self, unique, data=b"", error=0):
        try:
            os.write(self.fd, struct.pack("<IiQ", 16 + len(data), -error, unique) + data)
        except OSError:
            pass  # of a request that was given up

    def serve(self):
        while True:
            try:
                request = os.read(self.fd, 1 << 18)
            except OSError:
                return  # unmounted
            _, code, unique, node = struct.unpack("<IIQQ", request[:24])
            self.take(code, unique, node, request[40:])

    def take(self, code, unique, node, body):
        if code == INIT:
            self.answer(unique, struct.pack("<IIIIHHII", 7, 31, 65536, 0, 12, 9, 65536, 1) + bytes(36))
        elif code == LOOKUP:
            name = os.fsdecode(body.split(b"\0")[0])
            for inode, path in enumerate(self.paths):
                if path and inode > ROOT and os.path.basename(path) == name:
                    self.answer(unique, struct.pack("<QQQQII", inode, 0, 0, 0, 0, 0) + attributes(inode, path))
                    return
            self.answer(unique, error=2)
        elif code == GETATTR:
            self.answer(unique, struct.pack("<QII", 0, 0, 0) + attributes(node, self.paths[node]))
        elif code in (OPEN, OPENDIR):
            if code == OPENDIR or self.how != "open":
                self.answer(unique, struct.pack("<QII", 0, DIRECT_IO if code == OPEN else 0, 0))
        elif code == READ:
            if self.how != "read":
                _, offset, size = struct.unpack("<QQI", body[:20])
                with open(self.paths[node], "rb") as file:
                    file.seek(offset)
                    self.answer(unique, file.read(size))
        elif code == READDIR:
            self.list(unique, struct.unpack("<QQI", body[:20])[1])
        elif code in (RELEASE, FLUSH, RELEASEDIR):
            self.answer(unique)
        elif code not in (FORGET, BATCH_FORGET, INTERRUPT):
            self.answer(unique, error=38)

    def list(self, unique, offset):
        out = b""
        for inode in range(max(offset + 1, ROOT + 1), len(self.paths)):
            name = os.fsencode(os.path.basename(self.paths[inode]))
            entry = struct.pack("<QQII", inode, inode, len(name), stat.S_IFREG >> 12) + name
            out += entry + bytes(-len(entry) % 8)
        self.answer(unique, out)


if __name__ == "__main__":
    server = Server(*sys.argv[1:4])
    print("mounted", flush=True)
    server.serve()
