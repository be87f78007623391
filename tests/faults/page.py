"""The page that interpose.c maps: what is to fail, and what was counted. The lists are those of its
enums, in the same order."""
import ctypes
import errno
import mmap
import os

ROLES = ["cli", "scheduler", "worker", "decoder", "finalize"]
CALLS = ["malloc", "mmap", "read", "receive", "write", "send", "sync", "open", "truncate", "rename",
         "unlink", "socket", "spawn", "thread", "signal", "step", "any"]
ACTIONS = ["none", "fail", "short", "torn", "garbage", "kill", "stop", "slow"]
EVER = 1 << 62


class _Page(ctypes.Structure):
    _fields_ = ([(name, ctypes.c_uint64) for name in
                 ("role", "call", "action", "nth", "error", "lasting", "seed", "slow_ms", "byte", "warp")] +
                [("disk_left", ctypes.c_int64), ("disk_denies", ctypes.c_int64)] +
                [(name, ctypes.c_uint64) for name in ("struck", "struck_pid", "struck_ns")] +
                [("counts", ctypes.c_uint64 * len(CALLS) * len(ROLES)),
                 ("dir", ctypes.c_char * 512), ("log", ctypes.c_char * 512)])


class Fault:
    """scene/role/call/nth/action, and what else there is as name=value: one word, as
    `tests/faults/run --fault` takes it and as reports print it."""

    NUMBERS = ("lasting", "seed", "slow", "byte", "warp", "left", "denies", "resume", "cut", "shape")

    def __init__(self, scene, role="cli", call="any", nth=0, action="none", kind="", **more):
        self.scene, self.role, self.call, self.nth, self.action = scene, role, call, nth, action
        self.kind, self.error = kind, more.pop("error", 0)
        self.number = None  # of its kind, as kinds.py drew it
        self.more = more

    def __getattr__(self, name):
        if name in Fault.NUMBERS:
            return self.more.get(name)
        raise AttributeError(name)

    @staticmethod
    def read(text):
        scene, role, call, nth, action, *more = text.split("/")
        values = dict(item.split("=") for item in more)
        error = values.pop("error", None)
        kind = values.pop("kind", "")
        return Fault(scene, role, call, int(nth), action, kind,
                     error=getattr(errno, error) if error else 0,
                     **{name: int(value) for name, value in values.items()})

    def __str__(self):
        parts = [self.scene, self.role, self.call, str(self.nth), self.action]
        if self.kind:
            parts.append(f"kind={self.kind}")
        if self.error:
            parts.append(f"error={errno.errorcode[self.error]}")
        parts += [f"{name}={value}" for name, value in self.more.items() if value is not None]
        return "/".join(parts)

    @property
    def once(self):
        return (self.lasting or 1) < 10 and self.left is None


class Page:
    """A new page in a file. `log`: an empty file to which changes below `directory` are written."""

    def __init__(self, path, directory, log=""):
        with open(path, "wb") as file:
            file.truncate(ctypes.sizeof(_Page))
        fd = os.open(path, os.O_RDWR)
        self.map = mmap.mmap(fd, ctypes.sizeof(_Page))
        os.close(fd)
        self.path = path
        self.page = _Page.from_buffer(self.map)
        self.page.dir = os.path.realpath(directory).encode()
        self.page.log = log.encode()
        self.page.disk_left = -1

    def want(self, fault):
        p = self.page
        p.role, p.call = ROLES.index(fault.role), CALLS.index(fault.call)
        p.action, p.nth = ACTIONS.index(fault.action), fault.nth
        p.error, p.lasting = fault.error, fault.lasting or 1
        p.seed, p.slow_ms, p.warp = fault.seed or 0, fault.slow or 0, fault.warp or 1
        p.byte = fault.byte or 0
        if fault.left is not None:
            p.disk_left, p.disk_denies = fault.left, fault.denies or 0

    @property
    def struck(self):
        return self.page.struck

    @property
    def struck_pid(self):
        return self.page.struck_pid

    def counts(self):
        """{role: {call: how often}}, of those that were."""
        return {role: {call: n for call, n in zip(CALLS, row) if n}
                for role, row in zip(ROLES, self.page.counts) if any(row)}

    def close(self):
        self.page = None
        self.map.close()
        os.remove(self.path)
