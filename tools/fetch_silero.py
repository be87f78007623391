#!/usr/bin/env python3
"""tools/fetch_silero.py - Silero's model of voice activity (MIT) and its licence, once, for a folder of models.

    tools/fetch_silero.py MODELS      MODELS/silero-vad/silero_vad_16k.safetensors and LICENSE

Both come from the project's package in the Python package index, by its hash, and are checked by their own. What is there
and whole is left alone, and no network is needed for it. Leaves with 69 and one line when they cannot be had.
$NIGHTSHIFT_SILERO_PACKAGE is another place of the package: a mirror's address, or file:///a/path of one that is here.
"""
import hashlib
import http.client
import io
import os
import sys
import urllib.request
import zipfile
from pathlib import Path

VERSION = "6.2.3"
PACKAGE = ("https://files.pythonhosted.org/packages/84/ef/9099037ed6f180ea33220178df4107112c0ce2bf5fb4d6f6ab19db2844ed/"
           f"silero_vad-{VERSION}-py3-none-any.whl")
BYTES, SHA256 = 11317527, "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8"
# The licence first: the weights are never there without it.
MEMBERS = (("LICENSE", f"silero_vad-{VERSION}.dist-info/licenses/LICENSE",
            "2e63e9a38b6e8fc0c7bc37ce174caca1862870856c6daf5697cfb785e925520b"),
           ("silero_vad_16k.safetensors", "silero_vad/data/silero_vad_16k.safetensors",
            "c59271c284ae9c8335d795d60e0bfdb71aaaceec578d9bd9ffc1b8153c319ea1"))


def fail(text):
    print(f"tools/fetch_silero.py: {text}", file=sys.stderr)
    sys.exit(69)


def same(data, sha256):
    return hashlib.sha256(data).hexdigest() == sha256


def is_whole(folder):
    return all((folder / name).is_file() and same((folder / name).read_bytes(), sha256) for name, _, sha256 in MEMBERS)


def fetch():
    url = os.environ.get("NIGHTSHIFT_SILERO_PACKAGE") or PACKAGE
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            data = answer.read(BYTES + 1)
    except (OSError, ValueError, http.client.HTTPException) as e:
        fail(f"cannot fetch {url} ({getattr(e, 'reason', e)})")
    if not same(data, SHA256):
        fail(f"{url} is not the package that was meant: it has another hash")
    return data


def put(file, data):
    part = file.with_name(file.name + ".incomplete")
    part.write_bytes(data)
    part.chmod(0o644)
    part.replace(file)


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__.strip())
        sys.exit(0 if sys.argv[1:] in (["-h"], ["--help"]) else 64)
    folder = Path(sys.argv[1], "silero-vad")
    if is_whole(folder):
        return
    with zipfile.ZipFile(io.BytesIO(fetch())) as package:
        found = [(name, package.read(member), sha256) for name, member, sha256 in MEMBERS]
    for name, data, sha256 in found:
        if not same(data, sha256):
            fail(f"{name} in the package has another hash")
    folder.mkdir(parents=True, exist_ok=True)
    for name, data, _ in found:
        put(folder / name, data)


if __name__ == "__main__":
    main()
