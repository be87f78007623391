#!/usr/bin/env python3
"""train_last.py CACHE MINUTES: the speaker encoder's last layer alone, from CACHE/voices.pt on, where there
is no time for all of it. For so many minutes windows as train_voices.py has them are heard once, and
what the layer before it makes of each voice is kept; then the layer is trained on that, and what is
best on a tenth of the voices, which are left out of it, becomes CACHE/voices.pt.

As long as it listens it keeps CACHE/pooled.npz, and goes on from that."""
import os
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import mixture
import networks
import train_voices

BATCH, STEPS, RATE, NEAR, SEED = 256, 1500, 1e-4, 0.02, 13


def pooled(network, heard, of, weights):
    """What the last layer is given."""
    kept = []
    hook = network.seg_1.register_forward_hook(lambda _, given, __: kept.append(given[0]))
    network(heard, of, weights)
    hook.remove()
    return kept[0]


def listen(network, mixer, minutes, path):
    """([n][values], [n] voices), with those of the file at path."""
    given, labels = [], []
    if os.path.exists(path):
        with np.load(path) as file:
            given, labels = [file["given"]], [file["labels"]]
        mixer.rng = np.random.default_rng(SEED + len(labels[0]))
    begin = saved = time.time()
    while (now := time.time()) < begin + 60 * minutes:
        heard, of, weights, who = train_voices.batch(mixer)
        with torch.no_grad():
            given.append(pooled(network, heard, of, weights).numpy())
        labels.append(who.numpy())
        if now > saved + 60 or now > begin + 60 * minutes - 5:
            saved = now
            np.savez(path, given=np.concatenate(given), labels=np.concatenate(labels))
            print(f"{sum(map(len, labels))} voices heard in {(now - begin) / 60:.0f} min", flush=True)
    return torch.from_numpy(np.concatenate(given)), torch.from_numpy(np.concatenate(labels))


def equal_errors(vectors, labels):
    """The rate at which as many of one voice are taken for two as of two for one."""
    scores = vectors @ vectors.T
    same = labels[:, None] == labels
    upper = torch.triu(torch.ones_like(same), 1)
    right, wrong = scores[same & upper].sort()[0].numpy(), scores[~same & upper].sort()[0].numpy()
    missed = np.arange(len(right)) / len(right)
    taken = 1 - np.searchsorted(wrong, right) / len(wrong)
    at = np.argmin(np.abs(missed - taken))
    return (missed[at] + taken[at]) / 2


def main():
    cache, minutes = sys.argv[1], float(sys.argv[2])
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    mixer = mixture.Mixer(mixture.Bank(cache, "train"), SEED, wide=True)
    network, start = networks.ResNet().eval(), torch.load(f"{cache}/voices.pt")
    network.load_state_dict(start["network"])
    given, labels = listen(network, mixer, minutes, f"{cache}/pooled.npz")
    out = torch.from_numpy(rng.random(len(mixer.bank.names)) < 0.1)[labels]

    def vectors(at):
        return F.normalize(network.bn_seg_1(network.seg_1(at)))
    scale = given[~out].std(0) + 1e-4  # each value's own: that of one step, too
    first = network.seg_1.weight.detach().clone()
    change = nn.Parameter(torch.zeros_like(first))
    bias = nn.Parameter(network.seg_1.bias.detach().clone())
    centres = nn.Parameter(start["centres"].clone())
    optimizer = torch.optim.Adam([{"params": [change, bias]}, {"params": [centres], "lr": 1e-3}], RATE)
    inside, best = torch.nonzero(~out)[:, 0], (1.0, None)
    for step in range(STEPS + 1):
        if step % 50 == 0:
            with torch.no_grad():
                network.seg_1.weight.copy_(first + change / scale)
                network.seg_1.bias.copy_(bias)
                error = equal_errors(vectors(given[out]), labels[out])
            print(f"step {step}: equal error rate of voices left out {100 * error:.2f} %", flush=True)
            if error < best[0]:
                best = (error, {k: v.clone() for k, v in network.state_dict().items()})
        some = inside[torch.from_numpy(rng.integers(0, len(inside), BATCH))]
        made = F.linear(given[some], first + change / scale, bias)
        made = F.normalize(made / torch.sqrt(network.bn_seg_1.running_var + network.bn_seg_1.eps))
        cosines = made @ F.normalize(centres).T
        margin = train_voices.MARGIN * F.one_hot(labels[some], len(centres))
        loss = F.cross_entropy(train_voices.SCALE * (cosines - margin), labels[some])
        loss = loss + train_voices.alike(made, labels[some]) + NEAR * (change ** 2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save({"network": best[1], "centres": centres.data, "done": 1.0}, f"{cache}/voices.pt")


if __name__ == "__main__":
    main()
