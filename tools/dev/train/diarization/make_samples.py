#!/usr/bin/env python3
"""make_samples.py CACHE FOLDER: the recordings of tests/samples/voices: held-out voices, two to five
in each, Opus at 24 kbit/s, with their RTTM. Needs ffmpeg."""
import glob
import os
import subprocess
import sys
import tempfile

SEED, COUNT, LEAST_S, MOST_S = 20261122, 6, 20, 30
HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    cache, folder = sys.argv[1:3]
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([sys.executable, os.path.join(HERE, "conversations.py"), cache, "test", str(COUNT),
                        work, str(LEAST_S), str(MOST_S), str(SEED)], check=True)
        for wav in sorted(glob.glob(f"{work}/*.wav")):
            name = os.path.basename(wav)[len("test-"):-len(".wav")]
            subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", wav, "-c:a", "libopus", "-b:a", "24k",
                            "-map_metadata", "-1", "-fflags", "+bitexact", "-flags:a", "+bitexact",
                            f"{folder}/{name}.opus"], check=True)
            with open(wav[:-4] + ".rttm", encoding="ascii") as file:
                lines = file.read().replace(f"SPEAKER test-{name} ", f"SPEAKER {name} ")
            with open(f"{folder}/{name}.rttm", "w", encoding="ascii") as file:
                file.write(lines)


if __name__ == "__main__":
    main()
