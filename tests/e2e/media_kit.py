"""Makes the recordings and archives that no honest archive should hold."""
import os
import struct
import subprocess
import wave
import zlib


def ffmpeg(*args):
    subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-y", *args], check=True, timeout=240)


def wav(path, frames=b"", rate=16000, channels=1):
    with wave.open(path, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(frames)


def wav_frames(path):
    with wave.open(path, "rb") as file:
        return file.readframes(file.getnframes())


def truncated(source, path, keep):
    """The first part of a file: as the copy that ran out of disk left it."""
    with open(source, "rb") as file, open(path, "wb") as out:
        out.write(file.read(keep))


def sparse(path, size):
    with open(path, "wb") as file:
        file.truncate(size)


def zip_bomb(path, member, head, gib):
    """A zip with one member: `head`, then `gib` GiB of zeros, in about a MiB per GiB. The stream is
    honest deflate: one chunk of 16 MiB, flushed so that it may be repeated."""
    chunk_size = 16 << 20
    # With a full flush a chunk ends on a byte and refers to nothing before it.
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = squeeze.compress(head) + squeeze.flush(zlib.Z_FULL_FLUSH)
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    chunk = squeeze.compress(bytes(chunk_size)) + squeeze.flush(zlib.Z_FULL_FLUSH)
    last = zlib.compressobj(9, zlib.DEFLATED, -15).flush(zlib.Z_FINISH)
    repeats = gib * (1 << 30) // chunk_size
    packed = len(first) + repeats * len(chunk) + len(last)
    size = len(head) + repeats * chunk_size
    name = member.encode()
    extra = struct.pack("<HHQQ", 1, 16, size, packed)
    local = struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 45, 0, 8, 0, 0x5c21, 0, 0xffffffff, 0xffffffff,
                        len(name), len(extra)) + name + extra
    central = struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\1\2", 45, 45, 0, 8, 0, 0x5c21, 0, 0xffffffff,
                          0xffffffff, len(name), len(extra), 0, 0, 0, 0x81a40000, 0) + name + extra
    with open(path, "wb") as out:
        out.write(local)
        out.write(first)
        for _ in range(repeats):
            out.write(chunk)
        out.write(last)
        at = out.tell()
        out.write(central)
        out.write(struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 1, 1, len(central), at, 0))
    return size


def riff_head(data_bytes, rate=16000):
    """A wav header that promises so much sound."""
    size = min(data_bytes, 0xfffffff0)
    return (b"RIFF" + struct.pack("<I", min(size + 36, 0xffffffff)) + b"WAVEfmt "
            + struct.pack("<IHHIIHH", 16, 1, 1, rate, rate * 2, 2, 16) + b"data"
            + struct.pack("<I", size))


def tensors(path):
    """Header (dict as JSON text) and data of a safetensors file."""
    with open(path, "rb") as file:
        raw = file.read()
    length = struct.unpack("<Q", raw[:8])[0]
    return raw[8:8 + length].decode(), raw[8 + length:]


def write_tensors(path, header, data):
    head = header.encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head + data)


def size_of(path):
    return os.stat(path).st_size
