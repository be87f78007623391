#!/usr/bin/env python3
"""Media and archives as other programs leave them: whole in a way that is easily taken for damage,
or beyond reading for a reason that can be told.

    media_corpus.py FOLDER    makes them all there

Needs ffmpeg, tar, zip and 7z; what none of these makes is written byte by byte.
"""
import bz2
import gzip
import lzma
import os
import struct
import subprocess
import sys
import warnings
import zipfile
import zlib

import media_kit

SAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                      "../samples/01_en_short.wav")


class Corpus:
    """Every recording in it is another one, so that each is read by itself."""

    def __init__(self, folder):
        self.folder = folder
        self.frames = media_kit.wav_frames(SAMPLE)
        self.made = 0

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def talk(self, name):
        """The sample, a little shorter each time."""
        self.made += 1
        media_kit.wav(self.path(name), self.frames[:len(self.frames) - 64 * self.made])
        return self.path(name)

    def tool(self, *command):
        subprocess.run(command, check=True, cwd=self.folder, stdout=subprocess.DEVNULL,
                       timeout=240)

    def remove(self, *names):
        for name in names:
            os.remove(self.path(name))

    # -- archives

    def sparse(self):
        """A recorder crashed and left the room that it had reserved."""
        for name, options in (("sparse-gnu.tar", ["--format=gnu"]),
                              ("sparse-pax.tar", ["--format=pax"])):
            os.truncate(self.talk("crashed.wav"), 1 << 20)
            self.tool("tar", *options, "-Scf", name, "crashed.wav")
        self.remove("crashed.wav")

    def of_one_name(self):
        self.talk("twice.wav")
        self.tool("tar", "-cf", "twice.tar", "twice.wav")
        with warnings.catch_warnings(), zipfile.ZipFile(self.path("twice.zip"), "w") as archive:
            warnings.simplefilter("ignore")
            archive.write(self.path("twice.wav"), "twice.wav")
            archive.write(self.talk("twice.wav"), "twice.wav")
        self.tool("tar", "-rf", "twice.tar", "twice.wav")
        self.remove("twice.wav")

    def lzip(self):
        for name in ("roll.tar.lz", "roll.tlz"):
            self.talk("roll.wav")
            self.tool("tar", "-cf", "roll.tar", "roll.wav")
            plain = self.read("roll.tar")
            packed = b"LZIP\1\x17" + lzma.compress(plain, lzma.FORMAT_RAW, filters=[
                {"id": lzma.FILTER_LZMA1, "dict_size": 1 << 23}])
            self.write(name, packed + struct.pack("<IQQ", zlib.crc32(plain), len(plain),
                                                  len(packed) + 20))
        self.remove("roll.wav", "roll.tar")

    def compressed(self):
        for end, pack in (("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)):
            self.talk("single.wav")
            self.write("single.wav." + end, pack(self.read("single.wav")))
        self.remove("single.wav")
        self.write("notes.txt.gz", gzip.compress(b"Nothing was recorded today.\n"))

    def deflate64(self):
        self.talk("explorer.wav")
        self.tool("7z", "a", "-bso0", "-bsp0", "-tzip", "-mm=Deflate64", "explorer.zip",
                  "explorer.wav")
        self.remove("explorer.wav")

    def parts(self):
        self.talk("long.wav")
        self.tool("zip", "-q", "-0", "-s", "64k", "disks.zip", "long.wav")
        for name in ("volumes.7z", "volumes.zip"):
            self.tool("7z", "a", "-bso0", "-bsp0", "-mx0", "-v100k", name, "long.wav")
        self.remove("long.wav")

        def block(kind, flags, rest, data=b""):
            head = struct.pack("<BHH", kind, flags, 7 + len(rest)) + rest
            return struct.pack("<H", zlib.crc32(head) & 0xffff) + head + data

        # Stored; 'this file goes on in the next volume'.
        name, data = b"tape.wav", bytes(1000)
        volume = (b"Rar!\x1a\7\0" + block(0x73, 0x11, bytes(6)) + block(
            0x74, 0x8002, struct.pack("<IIBIIBBHI", len(data), 3 * len(data), 3,
                                      zlib.crc32(data), 0x5c210000, 20, 0x30, len(name),
                                      0x81a4) + name, data) + block(0x7b, 1, b""))
        self.write("set.part1.rar", volume)
        self.write("old.rar", volume)

    # -- names

    def by_bytes(self):
        self.talk("without-a-name.wav")
        os.rename(self.path("without-a-name.wav"), self.path("without-a-name"))
        media_kit.ffmpeg("-i", self.talk("source.wav"), "-c:a", "mp2", "-f", "vob",
                         self.path("film.ps"))
        media_kit.ffmpeg("-i", self.talk("source.wav"), "-c:a", "mp2", "-ar", "22050", "-b:a",
                         "160k", "-f", "mp2", self.path("frames"))
        self.remove("source.wav")
        self.write("letter.ps", b"%!PS-Adobe-3.0\n/Times-Roman findfont\n")
        self.write("essay", b"The free world, and other essays.\n" * 20)

    # -- recordings

    def protected(self):
        source = self.talk("source.wav")
        media_kit.ffmpeg("-i", source, "-c:a", "aac", "-encryption_scheme", "cenc-aes-ctr",
                         "-encryption_key", "0123456789abcdef" * 2, "-encryption_kid",
                         "fedcba9876543210" * 2, "-f", "mp4", self.path("cenc.m4a"))
        media_kit.ffmpeg("-i", source, "-c:a", "aac", self.path("shop.m4a"))
        self.write("shop.m4p", with_sample_entry(self.read("shop.m4a"), b"mp4a", b"drms"))
        media_kit.ffmpeg("-i", source, "-c:a", "wmav2", self.path("plain.wma"))
        self.write("licensed.wma", with_content_encryption(self.read("plain.wma")))
        self.remove("source.wav", "shop.m4a", "plain.wma")

    def unknown_codecs(self):
        source = self.talk("source.wav")
        media_kit.ffmpeg("-i", source, "-c:a", "pcm_s16le", self.path("plain.mov"))
        media_kit.ffmpeg("-i", source, "-c:a", "pcm_s16le", self.path("plain.mka"))
        self.write("codec.mov", with_sample_entry(self.read("plain.mov"), b"sowt", b"Qzzx"))
        self.write("codec.mka", self.read("plain.mka").replace(b"A_PCM/INT/LIT", b"A_QZZ/INT/LIT"))
        self.write("codec.wav", wav(b"\1\2" * 16000, tag=0x1234))
        self.remove("source.wav", "plain.mov", "plain.mka")

    def external(self):
        """QuickTime may leave the sound where it was, and keep its path alone."""
        source = self.talk("source.wav")
        media_kit.ffmpeg("-i", source, "-c:a", "pcm_s16le", self.path("plain.mov"))
        plain = self.read("plain.mov")
        url = b"file:///tapes/interview.wav\0"
        self.write("by-url.mov", with_data_reference(plain, b"url ", url))
        path = b"tapes/interview.wav"
        alias = (struct.pack(">4xHHH", 0, 2, 0) + b"\5" + b"Tapes".ljust(27, b"\0") + bytes(4)
                 + b"H+" + bytes(6) + b"\x0d" + b"interview.wav".ljust(63, b"\0") + bytes(16)
                 + struct.pack(">hh16x", 1, 2) + struct.pack(">HH", 2, len(path)) + path + b"\0"
                 + struct.pack(">HH", 0xffff, 0))
        self.write("by-alias.mov", with_data_reference(plain, b"alis", alias))
        self.remove("source.wav", "plain.mov")

    def wide(self):
        """64 channels, of which all say the same."""
        self.talk("source.wav")
        frames = media_kit.wav_frames(self.path("source.wav"))
        self.write("wide.wav", wav(b"".join(frames[i:i + 2] * 64
                                            for i in range(0, len(frames), 2)), channels=64))
        self.remove("source.wav")

    def flac_of_32_bits(self):
        self.write("studio.flac", flac32([((k * 997) % 65536 - 32768) << 12
                                          for k in range(4096)]))


def wav(data, tag=1, channels=1, rate=16000):
    return (b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt "
            + struct.pack("<IHHIIHH", 16, tag, channels, rate, rate * channels * 2, channels * 2,
                          16) + b"data" + struct.pack("<I", len(data)) + data)


def with_sample_entry(movie, was, kind):
    """Its only track is of another kind."""
    at = movie.index(was, movie.index(b"stsd"))
    return movie[:at] + kind + movie[at + 4:]


def with_data_reference(movie, kind, data):
    """The samples of its only track lie elsewhere. Its index must stand at the end."""
    movie = bytearray(movie)
    dref = movie.index(b"dref") - 4
    old = struct.unpack(">I", movie[dref:dref + 4])[0]
    entry = struct.pack(">I4sI", 12 + len(data), kind, 0) + data
    box = struct.pack(">I4sII", 16 + len(entry), b"dref", 0, 1) + entry
    at = 0
    for name in (b"moov", b"trak", b"mdia", b"minf", b"dinf"):
        while movie[at + 4:at + 8] != name:
            at += struct.unpack(">I", movie[at:at + 4])[0]
        size = struct.unpack(">I", movie[at:at + 4])[0]
        movie[at:at + 4] = struct.pack(">I", size + len(box) - old)
        at += 8
    return bytes(movie[:dref] + box + movie[dref + old:])


def with_content_encryption(asf):
    """ASF's content encryption object, as Windows Media's DRM puts it into the header."""
    body = b"".join(struct.pack("<I", len(text)) + text
                    for text in (b"secret", b"DRM\0", b"a key\0", b"http://licence.invalid\0"))
    guid = bytes.fromhex("fbb3112223bdd211b4b700a0c955fc6e")
    part = guid + struct.pack("<Q", 24 + len(body)) + body
    size, parts = struct.unpack("<QI", asf[16:28])
    return (asf[:16] + struct.pack("<QI", size + len(part), parts + 1) + asf[28:30] + part
            + asf[30:])


def crc(data, polynomial, bits):
    value = 0
    for byte in data:
        value ^= byte << (bits - 8)
        for _ in range(8):
            value = (value << 1) ^ (polynomial if value >> (bits - 1) & 1 else 0)
            value &= (1 << bits) - 1
    return value


def flac32(samples, rate=16000):
    """One frame of 4096 samples at 16 kHz, verbatim."""
    count = len(samples)
    info = (struct.pack(">HH", count, count) + bytes(6)
            + ((rate << 44) | (31 << 36) | count).to_bytes(8, "big") + bytes(16))
    head = bytes([0xff, 0xf8, 0xc5, 0x0e, 0])
    head += bytes([crc(head, 7, 8)])
    frame = head + b"\2" + struct.pack(f">{count}i", *samples)
    return (b"fLaC" + bytes([0x80, 0, 0, 34]) + info + frame
            + struct.pack(">H", crc(frame, 0x8005, 16)))


def make(folder):
    corpus = Corpus(folder)
    for kind in (corpus.sparse, corpus.of_one_name, corpus.lzip, corpus.compressed,
                 corpus.deflate64, corpus.parts, corpus.by_bytes, corpus.protected,
                 corpus.unknown_codecs, corpus.external, corpus.wide, corpus.flac_of_32_bits):
        kind()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    make(sys.argv[1])
