#!/usr/bin/env python3
"""train_voices.py CACHE MINUTES [CHECKPOINT [RATE]]: the speaker encoder, as a classifier of the training voices.

Windows of 1.6 to 3.2 s in which one or two speak; each speaker who is heard alone in it long enough
gives a vector, pooled over those frames as the pipeline does. Additive margin softmax over all
voices, and pairs within a batch. With a CHECKPOINT it goes on from there. Writes CACHE/voices.pt
every two minutes and at the end. The learning rate follows the clock, so that the training ends when
it is said to, on a slow machine with fewer steps."""
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

BATCH, VOICES, RATE, MARGIN, SCALE, SEED = 24, 14, 2.5e-3, 0.15, 16.0, 7
SECONDS = (1.6, 2.4, 2.4, 3.2)


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


def batch(mixer):
    rng = mixer.rng
    few = mixer.pick(VOICES)
    seconds = SECONDS[rng.integers(len(SECONDS))]
    heard, of, weights, labels = [], [], [], []
    for i in range(BATCH):
        voices = rng.choice(few, 2 if rng.random() < 0.65 else 1, replace=False)
        pcm, spoken = mixer.window(voices, seconds)
        bank = features.filter_bank(pcm)
        out = math.ceil(math.ceil(math.ceil(bank.shape[1] / 2) / 2) / 2)
        for voice, mask in zip(voices, alone(spoken, len(voices), bank.shape[1], out)):
            if mask.sum() >= 7:
                of.append(i)
                weights.append(mask)
                labels.append(voice)
        heard.append(bank)
    return (torch.from_numpy(np.stack(heard)), torch.tensor(of), torch.from_numpy(np.stack(weights)),
            torch.tensor(np.array(labels)))


def save(path, network, centres, done):
    torch.save({"network": network.state_dict(), "centres": centres.data, "done": done}, path + ".part")
    os.replace(path + ".part", path)


def main():
    cache, minutes = sys.argv[1], float(sys.argv[2])
    highest = float(sys.argv[4]) if len(sys.argv) > 4 else RATE
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    bank = mixture.Bank(cache, "train")
    mixer = mixture.Mixer(bank, SEED, wide=True)
    network = networks.ResNet().train()
    centres = nn.Parameter(0.05 * torch.randn(len(bank.names), networks.SIZE))  # short: they turn fast
    if len(sys.argv) > 3:
        start = torch.load(sys.argv[3])
        network.load_state_dict(start["network"])
        if "centres" in start:
            centres.data.copy_(start["centres"])
    optimizer = torch.optim.AdamW([*network.parameters(), centres], highest, weight_decay=0.01)
    begin, step, saved, right, seen, lost = time.time(), 0, time.time(), 0, 0, np.zeros(2)
    while (done := (time.time() - begin) / 60 / minutes) < 1:
        for group in optimizer.param_groups:
            group["lr"] = highest * min(1, (step + 1) / 40) * (0.01 + 0.99 * (1 + math.cos(math.pi * done)) / 2)
        heard, of, weights, labels = batch(mixer)
        vectors = F.normalize(network(heard, of, weights))
        cosines = vectors @ F.normalize(centres).T
        margin = MARGIN * min(1, done / 0.3)
        loss = F.cross_entropy(SCALE * (cosines - margin * F.one_hot(labels, len(centres))), labels)
        near = alike(vectors, labels)
        optimizer.zero_grad()
        (loss + near).backward()
        nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        optimizer.step()
        step += 1
        right += int((cosines.argmax(1) == labels).sum())
        seen += len(labels)
        lost += (float(loss), float(near))
        if step % 25 == 0:
            print(f"{100 * done:.1f} % step {step} loss {lost[0] / 25:.3f} pairs {lost[1] / 25:.3f} "
                  f"right {100 * right / seen:.1f} %", flush=True)
            right, seen, lost = 0, 0, np.zeros(2)
        if time.time() - saved > 120:
            save(f"{cache}/voices.pt", network, centres, done)
            saved = time.time()
    save(f"{cache}/voices.pt", network, centres, done)


if __name__ == "__main__":
    main()
