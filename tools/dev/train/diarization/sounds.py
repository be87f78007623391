"""What is no speech: noise, hum, machines, tones, clicks, music. All made up, of deviation 1."""
import numpy as np
from scipy.signal import butter, lfilter, sosfilt

RATE = 16000


def even(sound):
    sound = sound.astype(np.float32)
    return sound / (sound.std() + np.float32(1e-9))


def coloured(rng, seconds, power):
    """Noise whose spectrum falls by f^-power, of deviation 1."""
    n = seconds * RATE
    spectrum = np.fft.rfft(rng.standard_normal(n))
    spectrum *= np.maximum(np.fft.rfftfreq(n, 1 / RATE), 30) ** -power
    noise = np.fft.irfft(spectrum, n).astype(np.float32)
    return noise / noise.std()


def gusts(rng, seconds):
    """Noise of a band that comes and goes: wind, waves, cars, rustling."""
    low = rng.uniform(60, 2500)
    band = butter(2, [low, min(7900, low * rng.uniform(1.5, 6))], "bandpass", fs=RATE, output="sos")
    slow = np.repeat(rng.standard_normal(seconds * 20 + 1), RATE // 20)[:seconds * RATE]
    slow = lfilter([1], [1, -rng.uniform(0.9995, 0.99995)], slow)
    return even(sosfilt(band, rng.standard_normal(seconds * RATE)) * np.exp(0.8 * slow / slow.std()))


def hum(rng, seconds):
    """Mains or a motor: harmonics of one pitch that hardly moves."""
    t = np.arange(seconds * RATE) / RATE
    pitch = rng.choice((50, 60, 100, 120, rng.uniform(40, 400)))
    wobble = rng.uniform(0, 0.3) * np.sin(2 * np.pi * rng.uniform(0.1, 6) * t)
    fall = rng.uniform(0.3, 2)
    sound = sum(rng.uniform(0.2, 1) / k ** fall * np.sin(2 * np.pi * k * pitch * t + k * wobble)
                for k in range(1, 1 + rng.integers(1, 16)) if k * pitch < 7900)
    return even(sound + rng.uniform(0, 0.2) * rng.standard_normal(len(t)))


def tones(rng, seconds):
    """Beeps, dialling, sirens: one or two sines that begin and end, or slide."""
    sound, at = np.zeros(seconds * RATE), 0
    while at < len(sound):
        n = min(len(sound) - at, int(RATE * rng.uniform(0.05, 2)))
        slide = np.linspace(1, rng.uniform(0.7, 1.5) if rng.random() < 0.3 else 1, n)
        for _ in range(rng.integers(1, 3)):
            phase = 2 * np.pi * np.cumsum(rng.uniform(200, 3000) * slide) / RATE
            sound[at:at + n] += np.sin(phase) * np.minimum(1, np.minimum(np.arange(n), np.arange(n)[::-1]) / 200)
        at += n + int(RATE * rng.exponential(0.3))
    return even(sound)


def clicks(rng, seconds):
    """Knocks, keys, clapping: bursts of noise through a resonance."""
    sound = np.zeros(seconds * RATE)
    for at in rng.integers(0, len(sound), int(seconds * rng.uniform(1, 12))):
        n = min(len(sound) - at, int(RATE * rng.uniform(0.005, 0.15)))
        sound[at:at + n] += rng.uniform(0.2, 1) * rng.standard_normal(n) * np.exp(-6 * np.arange(n) / n)
    low = rng.uniform(100, 2000)
    band = butter(1, [low, low * 3], "bandpass", fs=RATE, output="sos")
    return even(sosfilt(band, sound) + 1e-3 * rng.standard_normal(len(sound)))


def note(rng, hertz, n, timbre):
    """A struck or a blown one: harmonics that die away or swell."""
    t = np.arange(n) / RATE
    shape = np.exp(-t * timbre[1]) if timbre[2] else np.minimum(1, t / 0.08) * np.minimum(1, t[::-1] / 0.05)
    vibrato = timbre[3] * np.sin(2 * np.pi * 5.5 * t)
    return shape * sum(np.sin(2 * np.pi * k * hertz * t + k * vibrato + rng.uniform(0, 6)) * k ** -timbre[0]
                       for k in range(1, 12) if k * hertz < 7900)


def music(rng, seconds):
    """Chords over a bass, a tune, and often a drum, in a key and a measure."""
    beat = int(RATE * 60 / rng.uniform(60, 170))
    key, sound = 110 * 2 ** (rng.integers(12) / 12), np.zeros(seconds * RATE)
    timbres = [(rng.uniform(0.6, 2.5), rng.uniform(1, 8), rng.random() < 0.6, rng.choice((0.0, 0.0, 0.3)))
               for _ in range(3)]
    scale = (0, 2, 4, 5, 7, 9, 11) if rng.random() < 0.6 else (0, 2, 3, 5, 7, 8, 10)
    drum, tune = rng.random() < 0.5, rng.random() < 0.7
    for i, at in enumerate(range(0, len(sound), beat)):
        if i % 4 == 0:
            root = rng.integers(7)
            n = min(len(sound) - at, 4 * beat)
            for step, (degree, octave) in enumerate(((0, 0.5), (0, 1), (2, 1), (4, 1))):
                pitch = key * octave * 2 ** (scale[(root + degree) % 7] / 12)
                sound[at:at + n] += note(rng, pitch, n, timbres[0 if step else 1])
        if tune and rng.random() < 0.8:
            n = min(len(sound) - at, int(beat * rng.choice((0.5, 1, 2))))
            sound[at:at + n] += note(rng, key * 2 * 2 ** (scale[rng.integers(7)] / 12), n, timbres[2])
        if drum:
            n = min(len(sound) - at, int(RATE * 0.12))
            sound[at:at + n] += 2 * rng.standard_normal(n) * np.exp(-np.arange(n) / RATE * 60)
    return even(sound)


KINDS = (gusts, hum, tones, clicks, music, music)


def some(rng, count, seconds):
    """So many of all kinds, noise of an even spectrum among them."""
    made = [KINDS[i % len(KINDS)](rng, seconds) for i in range(count)]
    return made + [coloured(rng, seconds, p) for p in (0, 0.5, 1.0, 1.5)]
