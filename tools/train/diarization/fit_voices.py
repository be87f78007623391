#!/usr/bin/env python3
"""fit_voices.py CACHE [CONVERSATIONS]: the encoder's last layer, fitted to the masks that the segmentation gives.

Windows cut from 400 conversations of the training's voices are heard by both networks of CACHE, as the program
hears them. Each vector that would have a vote in the clustering counts for whose words fill most of its mask. Of the
encoder's 128 values those linear discriminants are kept that tell a conversation's voices apart best, in units of what
a voice varies by from window to window. Rewrites CACHE/voices.pt."""
import os
import sys

import numpy as np
import torch
from scipy.linalg import eigh

import export
import features
import mixture
import networks
import train_segmentation
import tune

SEED, CONVERSATIONS, AT_ONCE = 31, 400, 24
KEPT = 24  # values of a vector
RIDGE = 0.1  # of the mean variance within a voice, added to each


class Heard:
    """Windows as tune.hear() takes them, of any recordings."""

    def __init__(self, pcm, voices):
        self.windows, self.of = len(pcm), pcm
        self.frames = [voices.frames(torch.from_numpy(features.filter_bank(x))[None]).half() for x in pcm]


def collect(cut, segmentation, voices, filters):
    """[(vector, voice)] of windows that Windows.cut() made."""
    found = []
    for i in range(0, len(cut), AT_ONCE):
        some = cut[i:i + AT_ONCE]
        recording = Heard([np.ascontiguousarray(pcm) for pcm, _, _ in some], voices)
        active, vectors, clean = tune.hear(recording, segmentation, voices, filters)
        for w, s in clean:
            _, truth, who = some[w]
            together = (truth & active[w, s] & (active[w].sum(0) == 1)).sum(1)
            if together.any():
                found.append((vectors[w, s], who[together.argmax()]))
    return found


def discriminants(vectors, groups, kept=KEPT, ridge=RIDGE):
    """(mean: [values], axes: [values][kept]), best first (Fisher, 1936)."""
    _, of, count = np.unique(groups, return_inverse=True, return_counts=True)
    means = np.zeros((len(count), vectors.shape[1]))
    np.add.at(means, of, vectors)
    means /= count[:, None]
    apart = vectors - means[of]
    within = apart.T @ apart / (count - 1).sum()
    within += ridge * np.trace(within) / len(within) * np.eye(len(within))
    return vectors.mean(0), eigh(np.cov(means.T), within)[1][:, ::-1][:, :kept]


def fitted(state, mean, axes):
    """The encoder's tensors, whose last layer ends in the discriminants."""
    state, scale = dict(state), 1 / torch.sqrt(state["bn_seg_1.running_var"] + export.NORM_EPSILON)
    axes = torch.from_numpy(axes.astype(np.float32))
    bias = (state["seg_1.bias"] - state["bn_seg_1.running_mean"]) * scale - torch.from_numpy(mean.astype(np.float32))
    state["seg_1.weight"], state["seg_1.bias"] = axes.T @ (state["seg_1.weight"] * scale[:, None]), axes.T @ bias
    state["bn_seg_1.running_mean"] = torch.zeros(axes.shape[1])
    state["bn_seg_1.running_var"] = torch.full((axes.shape[1],), 1 - export.NORM_EPSILON)
    return state


def listen(cache, conversations):
    """(vectors: [n][values], groups: [n], a voice in a conversation each)."""
    filters = features.sinc_filters(networks.BANDS)
    segmentation = tune.load_segmentation(f"{cache}/segmentation.pt")
    voices = tune.load_voices(f"{cache}/voices.pt")
    bank = mixture.Bank(cache, "train")
    windows = train_segmentation.Windows(bank, SEED, mixture.chances(bank, train_segmentation.RECORDED),
                                         mixture.Pitches(bank))
    found, groups = [], []
    with torch.no_grad():
        for i in range(conversations):
            heard = collect(windows.cut(), segmentation, voices, filters)
            found += [vector for vector, _ in heard]
            groups += [i * len(bank.names) + voice for _, voice in heard]
            if i % 50 == 49:
                print(f"{i + 1} conversations, {len(found)} vectors", flush=True)
    return np.array(found, float), np.array(groups)


def main():
    cache, conversations = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else CONVERSATIONS
    torch.set_num_threads(1)
    mean, axes = discriminants(*listen(cache, conversations))
    checkpoint = torch.load(f"{cache}/voices.pt", map_location="cpu")
    checkpoint["network"] = fitted(checkpoint["network"], mean, axes)
    torch.save(checkpoint, f"{cache}/voices.pt.part")
    os.replace(f"{cache}/voices.pt.part", f"{cache}/voices.pt")


if __name__ == "__main__":
    main()
