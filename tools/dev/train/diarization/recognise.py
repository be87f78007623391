#!/usr/bin/env python3
"""recognise.py NIGHTSHIFT WORK [MODEL [SEED]]: how well voices are known again from one recording to another.

First what likeness says of the development set's voices: the steps of store/register/likeness.c are
chosen from that table. Then, with these, the test set's 20 voices by the program itself: names that are
carried from a first recording of each to a second one, and groups of voices that nobody named. Each
recording, 40 to 80 s, has one of 20 voices and beside it one of the split's others; the 20 are heard
once in every evening, of which the development set has six, the test set two.

What the voices say, the recordings and the catalogs are kept in WORK; for another model or seed take
another folder, or delete the catalogs. MODEL: diarization-nano unless it is named. SEED: of the test
set's recordings, 21. Needs espeak-ng, flite, numpy and scipy; takes ten minutes on two cores."""
import collections
import json
import os
import sqlite3
import subprocess
import sys

import numpy as np
from scipy.stats import chi2

import conversations
import mixture

HERE = os.path.dirname(os.path.abspath(__file__))
VOICES = 20
EVENINGS = {"dev": 6, "test": 2}
SEEDS = {"dev": 20, "test": 21}
SHORTEST_S, LONGEST_S = 40, 80
LEAST_MS = 8000  # as in store/register/likeness.h


def record(mixer, voices, seconds):
    """(pcm, spoken) in which each of the voices speaks for 8 s at least."""
    samples = int(seconds * mixture.RATE)
    while True:
        found = [turn for turn in mixer.turns(voices, samples, 0.15, whole=True)
                 if turn[1] + len(turn[2]) <= samples]
        tracks, spoken = mixer.tracks(found, len(voices), samples)
        if min(conversations.spoken_seconds(spoken, len(voices))) >= 8:
            return mixer.place(tracks), spoken


def make_recordings(cache, split, folder):
    """EVENING-VOICE.wav and .rttm: voices 0 to 19 of a drawn order, each beside one of the others."""
    if not os.path.exists(f"{cache}/{split}.json"):
        subprocess.run([sys.executable, f"{HERE}/speech.py", cache, split], check=True)
    bank = mixture.Bank(cache, split)
    mixer = mixture.Mixer(bank, SEEDS[split], hard=0.5)
    order = mixer.rng.permutation(bank.usable)
    known, others = order[:VOICES], order[VOICES:]
    with open(f"{folder}/known.json", "w", encoding="ascii") as file:
        json.dump([bank.names[v] for v in known], file)
    for evening in range(EVENINGS[split]):
        beside = np.concatenate([mixer.rng.permutation(others) for _ in range(VOICES // len(others) + 1)])
        for i in range(VOICES):
            voices = np.array([known[i], beside[i]])
            pcm, spoken = record(mixer, voices, mixer.rng.uniform(SHORTEST_S, LONGEST_S))
            name = f"{evening}-{i:02d}"
            conversations.write_wav(f"{folder}/{name}.wav", pcm)
            with open(f"{folder}/{name}.rttm", "w", encoding="ascii") as file:
                file.write(conversations.rttm(name, spoken, voices, bank.names))


def recordings(work, split):
    folder = f"{work}/{split}-recordings"
    if not os.path.isdir(folder):
        os.makedirs(f"{folder}.part", exist_ok=True)
        make_recordings(f"{work}/speech", split, f"{folder}.part")
        os.rename(f"{folder}.part", folder)
    return folder


class Archive:
    """A catalog of a split's recordings, and who its speakers are in truth."""

    def __init__(self, program, catalog, folder):
        self.program, self.catalog, self.folder = program, catalog, folder
        with open(f"{folder}/known.json", encoding="ascii") as file:
            self.known = json.load(file)
        self.truth = {}

    def diarize(self, model):
        self.tell("enqueue", "--no-transcribe", f"--diarize={model}", self.folder)
        self.tell("run", "--devices=cpu")

    def copy(self, catalog):
        """One that may be changed."""
        if os.path.exists(catalog):
            os.remove(catalog)
        with sqlite3.connect(self.catalog) as db:
            db.execute("VACUUM INTO ?", (catalog,))
        return Archive(self.program, catalog, self.folder)

    def tell(self, *words):
        subprocess.run([self.program, words[0], f"--catalog={self.catalog}", *words[1:]], check=True,
                       stdout=subprocess.DEVNULL)

    def sql(self, query, *values):
        with sqlite3.connect(self.catalog) as db:
            return db.execute(query, values).fetchall()

    def turns(self, name):
        if name not in self.truth:
            with open(f"{self.folder}/{name}.rttm", encoding="ascii") as file:
                lines = [line.split() for line in file]
            self.truth[name] = [(w[7], float(w[3]), float(w[3]) + float(w[4])) for w in lines]
        return self.truth[name]

    def speakers(self):
        """{speaker_id: (recording, voice, speech_ms)}: the voice is whose words fill most of the
        speaker's turns."""
        found = {}
        for speaker, path, speech_ms in self.sql("SELECT speaker_id, path, speech_ms FROM speakers"):
            name = os.path.basename(path)[:-len(".wav")]
            shared = collections.Counter()
            for begin, end in self.sql("SELECT start_ms / 1000.0, end_ms / 1000.0 FROM turn "
                                       "WHERE speaker_id = ?", speaker):
                for voice, start, stop in self.turns(name):
                    shared[voice] += max(0.0, min(end, stop) - max(begin, start))
            found[speaker] = (name, shared.most_common(1)[0][0], speech_ms)
        return found

    def vectors(self):
        return {speaker: np.frombuffer(vector, "<f4") for speaker, vector in
                self.sql("SELECT speaker_id, vector FROM speaker WHERE vector IS NOT NULL")}


def heard(speakers):
    """{(recording, voice): speaker_id}: of several that a voice was taken for, who speaks most."""
    found = {}
    for speaker, (name, voice, speech_ms) in sorted(speakers.items(), key=lambda s: s[1][2]):
        found[name, voice] = speaker
    return found


def choose(archive):
    """How often two recordings' voices are alike, of the same voice and of two."""
    vectors, speakers = archive.vectors(), archive.speakers()
    use = [s for s in vectors if speakers[s][2] >= LEAST_MS]
    alike = np.stack([vectors[s] for s in use])
    alike = alike @ alike.T
    same, other = [], []
    for i, a in enumerate(use):
        for k, b in enumerate(use[:i]):
            if speakers[a][0] != speakers[b][0]:
                (same if speakers[a][1] == speakers[b][1] else other).append(alike[i, k])
    same, other = np.array(same), np.array(other)
    print(f"{len(use)} speakers of {len({speakers[s][1] for s in use})} voices, {LEAST_MS / 1000:.0f} s or more each:"
          f" {len(same)} pairs of one voice, {len(other)} of two\n")
    print("| likeness | of one voice, less alike | of two, as alike | at most (95 %) |\n|---|---|---|---|")
    steps = []
    for least in (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95):
        false = int((other >= least).sum())
        most = chi2.ppf(0.95, 2 * (false + 1)) / 2 / len(other)  # of a Poisson number
        print(f"| {least:.2f} | {100 * (same < least).mean():.1f} % | {false} ({100 * false / len(other):.3f} %) |"
              f" {100 * most:.3f} % |")
        steps.append(f"{{{least:.2f}, {most:.2g}}}")
    model, = archive.sql("SELECT model_hash FROM stage WHERE name = 'diarize'")[0]
    print(f"\nstore/register/likeness.c: {model}: {', '.join(steps)}\n")


def names(archive):
    """Each of the 20 is named where it is heard first. What is proposed elsewhere?"""
    speakers = archive.speakers()
    of = heard(speakers)
    for i, voice in enumerate(archive.known):
        if (f"0-{i:02d}", voice) in of:
            label, = archive.sql("SELECT label FROM speaker WHERE speaker_id = ?", of[f"0-{i:02d}", voice])[0]
            archive.tell("speakers", "name", f"{archive.folder}/0-{i:02d}.wav/{label}", voice, "--everywhere", "--quiet")
    proposed = dict(archive.sql("SELECT speaker_id, name FROM proposals"))
    again = {of[key]: key[1] for i, voice in enumerate(archive.known)
             if (key := (f"1-{i:02d}", voice)) in of}
    right = [s for s in again if proposed.get(s) == again[s]]
    wrong = [s for s in again if s in proposed and proposed[s] != again[s]]
    main = set(of.values())
    strangers = [s for s in main if speakers[s][1] not in archive.known]
    print("| who | there | right name | wrong name | withheld |\n|---|---|---|---|---|")
    print(f"| the 20 voices, in their second recording | {VOICES} | {len(right)} | {len(wrong)} |"
          f" {VOICES - len(right) - len(wrong)} |")
    for what, who in (("voices that nobody named", strangers), ("pieces of voices", set(speakers) - main)):
        named = [s for s in who if s in proposed]
        good = [s for s in named if proposed[s] == speakers[s][1]]
        print(f"| {what} | {len(who)} | {len(good)} | {len(named) - len(good)} | {len(who) - len(named)} |")
    least, = archive.sql("SELECT name_from FROM voice_model")[0]
    print(f"\nproposed from {least} on, among {len(archive.known)} people; {VOICES - len(again)} of the 20 are"
          " nobody's speaker of their own there\n")


def groups(archive):
    """Nobody is named. Who is grouped with whom?"""
    speakers = archive.speakers()
    of = heard(speakers)
    group = dict(archive.sql("SELECT speaker_id, group_id FROM speakers WHERE group_id IS NOT NULL"))
    main = sorted(of.values())
    pairs = [(a, b) for a in main for b in main if a < b and speakers[a][0] != speakers[b][0]]
    same = [(a, b) for a, b in pairs if speakers[a][1] == speakers[b][1]]
    together = [(a, b) for a, b in pairs if a in group and group[a] == group.get(b)]
    right = [pair for pair in together if speakers[pair[0]][1] == speakers[pair[1]][1]]
    members = collections.defaultdict(set)
    for speaker, number in group.items():
        members[number].add(speakers[speaker][1])
    print("| pairs of one voice | in one group | not | pairs of two voices in one group | groups | of one voice |")
    print("|---|---|---|---|---|---|")
    print(f"| {len(same)} | {len(right)} | {len(same) - len(right)} | {len(together) - len(right)} | {len(members)} |"
          f" {sum(len(voices) == 1 for voices in members.values())} |")
    least, voices = archive.sql("SELECT group_from, voices FROM voice_model")[0]
    print(f"\ngrouped from {least} on, {voices} voices of {LEAST_MS / 1000:.0f} s or more, {len(main)} in all\n")


def main():
    program, work = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    model = sys.argv[3] if len(sys.argv) > 3 else "diarization-nano"
    SEEDS["test"] = int(sys.argv[4]) if len(sys.argv) > 4 else SEEDS["test"]
    for split in ("dev", "test"):
        folder = recordings(work, split)
        archive = Archive(program, f"{work}/{split}.db", folder)
        archive.diarize(model)
        print(f"{split}: {VOICES * EVENINGS[split]} recordings, {len(archive.speakers())} speakers found in them\n")
        if split == "dev":
            choose(archive)
        else:
            names(archive.copy(f"{work}/{split}-named.db"))
            groups(archive)


if __name__ == "__main__":
    main()
