#!/usr/bin/env python3
"""Writes plda/: the two .npz files of a small PLDA by formula, as numpy writes them, one array in
Fortran's order and one of float32, and what they make of a vector (features.txt).

    python3 make_plda.py        # needs numpy and scipy
"""
import os

import numpy as np
from scipy.linalg import eigh

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "plda")
SIZE, LDA = 12, 5


def wave(seed, *shape):
    n = int(np.prod(shape))
    return np.cos(seed + 1.7 * np.arange(n)).reshape(shape)


def unit(x):
    return x / np.linalg.norm(x)


def main():
    os.makedirs(HERE, exist_ok=True)
    mean1, mean2, lda = 0.1 * wave(1, SIZE), 0.1 * wave(2, LDA), np.asfortranarray(wave(3, SIZE, LDA))
    mu, tr = (0.1 * wave(4, LDA)).astype(np.float32), np.eye(LDA) + 0.3 * wave(5, LDA, LDA)
    psi = 2 + wave(6, LDA)
    np.savez(os.path.join(HERE, "xvec_transform.npz"), mean1=mean1, mean2=mean2, lda=lda)
    np.savez(os.path.join(HERE, "plda.npz"), mu=mu, tr=tr, psi=psi)
    within, between = np.linalg.inv(tr.T @ tr), np.linalg.inv((tr.T / psi) @ tr)
    phi, axes = eigh(between, within)
    x = wave(7, SIZE).astype(np.float32)
    y = np.sqrt(LDA) * unit(lda.T @ (np.sqrt(SIZE) * unit(x - mean1)) - mean2)
    z = (axes.T @ (y - mu))[::-1]
    with open(os.path.join(HERE, "features.txt"), "w", encoding="utf-8") as out:
        for values in (x, z, phi[::-1]):
            out.write(" ".join("%.12g" % v for v in values) + "\n")


if __name__ == "__main__":
    main()
