"""The seeded random weights of the parity networks: the same formula as networks.c's.

A tensor's values follow from its name alone: FNV-1a (64 bit) of "CONFIG:TENSOR" seeds splitmix64 as
a counter, whose upper 24 bits are a number in [-1, 1), times a scale, plus an offset.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "common"))
from formula import uniform

SEED = 20261101

# CONFIG: (filters, channels, channels, LSTM layers, hidden, linear layers' sizes)
SEGMENTATION = {
    "pyannet": (80, 60, 60, 4, 128, (128, 128)),
    "small": (16, 24, 16, 2, 32, (40,)),
    "tiny": (8, 8, 8, 1, 8, (8,)),
}
# CONFIG: (channels of the first layer, blocks of each layer, values of a vector)
RESNET = {"resnet34": (32, (3, 4, 6, 3), 256), "resnet": (8, (1, 2, 1, 1), 48)}
# CONFIG: (layers, hidden, values of a vector)
GE2E = {"ge2e": (3, 256, 256), "little": (2, 48, 64)}


def tensor(config, name, shape, scale, offset=0.0):
    shape = tuple(shape)
    values = uniform(f"{config}:{name}", int(np.prod(shape)), SEED)
    return (values * np.float32(scale) + np.float32(offset)).reshape(shape)


def scale_of(fan_in, gain):
    """Such that what goes through keeps its size: uniform values of deviation gain / sqrt(fan_in).

    Rounded to a power of two, which C computes alike."""
    return 2.0 ** round(np.log2(gain * (3.0 / fan_in) ** 0.5))


def segmentation(config):
    filters, first, second, layers, hidden, sizes = SEGMENTATION[config]
    bands = filters // 2
    t = {}

    def add(name, shape, scale, offset=0.0):
        t[name] = tensor(config, name, shape, scale, offset)

    add("sincnet.wav_norm1d.weight", (1,), 0.125, 1.0)
    add("sincnet.wav_norm1d.bias", (1,), 0.125)
    add("sincnet.conv1d.0.filterbank.low_hz_", (bands, 1), 3000.0, 3000.0)
    add("sincnet.conv1d.0.filterbank.band_hz_", (bands, 1), 1000.0, 500.0)
    channels = filters
    for i, out in ((1, first), (2, second)):
        add(f"sincnet.conv1d.{i}.weight", (out, channels, 5), scale_of(channels * 5, 1.0))
        add(f"sincnet.conv1d.{i}.bias", (out,), 0.125)
        channels = out
    for i, out in enumerate((filters, first, second)):
        add(f"sincnet.norm1d.{i}.weight", (out,), 0.25, 1.0)
        add(f"sincnet.norm1d.{i}.bias", (out,), 0.125)
    width = second
    for i in range(layers):
        for tail in ("", "_reverse"):
            add(f"lstm.weight_ih_l{i}{tail}", (4 * hidden, width), scale_of(width, 2.0))
            add(f"lstm.weight_hh_l{i}{tail}", (4 * hidden, hidden), scale_of(hidden, 1.0))
            add(f"lstm.bias_ih_l{i}{tail}", (4 * hidden,), 0.125)
            add(f"lstm.bias_hh_l{i}{tail}", (4 * hidden,), 0.125)
        width = 2 * hidden
    for i, out in enumerate(sizes):
        add(f"linear.{i}.weight", (out, width), scale_of(width, 2.0))
        add(f"linear.{i}.bias", (out,), 0.125)
        width = out
    add("classifier.weight", (7, width), scale_of(width, 8.0))
    add("classifier.bias", (7,), 0.125)
    return t


def resnet(config):
    first, blocks, size = RESNET[config]
    t = {}

    def add(name, shape, scale, offset=0.0):
        t["resnet." + name] = tensor(config, "resnet." + name, shape, scale, offset)

    def add_conv(conv, norm, out, channels, kernel, gain):
        add(conv + ".weight", (out, channels, kernel, kernel),
            scale_of(channels * kernel * kernel, gain))
        add(norm + ".weight", (out,), 0.25, 1.0)
        add(norm + ".bias", (out,), 0.125)
        add(norm + ".running_mean", (out,), 0.125)
        add(norm + ".running_var", (out,), 0.5, 1.0)

    add_conv("conv1", "bn1", first, 1, 3, 0.5)
    channels = first
    for layer in range(1, 5):
        out = first << (layer - 1)
        for i in range(blocks[layer - 1]):
            prefix = f"layer{layer}.{i}."
            add_conv(prefix + "conv1", prefix + "bn1", out, channels, 3, 1.4)
            add_conv(prefix + "conv2", prefix + "bn2", out, out, 3, 0.7)
            if channels != out or (layer > 1 and i == 0):
                add_conv(prefix + "shortcut.0", prefix + "shortcut.1", out, channels, 1, 1.0)
            channels = out
    add("seg_1.weight", (size, 2 * 10 * channels), scale_of(20 * channels, 1.0))
    add("seg_1.bias", (size,), 0.125)
    return t


def ge2e(config):
    layers, hidden, size = GE2E[config]
    t = {}

    def add(name, shape, scale, offset=0.0):
        t[name] = tensor(config, name, shape, scale, offset)

    width = 40
    for i in range(layers):
        add(f"lstm.weight_ih_l{i}", (4 * hidden, width), 8.0 if i == 0 else scale_of(width, 4.0))
        add(f"lstm.weight_hh_l{i}", (4 * hidden, hidden), scale_of(hidden, 1.0))
        add(f"lstm.bias_ih_l{i}", (4 * hidden,), 0.125)
        add(f"lstm.bias_hh_l{i}", (4 * hidden,), 0.125)
        width = hidden
    add("linear.weight", (size, hidden), scale_of(hidden, 2.0))
    add("linear.bias", (size,), 0.125)
    return t


MASKS = 9  # three windows, each with three of the five kinds


def mask(m, frames=589):
    """(window, weights) of mask m."""
    weights = np.zeros(frames, dtype=np.float32)
    kind = m % 5
    if kind == 0:
        weights[:] = 1.0
    elif kind == 1:
        weights[100:300] = 1.0
    elif kind == 2:
        weights[:] = (uniform(f"mask:{m}", frames, SEED) + np.float32(1.0)) * np.float32(0.5)
    elif kind == 3:
        weights[200:205] = 1.0
    else:
        weights[3:5] = 1.0
    return m % 3, weights


def sound(windows, samples=160000):
    """Voices as the C side makes them: integers alone, so that both have the same samples.

    A window has tones that begin and end, noise, and silence at its end."""
    pcm = np.zeros((windows, samples), dtype=np.float32)
    i = np.arange(samples, dtype=np.uint64)
    for w in range(windows):
        noise = uniform(f"sound:{w}", samples, SEED).astype(np.float64)
        period = np.uint64(40 + 13 * w)
        saw = (i % period).astype(np.float64) / float(period) - 0.5
        loud = ((i // np.uint64(8000 + 1000 * w)) % np.uint64(3)).astype(np.float64) / 2.0
        pcm[w] = (0.25 * saw * loud + 0.0625 * noise * (1.0 - 0.5 * loud)).astype(np.float32)
        pcm[w, samples - 16000 * (w % 3):] = 0.0
    return pcm
