"""What the two networks hear, as workers/models/pyannote/pyannet_weights.c and gpu/host/filter_bank.c compute it."""
import numpy as np
import torch

RATE = 16000
SINC_WIDTH, SINC_STEP = 251, 10
FRAMES, FRAME_STEP, FRAME_FIRST = 589, 270, 495  # of a window of 10 s; the centre of frame 0


def mel(hz):
    return 1127.0 * np.log1p(np.asarray(hz) / 700.0)


def hertz(value):
    return 700.0 * np.expm1(np.asarray(value) / 1127.0)


def sinc_filters(bands, low_hz=50.0, high_hz=7900.0):
    """[2 bands][251]: bands that follow each other on the mel scale, even filters, then odd ones.
    Ravanelli and Bengio (2018), Pariente et al. (2020)."""
    edges = hertz(np.linspace(mel(low_hz), mel(high_hz), bands + 1))
    edges[1:] = np.maximum(edges[1:], edges[:-1] + 70.0)  # a filter of 251 tells no narrower ones apart
    half = SINC_WIDTH // 2
    t = 2 * np.pi * (np.arange(half) - half) / RATE
    window = 0.54 - 0.46 * np.cos(2 * np.pi * np.arange(half) / (SINC_WIDTH - 1))
    filters = np.zeros((2 * bands, SINC_WIDTH))
    for i, (low, high) in enumerate(zip(edges[:-1], edges[1:])):
        by = window / (t / 2) / (2 * (high - low))
        even = (np.sin(high * t) - np.sin(low * t)) * by
        odd = (np.cos(low * t) - np.cos(high * t)) * by
        filters[i] = np.concatenate((even, [1.0], even[::-1]))
        filters[bands + i] = np.concatenate((odd, [0.0], -odd[::-1]))
    return torch.from_numpy(filters.astype(np.float32))


def sinc_heard(pcm, filters):
    """pcm: [batch][samples]. [batch][filters][5325]: the front of a PyanNet up to its first norm's
    scale: nothing in it is trained, so it is computed once for a window."""
    x = torch.nn.functional.instance_norm(pcm[:, None], eps=1e-5)
    x = torch.nn.functional.conv1d(x, filters[:, None], stride=SINC_STEP).abs()
    x = torch.nn.functional.max_pool1d(x, 3)
    return torch.nn.functional.instance_norm(x, eps=1e-5)


def frame_centres():
    return FRAME_FIRST + FRAME_STEP * np.arange(FRAMES)


def kaldi_filters(bins=80, size=512, low_hz=20.0, high_hz=8000.0):
    """[size / 2 + 1][bins]: triangles over the mel scale."""
    edges = np.linspace(mel(low_hz), mel(high_hz), bins + 2)
    at = mel(np.arange(size // 2 + 1) * RATE / size)[:, None]
    up = (at - edges[:-2]) / (edges[1:-1] - edges[:-2])
    down = (edges[2:] - at) / (edges[2:] - edges[1:-1])
    return np.maximum(0, np.minimum(up, down)).astype(np.float32)


KALDI = kaldi_filters()
HAMMING = (0.54 - 0.46 * np.cos(2 * np.pi * np.arange(400) / 399)).astype(np.float32)


def filter_bank(pcm):
    """[80][frames], each bin's mean taken off."""
    n = 1 + (len(pcm) - 400) // 160
    frames = np.lib.stride_tricks.as_strided(pcm, (n, 400), (pcm.strides[0] * 160, pcm.strides[0]))
    frames = frames - frames.mean(1, keepdims=True)
    before = np.concatenate((frames[:, :1], frames[:, :-1]), 1)
    frames = (frames - np.float32(0.97) * before) * (HAMMING * np.float32(32768))
    spectrum = np.fft.rfft(frames, 512, axis=1)
    power = (spectrum.real ** 2 + spectrum.imag ** 2).astype(np.float32)
    bins = np.log(np.maximum(power @ KALDI, np.finfo(np.float32).eps))
    return (bins - bins.mean(0)).T
