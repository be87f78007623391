"""Weights by formula, as formula_weights.h has them: for the scripts that make fixtures."""
import numpy as np


def fnv1a(text):
    """FNV-1a, 64 bit (Fowler, Noll, Vo)."""
    h = 0xCBF29CE484222325
    for byte in text.encode():
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


def uniform(name, count, seed=20260901):
    """Element i of "MODEL:TENSOR": splitmix64 of a counter, as a float32 in [-1, 1)."""
    with np.errstate(over="ignore"):
        z = np.uint64(fnv1a(name) ^ seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(40)).astype(np.float32) * np.float32(2.0 ** -23) - np.float32(1)
