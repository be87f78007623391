#!/usr/bin/env python3
"""tune.py CACHE FOLDER [SEGMENTATION...]: DER on the recordings of FOLDER (conversations.py's) for a grid of
thresholds and least cluster sizes, to choose config.json's by. The networks are those of CACHE's checkpoints;
of the segmentation also others, which are compared with one encoder. "oracle" gives each local speaker of a window
to whom most of its frames are: what is left is the segmentation's.

The pipeline in small (workers/speakers/diarize.h has the real one): sets of each window, a vector of
each local speaker's clean frames, centroid linkage, counts, reconstruction."""
import glob
import itertools
import math
import sys
import wave

import numpy as np
import torch
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.optimize import linear_sum_assignment

import features
import networks

RATE, FRAMES = features.RATE, features.FRAMES
FRAME_S = features.FRAME_STEP / RATE
THRESHOLDS = np.arange(0.3, 1.35, 0.05)
SIZES = (2, 4, 8, 12)


def load_segmentation(path):
    network = networks.PyanNet().eval()
    network.load_state_dict(torch.load(path)["network"])
    return network


def load_voices(path):
    state = torch.load(path)["network"]
    network = networks.like(state).eval()
    network.load_state_dict(state)
    return network


def read(path):
    with wave.open(path) as file:
        pcm = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768
    truth = {}
    with open(path[:-4] + ".rttm", encoding="ascii") as file:
        for line in file:
            words = line.split()
            begin = float(words[3])
            truth.setdefault(words[7], []).append((begin, begin + float(words[4])))
    return pcm, truth


class Recording:
    """What both networks have of it before it is known who speaks when."""

    def __init__(self, path, voices):
        self.pcm, self.truth = read(path)
        self.windows = max(1, 1 + math.ceil((len(self.pcm) - 160000) / RATE))
        padded = np.pad(self.pcm, (0, max(0, self.windows * RATE + 144000 - len(self.pcm))))
        self.of = [padded[w * RATE:w * RATE + 160000].copy() for w in range(self.windows)]
        self.frames = [voices.frames(torch.from_numpy(features.filter_bank(x))[None]).half() for x in self.of]


def sets_of(recording, segmentation, filters, at_once=24):
    """[windows][frames]: which of networks.SETS."""
    found = []
    for w in range(0, recording.windows, at_once):
        x = torch.from_numpy(np.stack(recording.of[w:w + at_once]))
        found.append(segmentation(features.sinc_heard(x, filters)).argmax(2).numpy())
    return np.concatenate(found)


def hear(recording, segmentation, voices, filters):
    """[windows][3][frames] of bool; {(window, speaker): vector}; (window, speaker) of clean ones."""
    active = np.zeros((recording.windows, 3, FRAMES), bool)
    vectors, clean = {}, []
    for w, sets in enumerate(sets_of(recording, segmentation, filters)):
        for s in range(3):
            active[w, s] = np.isin(sets, [i for i, who in enumerate(networks.SETS) if s in who])
        only = active[w] & (active[w].sum(0) == 1)
        masks = [(s, only[s] if only[s].sum() > 7 else active[w, s]) for s in range(3) if active[w, s].any()]
        frames = recording.frames[w].float()
        at = np.arange(frames.shape[2]) * FRAMES // frames.shape[2]
        masks = [(s, m[at].astype(np.float32)) for s, m in masks if m[at].any()]
        if not masks:
            continue
        found = voices.pooled(frames, torch.zeros(len(masks), dtype=torch.long),
                              torch.from_numpy(np.stack([m for _, m in masks]))).numpy()
        for (s, _), vector in zip(masks, found):
            vectors[w, s] = vector
            if only[s].sum() >= 0.2 * FRAMES:
                clean.append((w, s))
    return active, vectors, clean


def oracle(truth, active):
    """{(window, speaker): who of the truth speaks in most of its frames}."""
    found = {}
    for w in range(len(active)):
        centres = (features.frame_centres() + w * RATE) / RATE
        right = np.array([np.any([(centres >= b) & (centres < e) for b, e in turns], 0)
                          for turns in truth.values()])
        together = right.astype(int) @ active[w].T.astype(int)
        found.update({(w, s): int(together[:, s].argmax()) for s in range(3) if together[:, s].any()})
    return found


def cluster(vectors, clean, tree, threshold, least):
    """{(window, speaker): cluster}."""
    if len(clean) < 2:
        return {key: 0 for key in vectors}, 1
    labels = fcluster(tree, threshold, "distance")
    least = min(least, max(1, round(0.1 * len(clean))))
    large = [c for c in np.unique(labels) if (labels == c).sum() >= least]
    raw = np.array([vectors[key] for key in clean])
    centroids = np.array([raw[labels == c].mean(0) for c in large]) if large else raw.mean(0)[None]
    if large:  # the small ones join the nearest large one
        small = np.array([raw[labels == c].mean(0) for c in np.unique(labels)])
        nearest = cosine(small, centroids).argmax(1)
        joined = nearest[np.searchsorted(np.unique(labels), labels)]
        centroids = np.array([raw[joined == i].mean(0) for i in range(len(large))])
    return {key: int(cosine(v[None], centroids).argmax()) for key, v in vectors.items()}, len(centroids)


def cosine(a, b):
    return (a / np.linalg.norm(a, axis=1, keepdims=True)) @ (b / np.linalg.norm(b, axis=1, keepdims=True)).T


def rebuild(active, assigned, clusters, frames):
    heard, count, windows = np.zeros((clusters, frames)), np.zeros(frames), np.zeros(frames)
    for w in range(len(active)):
        at = round(w / FRAME_S)
        n = min(FRAMES, frames - at)
        if n <= 0:
            continue
        windows[at:at + n] += 1
        count[at:at + n] += active[w, :, :n].sum(0)
        for c in range(clusters):
            mine = [s for s in range(3) if assigned.get((w, s)) == c]
            if mine:
                heard[c, at:at + n] += active[w, mine, :n].any(0)
    count = np.rint(count / np.maximum(windows, 1)).astype(int)
    order = np.argsort(-heard, axis=0, kind="stable")
    speaks = np.zeros((clusters, frames), bool)
    for k in range(min(clusters, 2)):
        chosen = count > k
        speaks[order[k, chosen], np.nonzero(chosen)[0]] = True
    return speaks


def error(truth, speaks):
    """(seconds wrong: missed, false alarm, confused; seconds spoken), frame by frame."""
    centres = (features.frame_centres()[0] + features.FRAME_STEP * np.arange(speaks.shape[1])) / RATE
    right = np.array([np.any([(centres >= b) & (centres < e) for b, e in turns], 0)
                      for turns in truth.values()])
    together = right.astype(int) @ speaks.T.astype(int)
    rows, columns = linear_sum_assignment(-together)
    n, found = right.sum(0), speaks.sum(0)
    correct = together[rows, columns].sum()
    missed, false = np.maximum(n - found, 0).sum(), np.maximum(found - n, 0).sum()
    return np.array([missed, false, np.minimum(n, found).sum() - correct, n.sum()]) * FRAME_S


def rate(recordings, segmentation, voices, filters):
    """{(threshold, least) or "oracle": [(missed, false alarm, confused, spoken, right count)]}."""
    results = {}
    for recording in recordings:
        active, vectors, clean = hear(recording, segmentation, voices, filters)
        unit = np.array([vectors[key] / np.linalg.norm(vectors[key]) for key in clean])
        tree = linkage(unit, "centroid") if len(clean) > 1 else None
        truth, frames = recording.truth, int(len(recording.pcm) / RATE / FRAME_S)

        known = {}  # most thresholds part nothing that the one before does not

        def add(key, assigned, clusters):
            same = (clusters, tuple(assigned.items()))
            if same not in known:
                speaks = rebuild(active, assigned, clusters, frames)
                known[same] = (*error(truth, speaks), int(speaks.any(1).sum()) == len(truth))
            results.setdefault(key, []).append(known[same])
        add("oracle", oracle(truth, active), len(truth))
        for threshold, least in itertools.product(THRESHOLDS, SIZES):
            add((round(threshold, 2), least), *cluster(vectors, clean, tree, threshold, least))
    return results


def main():
    cache, folder = sys.argv[1:3]
    torch.set_num_threads(1)
    filters, voices = features.sinc_filters(networks.BANDS), load_voices(f"{cache}/voices.pt")
    with torch.no_grad():
        recordings = [Recording(path, voices) for path in sorted(glob.glob(f"{folder}/*.wav"))]
        for path in sys.argv[3:] or [f"{cache}/segmentation.pt"]:
            results = rate(recordings, load_segmentation(path), voices, filters)
            print(path)
            for key, rows in [("oracle", results.pop("oracle"))] + sorted(
                    results.items(), key=lambda r: sum(sum(x[:3]) for x in r[1])):
                missed, false, confused, spoken, right = np.sum(rows, 0)
                name = key if key == "oracle" else f"threshold {key[0]:.2f} size {key[1]:2d}"
                print(f"{name}: DER {100 * (missed + false + confused) / spoken:.1f} % (missed "
                      f"{100 * missed / spoken:.1f}, false alarm {100 * false / spoken:.1f}, confusion "
                      f"{100 * confused / spoken:.1f}), {right:.0f} of {len(rows)} counts right", flush=True)


if __name__ == "__main__":
    main()
