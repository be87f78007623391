#!/usr/bin/env python3
"""Writes linkage.txt (scipy's centroid linkage and its cuts), kmeans.txt (scikit-learn's k-means, as
pyannote.audio calls it) and clusters.txt (what pyannote.audio's two clusterings make of recordings
by formula), which test_parity.c computes again.

    python3 -m venv --system-site-packages v
    v/bin/pip install numpy scipy scikit-learn einops pyannote.core
    v/bin/pip install --no-deps pyannote.audio==4.0.7
    v/bin/python make_fixtures.py        # beside this file

Of pyannote.audio only clustering.py and vbx.py are loaded, and what they import but do not use here
is put in their place.
"""
import importlib.util
import io
import os
import sys
import types

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.cluster import KMeans

HERE = os.path.dirname(os.path.abspath(__file__))
MASK = np.uint64(0xFFFFFFFFFFFFFFFF)


def noise(seed, start, count):
    """Uniform in [-0.5, 0.5), exact: splitmix64's finaliser of seed * 2^32 + i."""
    with np.errstate(over="ignore"):
        z = (np.uint64(seed) << np.uint64(32)) + np.arange(start, start + count, dtype=np.uint64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(40)).astype(np.float64) / 16777216.0 - 0.5


def voice(speaker, size, spread, seed, index):
    """A vector of a speaker, float32."""
    return (noise(1000 + speaker, 0, size) + spread * noise(seed, index * size, size)).astype(np.float32)


# ---- linkage

def linkage_cases(out):
    for n, size, speakers, spread, seed, thresholds in (
            (40, 8, 3, 0.5, 1, (0.3, 0.5, 0.8)), (300, 32, 4, 1.0, 2, (0.9, 1.0, 1.2)),
            (700, 96, 5, 1.2, 3, (0.9, 0.95, 1.0, 1.1)), (150, 16, 1, 2.0, 4, (0.8, 0.9, 1.0))):
        x = np.array([voice(i % speakers, size, spread, seed, i) for i in range(n)], np.float32)
        tree = linkage(x.astype(np.float64), method="centroid")
        out.write(f"case {n} {size} {speakers} {spread:g} {seed}\n")
        out.write("d " + " ".join("%.9f" % d for d in tree[:, 2]) + "\n")
        for t in thresholds:
            labels = fcluster(tree, t, criterion="distance")
            first = {}
            out.write("t %g " % t + " ".join(str(first.setdefault(k, len(first))) for k in labels) + "\n")


# ---- k-means

def kmeans_cases(out):
    for n, size, speakers, spread, seed, wanted in (
            (60, 24, 3, 0.8, 21, (1, 2, 3, 5)), (400, 32, 4, 1.5, 22, (2, 4, 7, 12)), (90, 16, 1, 2.0, 23, (2, 9, 20)),
            (12, 8, 2, 0.5, 24, (2, 5, 12))):
        x = np.array([voice(i % speakers, size, spread, seed, i) for i in range(n)], np.float32)
        for k in wanted:
            labels = KMeans(n_clusters=k, n_init=3, random_state=42, copy_x=False).fit_predict(x.copy())
            out.write("case %d %d %d %g %d %d\n" % (n, size, speakers, spread, seed, k))
            out.write("k " + " ".join(map(str, labels)) + "\n")


# ---- pyannote

def stub(name, **names):
    module = types.ModuleType(name)
    module.__dict__.update(names)
    sys.modules[name] = module


class Anything:
    def __init__(self, *args, **kwargs):
        pass


def load_clustering():
    root = os.path.join(os.path.dirname(importlib.util.find_spec("pyannote.core").origin), "..", "audio")
    for name in ("pyannote.audio", "pyannote.audio.core", "pyannote.audio.pipelines", "pyannote.audio.utils"):
        stub(name)
    stub("pyannote.audio.core.io", AudioFile=Anything)
    stub("pyannote.audio.core.plda", PLDA=Anything)
    stub("pyannote.audio.pipelines.utils", oracle_segmentation=None)
    stub("pyannote.audio.utils.permutation", permutate=None)
    stub("pyannote.pipeline", Pipeline=Anything)
    stub("pyannote.pipeline.parameter", Categorical=Anything, Integer=Anything, Uniform=Anything)
    for name, path in (("pyannote.audio.utils.vbx", "utils/vbx.py"), ("clustering", "pipelines/clustering.py")):
        spec = importlib.util.spec_from_file_location(name, os.path.join(root, path))
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules["clustering"], sys.modules["pyannote.audio.utils.vbx"]


class Plda:
    """As plda_arrays of test_parity.c."""

    def __init__(self, vbx, size, lda):
        files = []
        tr = np.eye(lda) + 0.3 * noise(2004, 0, lda * lda).reshape(lda, lda)
        for arrays in ({"mean1": 0.1 * noise(2000, 0, size), "mean2": 0.1 * noise(2001, 0, lda),
                        "lda": noise(2002, 0, size * lda).reshape(size, lda)},
                       {"mu": 0.1 * noise(2003, 0, lda), "tr": tr,
                        "psi": 2.0 + 3.0 * noise(2005, 0, lda)}):
            file = io.BytesIO()
            np.savez(file, **arrays)
            file.seek(0)
            files.append(file)
        self.xvec, self.plda, self.phi = vbx.vbx_setup(*files)

    def __call__(self, x):
        return self.plda(self.xvec(x))


def recording(case):
    """[windows][frames][3] and [windows][3][size]; who is who by hash, some vectors missing."""
    windows, frames, size, speakers, spread, seed = case
    choose = noise(seed + 1, 0, windows * 12) + 0.5
    seg = np.zeros((windows, frames, 3), np.float32)
    emb = np.full((windows, 3, size), np.nan, np.float32)
    for w in range(windows):
        for s in range(3):
            who, length, gone, rare = choose[w * 12 + s * 4:w * 12 + s * 4 + 4]
            start, length = s * frames // 3, int(length * frames * 0.45)
            seg[w, start:min(start + length, frames), s] = 1
            speaker = (int(who * speakers) + s) % speakers if rare > 0.03 else 50 + w % 2
            if gone > 0.05:
                emb[w, s] = voice(speaker, size, spread, seed, w * 3 + s)
    return seg, emb


def cluster_cases(out):
    clustering, vbx = load_clustering()
    core = sys.modules["pyannote.core"]
    for case, threshold in (((60, 60, 24, 3, 0.8, 11), 0.7), ((90, 60, 24, 5, 1.2, 12), 0.75),
                            ((40, 60, 24, 2, 0.3, 13), 0.7), ((3, 60, 24, 2, 0.5, 14), 0.7)):
        seg, emb = recording(case)
        feature = core.SlidingWindowFeature(seg, core.SlidingWindow(start=0, duration=10, step=1))
        out.write("case %d %d %d %d %g %d %g\n" % (*case, threshold))
        for number, low, high in ((0, 0, 0), (2, 0, 0), (4, 0, 0), (0, 6, 0), (0, 0, 2), (0, 2, 3), (1, 0, 0)):
            for kind in ("ahc", "vbx"):
                if kind == "ahc":
                    c = clustering.AgglomerativeClustering()
                    c.method, c.min_cluster_size = "centroid", 12
                else:
                    if number == 1 or case[0] == 3:
                        continue
                    c = clustering.VBxClustering(Plda(vbx, case[2], 10))
                    c.Fa, c.Fb = 0.07, 0.8
                c.threshold = threshold
                least, most = number or low or 1, number or high or np.inf
                hard, _, centroids = c(embeddings=emb.copy(), segmentations=feature, num_clusters=number or None,
                                       min_clusters=least, max_clusters=most)
                if kind == "vbx" and number + low + high == 0:
                    found = len(centroids)
                out.write("%s %d %d %d %d" % (kind, number, low, high, len(centroids)) + "".join(
                    " %d" % k for k in hard.astype(int).ravel()) + "\n")


def main():
    with open(os.path.join(HERE, "linkage.txt"), "w", encoding="utf-8") as out:
        linkage_cases(out)
    with open(os.path.join(HERE, "kmeans.txt"), "w", encoding="utf-8") as out:
        kmeans_cases(out)
    with open(os.path.join(HERE, "clusters.txt"), "w", encoding="utf-8") as out:
        cluster_cases(out)


if __name__ == "__main__":
    main()
