"""Conversations out of the voices' utterances: turns, pauses, overlap, rooms, noise, levels.

Whoever overlaps is known by construction: an utterance has no pause within and no silence at its
ends, so that its place in the recording is its speaker's turn. Never more than two at once."""
import json

import numpy as np
from scipy.signal import butter, lfilter, oaconvolve, sosfilt

import sounds
import voices
from sounds import coloured

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


def chances(bank, share):
    """Of each usable voice to be picked: recorded ones that were turned into others are nearer to people's
    than drawn ones, and make up this share."""
    kinds = {voice.name: voice.kind for voice in voices.voices("train")}
    recorded = np.array([kinds[bank.names[v]] in ("flite", "festival") for v in bank.usable])
    share = share if 0 < recorded.sum() < len(recorded) else recorded.mean()
    return np.where(recorded, share / max(recorded.sum(), 1), (1 - share) / max((~recorded).sum(), 1))


def pitch(pcm, step=640, size=1024):
    """Of what is said, in Hz: the median of what frames of 64 ms repeat themselves by (autocorrelation)."""
    frames = np.lib.stride_tricks.sliding_window_view(pcm, size)[::step] * np.hanning(size)
    again = np.fft.irfft(np.abs(np.fft.rfft(frames, 2 * size, axis=1)) ** 2, axis=1)
    window = np.fft.irfft(np.abs(np.fft.rfft(np.hanning(size), 2 * size)) ** 2)
    shortest, longest = RATE // 400, RATE // 60
    again = again[:, shortest:longest] / (again[:, :1] + 1e-9) * (window[0] / window[shortest:longest])
    voiced = again.max(1) > 0.6
    return RATE / (shortest + np.median(again[voiced].argmax(1))) if voiced.any() else RATE / longest


class Pitches:
    """Which of a bank's voices are as high as another: whom one takes for one most easily."""

    def __init__(self, bank, near=80):
        told = {voice.name: voice for voice in voices.voices("train")}
        self.voices, self.near = [told[bank.names[v]] for v in bank.usable], near
        longest = [max(bank.of[v], key=lambda said: said[1]) for v in bank.usable]
        self.octaves = np.log2([pitch(bank.pcm[at:at + n] / np.float32(32768)) for at, n in longest])

    def as_high(self, i):
        """[those nearest to voice i, of bank.usable], but none that is all but the same throat."""
        nearest = np.argsort(np.abs(self.octaves - self.octaves[i]), kind="stable")[:self.near + 1]
        mine = self.voices[i]
        return np.array([k for k in nearest if k != i and (
            self.voices[k].base != mine.base or mine.kind == "drawn" or
            abs(np.log(self.voices[k].size / mine.size)) > 0.06)])


def telephone(rng, pcm):
    """A line's band, and its eight bits a sample (mu-law); the upper edge as modems and cheap recorders
    have it, too."""
    edges = [rng.uniform(80, 350), rng.uniform(3000, 6000)]
    pcm = sosfilt(butter(rng.integers(2, 5), edges, "bandpass", fs=RATE, output="sos"), pcm)
    loudest = np.abs(pcm).max() + 1e-6
    if rng.random() < 0.5:
        bent = np.sign(pcm) * np.log1p(255 * np.abs(pcm) / loudest) / np.log(256)
        bent = np.round(bent * 127) / 127
        pcm = np.sign(bent) * np.expm1(np.abs(bent) * np.log(256)) / 255 * loudest
    return pcm


def room(rng, longest=0.35):
    """A room's response: the sound itself, then reflections that die away."""
    n = int(RATE * rng.uniform(0.08, longest))
    tail = rng.standard_normal(n) * np.exp(-np.arange(n) / n * rng.uniform(4, 7))
    tail[:int(RATE * rng.uniform(0.002, 0.01))] = 0
    tail *= rng.uniform(0.1, 0.7) / np.sqrt((tail ** 2).sum())
    tail[0] = 1
    return tail.astype(np.float32)


def faded(pcm, n=160):
    """Its end dies away within 10 ms."""
    return np.concatenate((pcm[:-n], pcm[-n:] * np.linspace(1, 0, n, dtype=np.float32)))


class Mixer:
    """wide: with what is no speech under it or between, telephone lines, clipping, larger rooms, and
    voices whose effort changes from sentence to sentence."""

    def __init__(self, bank, seed, hard=1.0, wide=False, likely=None):
        self.bank = bank
        self.likely = likely  # of bank.usable; None: all alike
        self.rng = np.random.default_rng(seed)
        self.noises = [coloured(self.rng, 30, p) for p in (0, 0.5, 1.0, 1.0)]
        self.rooms = [room(self.rng) for _ in range(64)]
        self.hard = hard  # how often a recording is spoilt
        self.wide = wide
        if wide:
            self.sounds = sounds.some(self.rng, 36, 30)
            self.rooms += [room(self.rng, 0.9) for _ in range(32)]

    def pick(self, count):
        return self.rng.choice(self.bank.usable, count, replace=False, p=self.likely)

    def pick_alike(self, count, pitches):
        """As pick() does, but all about as high as the first one."""
        first = self.rng.choice(len(self.bank.usable), p=self.likely)
        near = pitches.as_high(first)
        likely = None if self.likely is None else self.likely[near] / self.likely[near].sum()
        others = self.rng.choice(near, count - 1, replace=False, p=likely)
        return np.array(self.bank.usable)[[first, *others]]

    def effort(self, pcm):
        """Louder speech is of a flatter spectrum, quiet speech of a steeper one."""
        if not self.wide or self.rng.random() < 0.4:
            return pcm
        effort = self.rng.uniform(-1, 1)
        return (lfilter([1, -0.35 * effort], [1], pcm) * 10 ** (5 * effort / 20)).astype(np.float32)

    def sound(self, samples):
        """Something that is no speech, of deviation 1."""
        kept = self.sounds[self.rng.integers(len(self.sounds))]
        at = self.rng.integers(len(kept))
        return np.resize(np.concatenate((kept[at:], kept[:at])), samples)

    def background(self, mixed, level):
        """Music or a noise under all of it, or under a part."""
        rng, n = self.rng, len(mixed)
        sound = self.sound(n) * level * 10 ** (-rng.uniform(3, 30) / 20)
        if rng.random() < 0.4:
            begin, end = sorted(rng.integers(0, n, 2))
            sound[:begin] = 0
            sound[end:] = 0
        return mixed + sound

    def silent(self, samples):
        """A recording in which nobody speaks."""
        pcm = self.sound(samples)
        if self.rng.random() < 0.5:
            pcm = pcm + self.sound(samples) * self.rng.uniform(0.05, 1)
        if self.rng.random() < 0.25:
            pcm = telephone(self.rng, pcm)
        pcm = pcm * 10 ** (self.rng.uniform(-60, -14) / 20)
        return np.clip(pcm, -1, 1).astype(np.float32)

    def turns(self, voices, samples, overlap=0.25, whole=False):
        """[(local speaker, start sample, pcm)], ascending. whole: nobody speaks before it begins."""
        rng, found = self.rng, []
        early = not whole and rng.random() < 0.7
        at = -int(RATE * rng.uniform(0, 3)) if early else int(RATE * rng.uniform(0, 1.5))
        ends = np.full(len(voices), at)  # of each speaker's last word
        who = rng.integers(len(voices))
        while at < samples:
            for _ in range(rng.choice((1, 1, 2, 3))):
                pcm = self.effort(self.bank.utterance(rng, voices[who]))
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

    def words(self, found, voices, share):
        """Of what turns() found: this share cut down to a word or two; and into long ones, as often, somebody
        else says a word ("yes") where nobody but these two speaks."""
        rng, cut = self.rng, []
        for who, at, pcm in found:
            most = int(RATE * rng.uniform(0.3, 1.2))
            cut.append((who, at, faded(pcm[:most]) if rng.random() < share and len(pcm) > most else pcm))
        added = []
        for who, at, pcm in cut:
            if len(voices) == 1 or len(pcm) < 2 * RATE or rng.random() >= share:
                continue
            other = (who + 1 + rng.integers(len(voices) - 1)) % len(voices)
            word = faded(self.bank.utterance(rng, voices[other])[:int(RATE * rng.uniform(0.25, 0.9))])
            begin = at + rng.integers(len(pcm) - len(word))
            if all(begin >= a + len(p) or begin + len(word) <= a for _, a, p in cut + added if a != at):
                added.append((other, begin, word))
        return sorted(cut + added, key=lambda turn: turn[1])

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
        if self.wide:
            if rng.random() < 0.4:
                mixed = self.background(mixed, level)
            if rng.random() < 0.25:
                mixed = telephone(rng, mixed)
            if rng.random() < 0.05:
                mixed = np.clip(mixed, -2 * level, 2 * level)
            mixed = mixed * 10 ** (rng.uniform(-10, 6) / 20)
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
