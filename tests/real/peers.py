"""The same recordings through other programs with the same weights: each is computed once.

Their texts are kept as JSON, a file for each set, program and model, by the sum of a recording's bytes.
"""
import hashlib
import json
import os
import subprocess
import sys

import cache

PEERS = ("faster-whisper", "faster-whisper-batched", "openai-whisper")
PACKAGES = {"faster-whisper": ("faster-whisper==1.2.1",), "openai-whisper": ("openai-whisper==20250625",)}
# With Debian's python3-torch, a tenth of PyPI's: what openai-whisper imports beside it.
BESIDE_TORCH = ("--no-deps", "openai-whisper==20250625", "tiktoken", "regex", "requests", "charset-normalizer", "idna",
                "urllib3", "certifi", "tqdm", "more-itertools", "numba==0.58.1", "llvmlite==0.41.1", "setuptools<81")
RUNNER = os.path.join(cache.HERE, "peer_run.py")


def python_of(peer):
    """peer: with or without "+words". $NIGHTSHIFT_REAL_PYTHON has faster-whisper already; else an environment of the cache's."""
    if peer.startswith("openai-whisper"):
        if os.path.isdir("/usr/lib/python3/dist-packages/torch"):
            return cache.venv("openai-whisper", *BESIDE_TORCH, system=True)
        return cache.venv("openai-whisper", *PACKAGES[peer])
    return os.environ.get("NIGHTSHIFT_REAL_PYTHON") or cache.venv("faster-whisper", *PACKAGES["faster-whisper"])


def sum_of(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:16]


def file_of(peer, name, model, folder):
    folder = folder or os.environ.get("NIGHTSHIFT_REAL_PEERS") or os.path.join(cache.root(), "peers")
    os.makedirs(folder, exist_ok=True)
    return os.path.join(folder, f"{name}-{peer}-{model}.json")


def read(path):
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def key_of(r):
    return f"{r.name} {sum_of(r.path)}"


def known(peer, name, recordings, model="base", folder=None):
    """Was it asked all of them before?"""
    there = read(file_of(peer, name, model, folder))
    return all(key_of(r) in there for r in recordings)


def heard(peer, name, recordings, model="base", folder=None):
    """{recording's name: [(begin, end, language, text)]}; `name` of the set. Of "PEER+words" each segment has a list of
    (begin, end, word) behind these."""
    path = file_of(peer, name, model, folder)
    there = read(path)
    missing = [r for r in recordings if key_of(r) not in there]
    for r, segments in ask(peer, missing, model) if missing else ():
        there[key_of(r)] = segments
        new = f"{path}.{os.getpid()}"
        with open(new, "w", encoding="utf-8") as file:
            json.dump(there, file, ensure_ascii=False, indent=0)
        os.rename(new, path)
    return {r.name: [tuple(s) for s in there[key_of(r)]] for r in recordings}


def ask(peer, recordings, model):
    """Yields (recording, its segments), one after the other."""
    weights = cache.model(model) if peer.startswith("openai-whisper") else cache.ct2(model)
    print(f"# {peer}: {len(recordings)} recordings", file=sys.stderr, flush=True)
    left = list(recordings)
    with subprocess.Popen([python_of(peer), RUNNER, peer, weights, *(r.path for r in recordings)],
                          env={**os.environ, "KMP_BLOCKTIME": "0", "OMP_WAIT_POLICY": "PASSIVE"},
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        for line in process.stdout:
            yield left.pop(0), json.loads(line)
    if process.returncode or left:
        raise cache.Missing(f"it did not answer: status {process.returncode}")
