"""Which faults there are, drawn by a seed."""
import errno
import random

import disk
from page import CALLS, EVER, Fault

# So often as it stands here; whole commands are dear, and what is cut or killed is what catalogs
# have to fear.
ORDER = ["power", "commit", "kill", "memory", "power", "disk", "commit", "power", "short", "memory",
         "commit", "power", "kill", "wire", "commit", "full", "power", "limits", "commit", "kill",
         "disk", "power", "memory", "stop"]

CHEAP = ["begin", "correct", "export", "split", "merge"]
DISK = {"read": [errno.EIO], "write": [errno.EIO, errno.ENOSPC], "sync": [errno.EIO, errno.ENOSPC],
        "open": [errno.EIO, errno.EACCES, errno.ENOSPC], "truncate": [errno.EIO],
        "rename": [errno.EACCES, errno.EIO], "unlink": [errno.EACCES]}
LIMITS = {"open": [errno.EMFILE, errno.ENFILE], "socket": [errno.EMFILE, errno.ENFILE],
          "spawn": [errno.EAGAIN, errno.ENOMEM], "thread": [errno.EAGAIN]}
PARTIAL = {"read": ["short", "fail"], "receive": ["short", "fail"],
           "write": ["short", "torn", "fail"], "send": ["short", "fail"]}
INSTEAD = 1000000
LENGTH = 9, 12  # the bytes of a message that say how long it is, from 1
HASTE = 10  # of the scheduler's time, once the fault is there


def may_set_aside(fault):
    """A decoder that speaks garbage, or has no memory, is taken for its recording's fault; a file
    that may not be opened is not heard; messages that are spoilt again and again look like deaths
    over the recording at hand; and what goes wrong for ever goes wrong for that, too. Nothing else
    sets one aside."""
    own = fault.action == "garbage" or fault.call in ("malloc", "mmap")
    denied = fault.call == "open" and fault.error == errno.EACCES
    return (fault.role == "decoder" and own or fault.role in ("worker", "decoder") and denied or
            fault.action == "garbage" and (fault.lasting or 1) > 1 or not fault.once)


class Draw:
    """An iterator without an end. The n-th fault of a kind depends on the seed, the kind and n
    alone, and on how often the undisturbed commands call what."""

    def __init__(self, scenes, seed, only=None):
        self.scenes, self.seed = scenes, seed
        self.order = [kind for kind in ORDER if not only or kind in only.split(",")]
        self.drawn = dict.fromkeys(ORDER, 0)
        self.at = 0

    def __iter__(self):
        return self

    def __next__(self):
        while self.order:
            kind = self.order[self.at % len(self.order)]
            self.at += 1
            fault = self.draw(kind)
            if fault:
                return fault
            self.order = [other for other in self.order if other != kind]
        raise StopIteration

    def draw(self, kind, number=None):
        if number is None:
            number = self.drawn[kind]
            self.drawn[kind] += 1
        for attempt in range(300):
            rng = random.Random(f"{self.seed} {kind} {number} {attempt}")
            fault = getattr(self, kind)(rng, number)
            if fault:
                fault.kind, fault.number = kind, number
                return fault
        return None  # no command of these scenes makes such a call

    def instead_of(self, fault):
        """The other processes of a command do not always get so far. It takes no other's place, so
        that the n-th fault is the same whatever was met before."""
        return self.draw(fault.kind, fault.number + INSTEAD)

    # -- places

    def somewhere(self, rng, calls, roles=None):
        """A scene, a role, one of the calls there and how often it is made; None: no such."""
        cheap = [name for name in CHEAP if name in self.scenes]
        dear = [name for name in self.scenes if name not in CHEAP]
        names = cheap if cheap and (not dear or rng.random() < 0.5) else dear
        scene = self.scenes[rng.choice(names)]
        role = rng.choice([role for role in scene.counts if not roles or role in roles] or [None])
        here = [call for call in calls if scene.counts.get(role, {}).get(call)]
        if not here:
            return None
        call = rng.choice(here)
        return scene.name, role, call, scene.counts[role][call]

    @staticmethod
    def nth(rng, most):
        """All alike, or the first ones more often: commands begin with what is made once."""
        if rng.random() < 0.5:
            return rng.randint(1, most)
        return max(1, min(most, int(most ** rng.random() + 0.5)))

    def in_turn(self, number, of):
        """Each scene in turn, and in it every place before any comes twice: far from each other."""
        names = sorted(self.scenes)
        name = names[number % len(names)]
        most = of(self.scenes[name])
        if not most:
            return None
        stride = max(1, int(most * 0.6180339887))
        while most > 1 and _common(stride, most) > 1:
            stride += 1
        return name, (self.seed + number // len(names) * stride) % most

    # -- kinds

    def failing(self, rng, table, action="fail"):
        place = self.somewhere(rng, list(table))
        if not place:
            return None
        scene, role, call, most = place
        lasting = EVER if rng.random() < 0.12 else rng.choice([1, 1, 1, 1, 2, 5])
        return Fault(scene, role, call, self.nth(rng, most), action, error=rng.choice(table[call]),
                     lasting=lasting if lasting > 1 else None, warp=HASTE)

    def memory(self, rng, _):
        return self.failing(rng, {"malloc": [errno.ENOMEM], "mmap": [errno.ENOMEM]})

    def disk(self, rng, _):
        return self.failing(rng, DISK)

    def limits(self, rng, _):
        return self.failing(rng, LIMITS)

    def short(self, rng, _):
        place = self.somewhere(rng, list(PARTIAL))
        if not place:
            return None
        scene, role, call, most = place
        action = rng.choice(PARTIAL[call])
        error = {"fail": errno.EINTR, "torn": rng.choice([errno.EIO, errno.ENOSPC])}.get(action, 0)
        return Fault(scene, role, call, self.nth(rng, most), action, error=error, warp=HASTE,
                     lasting=rng.choice([None, 3, 100]) if action != "torn" else None)

    def full(self, rng, number):
        place = self.in_turn(number, lambda scene: 1)
        scene = self.scenes[place[0]]
        grown = sum(len(event[4]) for event in scene.events if event[0] == disk.WRITE)
        return Fault(scene.name, left=int(grown * rng.random() ** 2), warp=HASTE,
                     denies=rng.choice([0, 1, 3, 10, 30]))

    def kill(self, rng, _):
        place = self.somewhere(rng, ["any", "any", "any", "malloc"])
        if not place:
            return None
        scene, role, call, most = place
        return Fault(scene, role, call, self.nth(rng, most), "kill", warp=HASTE)

    def commit(self, _, number):
        place = self.in_turn(number, lambda scene: self.main(scene)[1])
        return place and Fault(place[0], self.main(self.scenes[place[0]])[0], "step", place[1] + 1,
                               "kill")

    @staticmethod
    def main(scene):
        """The role of the command itself, and its steps."""
        role = "scheduler" if "scheduler" in scene.counts else "cli"
        return role, scene.counts[role].get("step", 0)

    def stop(self, rng, _):
        place = self.somewhere(rng, ["any"])
        if not place:
            return None
        scene, role, call, most = place
        if rng.random() < 0.3:
            return Fault(scene, role, call, self.nth(rng, most), "slow", slow=rng.choice([50, 500]))
        # One that nobody wakes is killed by whoever waits for it: for half an hour while it loads.
        stays = role in ("worker", "finalize") and rng.random() < 0.1
        nth = rng.randint(most * 2 // 3 + 1, most) if stays else self.nth(rng, most)
        return Fault(scene, role, call, nth, "stop",
                     resume=None if stays else rng.choice([20, 200]), warp=HASTE if stays else None)

    def wire(self, rng, _):
        place = self.somewhere(rng, ["send"])
        if not place:
            return None
        scene, role, call, most = place
        return Fault(scene, role, call, self.nth(rng, most), "garbage", seed=rng.randrange(1 << 32),
                     lasting=rng.choice([None, None, 3]), warp=HASTE,
                     byte=rng.choice([None, None, rng.randint(*LENGTH)]))

    def power(self, rng, number):
        place = self.in_turn(number, lambda scene: len(scene.events) + 1)
        return place and Fault(place[0], cut=place[1], shape=rng.randrange(len(disk.SHAPES)),
                               seed=rng.randrange(1 << 32))


def _common(a, b):
    while b:
        a, b = b, a % b
    return a


assert set(LIMITS) | set(DISK) | set(PARTIAL) <= set(CALLS)
