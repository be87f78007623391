"""Writes rar archives of version 5, which no free program does: members are packed as literals of
one Huffman code of 8 bits, without matches, so that a decoder has to unpack them, and not copy."""
import struct
import zlib

FILE, END, MAIN = 2, 5, 1
NORMAL = 3 << 7  # the method, among the bits of "compression information"
MIB_4 = 5 << 10  # the dictionary
BLOCK = 30000


def number(n):
    out = bytearray()
    while True:
        out.append(n & 0x7F | (0x80 if n > 0x7F else 0))
        n >>= 7
        if not n:
            return bytes(out)


def header(*fields):
    body = b"".join(field if isinstance(field, bytes) else number(field) for field in fields)
    body = number(len(body)) + body
    return struct.pack("<I", zlib.crc32(body)) + body


def block(data, last):
    """Lengths of code words first: 256 of 8 bits, and 174 that are not used. Among the lengths 8, 17 (as
    before, 11 to 138 times), 18 and 19 (not used, 11 to 138 times) have code words of two bits."""
    bits = "".join("0010" if k in (8, 17, 18, 19) else "0000" for k in range(20))
    bits += "00" + f"01{127:07b}" + f"01{106:07b}" + f"11{127:07b}" + f"11{25:07b}"
    bits += "".join(f"{byte:08b}" for byte in data)
    in_last = len(bits) % 8 or 8
    bits += "0" * (8 - in_last)
    packed = int(bits, 2).to_bytes(len(bits) // 8, "big")
    flags = in_last - 1 | 1 << 3 | (0x40 if last else 0) | 0x80
    size = struct.pack("<H", len(packed))
    return bytes([flags, 0x5A ^ flags ^ size[0] ^ size[1]]) + size + packed


def member(name, data, solid):
    packed = b"".join(block(data[i:i + BLOCK], i + BLOCK >= len(data)) for i in range(0, len(data), BLOCK))
    how = NORMAL | MIB_4 | (0x40 if solid else 0)
    return header(FILE, 2, len(packed), 4, len(data), 0o100644, struct.pack("<I", zlib.crc32(data)), how, 1,
                  len(name), name) + packed


def write(path, paths, solid=False):
    with open(path, "wb") as out:
        out.write(b"Rar!\x1a\x07\x01\x00" + header(MAIN, 0, 4 if solid else 0))
        for i, source in enumerate(paths):
            with open(source, "rb") as file:
                out.write(member(source.rsplit("/", 1)[-1].encode(), file.read(), solid and i > 0))
        out.write(header(END, 0, 0))
