"""Makes the recordings and archives that no honest archive should hold."""
import os
import struct
import subprocess
import tarfile
import wave


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


def bomb(path, member, head, gib):
    """A tar with one member: `head`, then `gib` GiB of zeros, in 32 KiB per GiB. The compression is
    an honest Zstandard frame, of blocks that say "128 KiB of this byte": it is unpacked as fast as
    memory is filled, where deflate would take half a minute."""
    block = 128 << 10
    repeats = gib * (1 << 30) // block
    info = tarfile.TarInfo(member)
    info.size = len(head) + repeats * block
    first = info.tobuf(tarfile.GNU_FORMAT) + head
    raw, again = 0, 1

    def block_head(kind, size, last=0):
        return struct.pack("<I", size << 3 | kind << 1 | last)[:3]

    with open(path, "wb") as out:
        out.write(struct.pack("<IBB", 0xFD2FB528, 0, 7 << 3))  # a window of 128 KiB
        out.write(block_head(raw, len(first)) + first)
        out.write((block_head(again, block) + b"\0") * repeats)
        out.write(block_head(again, -info.size % 512 + 1024, last=1) + b"\0")


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
