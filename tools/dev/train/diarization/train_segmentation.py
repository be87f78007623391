#!/usr/bin/env python3
"""train_segmentation.py CACHE MINUTES [CHECKPOINT [RATE]]: the segmentation network, on windows of 10 s: most of
them cut from conversations at any moment, others composed for themselves, in which none to three speak; where
none does, there is noise, a hum, tones, clicks or music.

A window's sinc filters are computed once (they stay as they are at the beginning: bands of equal
width in mel) and kept; while it trains, old windows are replaced by new ones. Beside the powerset a
second output, thrown away at the end, clusters a window's frames by speaker: what tells voices apart
is learned sooner that way. The averages of the weights are what is saved. With a CHECKPOINT it goes on from there.
Writes CACHE/segmentation.pt every two minutes and at the end; the learning rate follows the clock. What it makes of
windows cut from conversations of the development set is said every five minutes."""
import math
import os
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import features
import mixture
import networks
import recurrence

BATCH, RATE, SEED, KEPT, NEW = 24, 2e-3, 11, 2400, 6
SPEAKERS, SHARES = (0, 1, 2, 3), (0.08, 0.14, 0.46, 0.32)
# Of the windows in which somebody speaks: as the first training had them, or music, noises, telephone lines and
# large rooms beside. And of those with several voices: about equally high ones.
MILD, MILD_HARD, ALIKE = 0.5, 0.6, 0.4
RECORDED, AVERAGED = 0.45, 0.998  # of the voices; of the average of the weights, from one step to the next
# Of what is done to get windows, the share of conversations (of which each yields several): how long they are, who
# is in them, how often somebody says but a word, and so many samples for a window that is cut from one.
CUT, CONVERSATION_S, CUT_EVERY, WORDS = 0.4, (20, 60), 5 * mixture.RATE, 0.15
IN_TURN, IN_TURN_SHARES = (1, 2, 3, 4, 5), (0.06, 0.26, 0.3, 0.22, 0.16)
WINDOW = 10 * mixture.RATE
PERSON = 1.0  # how much all people of a window weigh in the loss beside all frames
HELD, HELD_SEED, SOME = 8, 23, 20  # batches of the development set; its seed; frames of somebody who is heard
WARMING = 100  # steps
EVERY = 4  # frames, of which one is clustered


class Windows:
    """What is kept of the windows: what the filters hear, and who speaks."""

    def __init__(self, bank, seed, likely=None, pitches=None):
        self.rng = np.random.default_rng(seed)
        self.mild = mixture.Mixer(bank, seed + 1, hard=MILD_HARD, likely=likely)
        self.wide = mixture.Mixer(bank, seed + 2, wide=True, likely=likely)
        self.pitches = pitches  # None: all voices are drawn alike
        self.filters = features.sinc_filters(networks.BANDS)
        self.centres = features.frame_centres()
        self.heard, self.active, self.waiting = [], [], []

    def pick(self, count, mixer):
        alike = self.pitches and count > 1 and self.rng.random() < ALIKE
        return mixer.pick_alike(count, self.pitches) if alike else mixer.pick(max(count, 1))

    def composed(self):
        rng = self.rng
        count = rng.choice(SPEAKERS, p=SHARES)
        mixer = self.mild if count and rng.random() < MILD else self.wide
        voices = self.pick(count, mixer)
        pcm, spoken = mixer.window(voices, 10.0, 0.3, 0.7 if rng.random() < 0.2 else 0.0)
        if count == 0:
            pcm, spoken = mixer.silent(len(pcm)), []
        return pcm, mixture.activity(spoken, len(voices), self.centres)

    def cut(self):
        """[(pcm, who speaks)] of one conversation, where at most three do."""
        rng, samples = self.rng, int(mixture.RATE * self.rng.uniform(*CONVERSATION_S))
        mixer = self.mild if rng.random() < MILD else self.wide
        voices = self.pick(rng.choice(IN_TURN, p=IN_TURN_SHARES), mixer)
        found = mixer.turns(voices, samples, rng.uniform(0.1, 0.3), whole=True)
        tracks, spoken = mixer.tracks(mixer.words(found, voices, WORDS), len(voices), samples)
        pcm, cut = mixer.place(tracks), []
        for at in rng.integers(0, samples - WINDOW, samples // CUT_EVERY):
            active = mixture.activity(spoken, len(voices), self.centres + at)
            active = active[active.any(1)]
            if len(active) <= 3:
                cut.append((pcm[at:at + WINDOW], active))
        return cut

    def make(self):
        while not self.waiting:
            self.waiting = self.cut() if self.rng.random() < CUT else [self.composed()]
        pcm, who = self.waiting.pop()
        active = np.zeros((3, features.FRAMES), bool)
        active[:len(who)] = who
        with torch.no_grad():
            heard = features.sinc_heard(torch.from_numpy(pcm)[None], self.filters)[0].half().numpy()
        return heard, active

    def add(self, at=None):
        for kept, new in zip((self.heard, self.active), self.make()):
            if at is None:
                kept.append(new)
            else:
                kept[at] = new

    def batch(self):
        chosen = self.rng.choice(len(self.heard), BATCH, replace=False)
        heard = torch.from_numpy(np.stack([self.heard[i] for i in chosen])).float()
        return heard, np.stack([self.active[i] for i in chosen])


def apart(states, active):
    """Frames of one speaker together, those of a window's others apart: deep clustering (Hershey et al.,
    2016) over what the LSTMs leave of the frames in which exactly one speaks."""
    states, active = states[:, ::EVERY], torch.from_numpy(active[:, :, ::EVERY].astype(np.float32))
    only = (active.sum(1) == 1).float()
    v = F.normalize(states, dim=2) * only[:, :, None]
    y = active.transpose(1, 2) * only[:, :, None]
    pairs = only.sum(1).clamp(min=1) ** 2
    wrong = sum(sign * (a.transpose(1, 2) @ b).square().sum((1, 2))
                for sign, a, b in ((1, v, v), (-2, v, y), (1, y, y)))
    return (wrong / pairs).mean()


def wrong_share(scores, targets, which):
    best = targets[torch.arange(len(targets)), which]
    return float((scores.argmax(2) != best).float().mean())


class Held:
    """Windows cut from conversations of voices that training does not hear."""

    def __init__(self, bank):
        windows = Windows(bank, HELD_SEED)
        cut = []
        while len(cut) < HELD * BATCH:
            cut += windows.cut()
        windows.waiting = cut[:HELD * BATCH]
        for _ in range(HELD * BATCH):
            windows.add()
        self.heard = np.stack(windows.heard).reshape(HELD, BATCH, *windows.heard[0].shape)
        self.active = np.stack(windows.active).reshape(HELD, BATCH, *windows.active[0].shape)

    def judge(self, values, program):
        network = networks.PyanNet().eval()
        network.load_state_dict(values)
        wrong, few, many = [], 0, 0
        for heard, active in zip(self.heard, self.active):
            targets = networks.powerset_targets(active)
            with torch.no_grad():
                states = recurrence.lstm(network.lstm, network.sincnet(torch.from_numpy(heard).float()), program)
                scores = network.scores(states)
                _, which = networks.powerset_loss(scores, targets, torch.ones(targets.shape[0], targets.shape[2]))
            wrong.append(wrong_share(scores, targets, which))
            sets = scores.argmax(2).numpy()
            found = sum((np.isin(sets, [i for i, who in enumerate(networks.SETS) if s in who]).sum(1) >= SOME)
                        .astype(int) for s in range(3))
            there = (active.sum(2) >= SOME).sum(1)
            few += (found < there).sum()
            many += (found > there).sum()
        return (f"held out: frames wrong {100 * np.mean(wrong):.2f} %, of {HELD * BATCH} windows too few in {few}, "
                f"too many in {many}")


def save(path, average, done):
    torch.save({"network": average.values, "done": done}, path + ".part")
    os.replace(path + ".part", path)


def main():
    cache, minutes = sys.argv[1], float(sys.argv[2])
    highest = float(sys.argv[4]) if len(sys.argv) > 4 else RATE
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    program = recurrence.compiled(cache, networks.HIDDEN, BATCH)
    with open("/proc/cpuinfo", encoding="ascii") as file:
        short = "avx512_bf16" in file.read()  # elsewhere bfloat16 takes six times as long
    bank = mixture.Bank(cache, "train")
    windows = Windows(bank, SEED, mixture.chances(bank, RECORDED), mixture.Pitches(bank))
    held = Held(mixture.Bank(cache, "dev"))
    network = networks.PyanNet().train()
    if len(sys.argv) > 3:
        network.load_state_dict(torch.load(sys.argv[3])["network"])
    tell = nn.Linear(2 * networks.HIDDEN, 20)
    trained = [*network.parameters(), *tell.parameters()]
    average = networks.Average(network, AVERAGED)
    optimizer = torch.optim.AdamW(trained, highest, weight_decay=0.01)
    print(held.judge(average.values, program), flush=True)
    begin = saved = judged = time.time()
    step, shown = 0, np.zeros(3)
    for _ in range(4 * BATCH):
        windows.add()
    while (done := (time.time() - begin) / 60 / minutes) < 1:
        for i in range(NEW if step > 60 else 2 * NEW):
            full = len(windows.heard) >= KEPT
            windows.add((step * NEW + i) % KEPT if full else None)
        for group in optimizer.param_groups:
            group["lr"] = highest * min(1, (step + 1) / WARMING) * (0.01 + 0.99 * (1 + math.cos(math.pi * done)) / 2)
        heard, active = windows.batch()
        targets = networks.powerset_targets(active)
        with torch.autocast("cpu", torch.bfloat16, enabled=short):
            heard = network.sincnet(heard)
        states = recurrence.lstm(network.lstm, heard.float(), program)
        scores = network.scores(states)
        loss, which = networks.powerset_loss(scores, targets, networks.weights_of(active, PERSON))
        clusters = apart(tell(states), active)
        if not torch.isfinite(loss + clusters):
            sys.exit(f"step {step}: the loss is no number; the last checkpoint holds")
        optimizer.zero_grad()
        (loss + 2 * (1 - done) * clusters).backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        average.add(network)
        step += 1
        shown += (float(loss), float(clusters), wrong_share(scores, targets, which))
        if step % 25 == 0:
            print(f"{100 * done:.1f} % step {step} loss {shown[0] / 25:.3f} clusters {shown[1] / 25:.3f} "
                  f"frames wrong {4 * shown[2]:.1f} % of {len(windows.heard)} windows", flush=True)
            shown[:] = 0
        if time.time() - saved > 120:
            save(f"{cache}/segmentation.pt", average, done)
            saved = time.time()
        if time.time() - judged > 300:
            print(held.judge(average.values, program), flush=True)
            judged = time.time()
    print(held.judge(average.values, program), flush=True)
    save(f"{cache}/segmentation.pt", average, done)


if __name__ == "__main__":
    main()
