#!/usr/bin/env python3
"""train_voices.py CACHE MINUTES [CHECKPOINT [RATE]]: the speaker encoder, as a classifier of the training voices.

Windows of 1.6 to 8 s in which one to three speak; each speaker who is heard alone in it long enough
gives a vector, pooled over those frames as the pipeline does. Additive margin softmax over all
voices, pairs within a batch, and, where teacher.py left CACHE/teacher.npy, voices as alike as that
one hears them. With a CHECKPOINT it goes on from there; the voices' centres are then first what it
makes of them. Writes CACHE/voices.pt every two minutes and at the end. The learning rate follows the
clock, so that the training ends when it is said to, on a slow machine with fewer steps."""
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

RATE, MARGIN, SCALE, TAUGHT, SEED = 2.5e-3, 0.2, 24.0, 20.0, 7
KEPT = 0.999  # of the average of the weights, from one step to the next
RECORDED = 0.4  # of the voices
BINS = 14  # so many next to each other are at most left out
SECONDS, TOGETHER = (1.6, 2.4, 2.4, 3.2, 4.8, 8.0), 58  # a window, and all windows of a batch
SPEAKERS, SHARES = (1, 2, 3), (0.35, 0.5, 0.15)
HEARD = 3  # utterances of a voice for its centre


def alone(spoken, count, frames, out):
    """[count][out]: who is heard alone, in frames as the network's last layer has them."""
    active = mixture.activity(spoken, count, 200 + 160 * np.arange(frames))
    only = active & (active.sum(0) == 1)
    return only[:, np.arange(out) * frames // out].astype(np.float32)


def alike(vectors, labels):
    """Vectors of a batch of one voice together, others apart (Khosla et al., "Supervised contrastive
    learning", 2020): what is learned from the first step on, before the voices' centres are."""
    scores = SCALE * vectors @ vectors.T - 1e4 * torch.eye(len(vectors))
    same = (labels[:, None] == labels) & ~torch.eye(len(vectors), dtype=torch.bool)
    paired = same.any(1)
    each = (F.log_softmax(scores, 1) * same).sum(1) / same.sum(1).clamp(min=1)
    return -each[paired].mean()


def out_frames(frames):
    """Of the last layer."""
    return math.ceil(math.ceil(math.ceil(frames / 2) / 2) / 2)


def left_out(rng, bank):
    """Some bins next to each other, of a third of the windows, at their mean."""
    if rng.random() < 1 / 3:
        begin = rng.integers(len(bank))
        bank[begin:begin + rng.integers(1, BINS + 1)] = 0
    return bank


def batch(mixer):
    rng = mixer.rng
    seconds = SECONDS[rng.integers(len(SECONDS))]
    windows = round(TOGETHER / seconds)
    few = mixer.pick(max(5, windows // 2))
    heard, of, weights, labels = [], [], [], []
    for i in range(windows):
        who = rng.choice(few, rng.choice(SPEAKERS, p=SHARES), replace=False)
        pcm, spoken = mixer.window(who, seconds)
        bank = left_out(rng, features.filter_bank(pcm))
        for voice, mask in zip(who, alone(spoken, len(who), bank.shape[1], out_frames(bank.shape[1]))):
            if mask.sum() >= 7:
                of.append(i)
                weights.append(mask)
                labels.append(voice)
        heard.append(bank)
    return (torch.from_numpy(np.stack(heard)), torch.tensor(of), torch.from_numpy(np.stack(weights)),
            torch.tensor(np.array(labels)))


def centres_of(network, bank, rng):
    """[voices][SIZE]: the mean of what the network makes of some of each voice's utterances."""
    network.eval()
    centres, frames = torch.randn(len(bank.names), networks.SIZE) * 0.05, 200
    for voice in bank.usable:
        said = [np.resize(bank.utterance(rng, voice), 400 + 160 * (frames - 1)) for _ in range(HEARD)]
        heard = torch.from_numpy(np.stack([features.filter_bank(pcm) for pcm in said]))
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            vectors = network(heard, torch.arange(HEARD), torch.ones(HEARD, out_frames(frames)))
        centres[voice] = F.normalize(vectors.float()).mean(0)
    network.train()
    return centres


def teacher(cache):
    """[voices][256] or None: without what all have in common, of length 1."""
    if not os.path.exists(f"{cache}/teacher.npy"):
        return None
    vectors = torch.from_numpy(np.load(f"{cache}/teacher.npy"))
    return F.normalize(vectors - vectors[vectors.any(1)].mean(0), dim=1)


def taught(vectors, expected):
    """How far pairs are from being as alike as the teacher's of the same voices (Park et al.,
    "Relational knowledge distillation", 2019): what tells people apart is learned without people."""
    wrong = (vectors @ vectors.T - expected @ expected.T) ** 2
    return (wrong.sum() - wrong.trace()) / (len(vectors) * (len(vectors) - 1))


def save(path, average, done):
    torch.save({"network": average.values, "done": done}, path + ".part")
    os.replace(path + ".part", path)


def main():
    cache, minutes = sys.argv[1], float(sys.argv[2])
    highest = float(sys.argv[4]) if len(sys.argv) > 4 else RATE
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    bank = mixture.Bank(cache, "train")
    mixer = mixture.Mixer(bank, SEED, wide=True, likely=mixture.chances(bank, RECORDED))
    network = networks.ResNet().train()
    centres = nn.Parameter(0.05 * torch.randn(len(bank.names), networks.SIZE))  # short: they turn fast
    if len(sys.argv) > 3:
        network = networks.grown(torch.load(sys.argv[3])["network"]).train()
        centres.data.copy_(centres_of(network, bank, mixer.rng))
    average = networks.Average(network, KEPT)
    expected = teacher(cache)
    optimizer = torch.optim.AdamW([*network.parameters(), centres], highest, weight_decay=0.01)
    begin, step, saved, right, seen, lost = time.time(), 0, time.time(), 0, 0, np.zeros(3)
    while (done := (time.time() - begin) / 60 / minutes) < 1:
        for group in optimizer.param_groups:
            group["lr"] = highest * min(1, (step + 1) / 100) * (0.002 + 0.998 * (1 + math.cos(math.pi * done)) / 2)
        heard, of, weights, labels = batch(mixer)
        with torch.autocast("cpu", torch.bfloat16):
            frames = network.frames(heard)
        vectors = F.normalize(network.pooled(frames.float(), of, weights))
        cosines = vectors @ F.normalize(centres).T
        margin = MARGIN * min(1, done / 0.1)
        loss = F.cross_entropy(SCALE * (cosines - margin * F.one_hot(labels, len(centres))), labels)
        near = alike(vectors, labels)
        far = torch.zeros(()) if expected is None else taught(vectors, expected[labels])
        optimizer.zero_grad()
        (loss + near + TAUGHT * far).backward()
        nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        optimizer.step()
        average.add(network)
        step += 1
        right += int((cosines.argmax(1) == labels).sum())
        seen += len(labels)
        lost += (float(loss), float(near), float(far))
        if step % 25 == 0:
            print(f"{100 * done:.1f} % step {step} loss {lost[0] / 25:.3f} pairs {lost[1] / 25:.3f} "
                  f"taught {lost[2] / 25:.4f} right {100 * right / seen:.1f} %", flush=True)
            right, seen, lost = 0, 0, np.zeros(3)
        if time.time() - saved > 120:
            save(f"{cache}/voices.pt", average, done)
            saved = time.time()
    save(f"{cache}/voices.pt", average, done)


if __name__ == "__main__":
    main()
