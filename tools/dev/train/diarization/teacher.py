#!/usr/bin/env python3
"""teacher.py CACHE MODEL: what an encoder that heard people makes of the training voices: CACHE/teacher.npy,
[voices][256], the mean of each voice, of length 1. MODEL: the folder diarization-ge2e, as
`nightshift model pull diarization-ge2e` leaves it (Resemblyzer's GE2E, Apache-2.0).

It hears what workers/models/pyannote/voiceprint.c has it hear: pieces of 1.6 s, 40 bins of
Slaney's mel scale, their power as it is."""
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import mixture
import restore

RATE, FRAME, STEP, PIECE, PIECES = 16000, 400, 160, 160, 12  # PIECES of a voice at most
BINS, HIDDEN, SIZE = 40, 256, 256
LOUDNESS = 10 ** (-30 / 20)


def hertz(slaney):
    return np.where(slaney < 15, slaney * 200 / 3, 1000 * 6.4 ** ((slaney - 15) / 27))


def slaney_filters():
    """[FRAME / 2 + 1][BINS]: triangles of area one, linear below 1 kHz and logarithmic above."""
    highest = 15 + 27 * np.log(RATE / 2 / 1000) / np.log(6.4)
    edges = hertz(np.linspace(0, highest, BINS + 2))
    at = (np.arange(FRAME // 2 + 1) * RATE / FRAME)[:, None]
    up = (at - edges[:-2]) / (edges[1:-1] - edges[:-2])
    down = (edges[2:] - at) / (edges[2:] - edges[1:-1])
    return np.maximum(0, np.minimum(up, down)) * 2 / (edges[2:] - edges[:-2])


def mel(pcm, filters):
    """[frames][BINS]."""
    pcm = np.pad(pcm, FRAME // 2, "reflect")
    n = 1 + (len(pcm) - FRAME) // STEP
    frames = np.lib.stride_tricks.as_strided(pcm, (n, FRAME), (pcm.strides[0] * STEP, pcm.strides[0]))
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FRAME) / FRAME)
    return (np.abs(np.fft.rfft(frames * hann, axis=1)) ** 2 @ filters).astype(np.float32)


class Encoder(nn.Module):
    def __init__(self, path):
        super().__init__()
        self.lstm = nn.LSTM(BINS, HIDDEN, 3, batch_first=True)
        self.linear = nn.Linear(HIDDEN, SIZE)
        self.load_state_dict(restore.read(path))

    def forward(self, x):
        _, (last, _) = self.lstm(x)
        return F.normalize(F.relu(self.linear(last[-1])))


def pieces(bank, voice, filters):
    """[pieces][PIECE][BINS] of what the voice says, joined."""
    said = np.concatenate([bank.pcm[at:at + n] for at, n in bank.of[voice]]).astype(np.float32) / 32768
    said = said[:PIECES * PIECE * STEP]
    said *= LOUDNESS / np.sqrt((said ** 2).mean())
    rows = mel(np.resize(said, max(len(said), PIECE * STEP)), filters)
    return rows[:len(rows) // PIECE * PIECE].reshape(-1, PIECE, BINS)


def main():
    cache, folder = sys.argv[1:3]
    torch.set_num_threads(1)
    bank, filters = mixture.Bank(cache, "train"), slaney_filters()
    encoder = Encoder(f"{folder}/embedding.safetensors").eval()
    means = np.zeros((len(bank.names), SIZE), np.float32)
    for voice in bank.usable:
        with torch.no_grad():
            heard = encoder(torch.from_numpy(pieces(bank, voice, filters)))
        means[voice] = F.normalize(heard.mean(0), dim=0).numpy()
    np.save(f"{cache}/teacher.npy", means)


if __name__ == "__main__":
    main()
