"""Conversations out of the voices' utterances: turns, pauses, overlap, rooms, noise, levels.

Whoever overlaps is known by construction: an utterance has no pause within and no silence at its
ends, so that its place in the recording is its speaker's turn. Never more than two at once."""
import json

import numpy as np
from scipy.signal import lfilter, oaconvolve

RATE = 16000


class Bank:
    """A split's utterances, as speech.py left them in the cache."""

    def __init__(self, cache, split):
        with open(f"{cache}/{split}.json", encoding="ascii") as file:
            index = json.load(file)
        self.names = index["voices"]
        self.pcm = np.memmap(f"{cache}/{split}.i16", "<i2", "r")
        self.of = [[] for _ in self.names]
        for voice, at, n in index["utterances"]:
            self.of[voice].append((at, n))
        self.usable = [v for v, all_of in enumerate(self.of) if all_of]

    def utterance(self, rng, voice):
        at, n = self.of[voice][rng.integers(len(self.of[voice]))]
        return self.pcm[at:at + n].astype(np.float32) / 32768


def coloured(rng, seconds, power):
    """Noise whose spectrum falls by f^-power, of deviation 1."""
    n = seconds * RATE
    spectrum = np.fft.rfft(rng.standard_normal(n))
    spectrum *= np.maximum(np.fft.rfftfreq(n, 1 / RATE), 30) ** -power
    noise = np.fft.irfft(spectrum, n).astype(np.float32)
    return noise / noise.std()


def room(rng):
    """A room's response: the sound itself, then reflections that die away."""
    n = int(RATE * rng.uniform(0.08, 0.35))
    tail = rng.standard_normal(n) * np.exp(-np.arange(n) / n * rng.uniform(4, 7))
    tail[:int(RATE * rng.uniform(0.002, 0.01))] = 0
    tail *= rng.uniform(0.1, 0.7) / np.sqrt((tail ** 2).sum())
    tail[0] = 1
    return tail.astype(np.float32)


class Mixer:
    def __init__(self, bank, seed, hard=1.0):
        self.bank = bank
        self.rng = np.random.default_rng(seed)
        self.noises = [coloured(self.rng, 30, p) for p in (0, 0.5, 1.0, 1.0)]
        self.rooms = [room(self.rng) for _ in range(64)]
        self.hard = hard  # how often a recording is spoilt

    def pick(self, count):
        return self.rng.choice(self.bank.usable, count, replace=False)

    def turns(self, voices, samples, overlap=0.25, whole=False):
        """[(local speaker, start sample, pcm)], ascending. whole: nobody speaks before it begins."""
        rng, found = self.rng, []
        early = not whole and rng.random() < 0.7
        at = -int(RATE * rng.uniform(0, 3)) if early else int(RATE * rng.uniform(0, 1.5))
        ends = np.full(len(voices), at)  # of each speaker's last word
        who = rng.integers(len(voices))
        while at < samples:
            for _ in range(rng.choice((1, 1, 2, 3))):
                pcm = self.bank.utterance(rng, voices[who])
                found.append((who, at, pcm))
                ends[who] = at + len(pcm)
                at = ends[who] + int(RATE * rng.uniform(0.03, 0.35))
            other = who
            if len(voices) > 1 and rng.random() < 0.85:
                other = (who + 1 + rng.integers(len(voices) - 1)) % len(voices)
            last = ends[who]
            kind = rng.random()
            if kind < overlap and other != who:
                earliest = max([ends[s] for s in range(len(voices)) if s != who] + [found[-1][1]])
                at = max(earliest, last - int(RATE * rng.uniform(0.2, 2.0)))
            elif kind > 0.85:
                at = last + int(RATE * rng.uniform(1.0, 4.0))
            else:
                at = last + int(RATE * rng.exponential(0.4))
            who = other
        return found

    def tracks(self, found, count, samples):
        """[count][samples], and [(speaker, start, end)] within them."""
        tracks, spoken = np.zeros((count, samples), np.float32), []
        for who, at, pcm in found:
            begin, end = max(at, 0), min(at + len(pcm), samples)
            if end - begin > 0:
                tracks[who, begin:end] += pcm[begin - at:end - at]
                spoken.append((int(who), begin, end))
        return tracks, spoken

    def place(self, tracks):
        """Each in its place in the room: loudness, distance, colour; then all as one microphone hears."""
        rng, n = self.rng, tracks.shape[1]
        mixed = np.zeros(n, np.float32)
        reverb = rng.random() < 0.4 * self.hard
        for track in tracks:
            track = track * 10 ** (rng.uniform(-5, 5) / 20)
            if reverb:
                track = oaconvolve(track, self.rooms[rng.integers(len(self.rooms))])[:n]
            mixed += track
        if rng.random() < 0.6 * self.hard:  # a slope over all frequencies
            mixed = lfilter([1, -rng.uniform(-0.6, 0.6)], [1], mixed)
        if rng.random() < 0.2 * self.hard:  # a dull recording: two poles
            pole = rng.uniform(0.2, 0.6)
            mixed = lfilter([(1 - pole) ** 2], [1, -2 * pole, pole * pole], mixed)
        level = np.sqrt((mixed ** 2).mean()) + 1e-4
        if rng.random() < 0.85:
            noise = self.noises[rng.integers(len(self.noises))]
            at = rng.integers(len(noise))
            noise = np.resize(np.concatenate((noise[at:at + n], noise[:n])), n)
            mixed = mixed + noise * level * 10 ** (-rng.uniform(12 if self.hard else 25, 45) / 20)
        mixed = mixed * (10 ** (rng.uniform(-32, -14) / 20) / level)
        return np.clip(mixed, -1, 1).astype(np.float32)

    def window(self, voices, seconds, overlap=0.25, silent=0.0):
        """(pcm, spoken). silent: the share of what they say that they do not."""
        samples = int(seconds * RATE)
        found = [turn for turn in self.turns(voices, samples, overlap) if self.rng.random() >= silent]
        tracks, spoken = self.tracks(found, len(voices), samples)
        return self.place(tracks), spoken


def activity(spoken, count, centres):
    """[count][len(centres)] of bool: who speaks at these samples."""
    active = np.zeros((count, len(centres)), bool)
    for who, begin, end in spoken:
        active[who] |= (centres >= begin) & (centres < end)
    return active
