"""Image files of every kind, made byte by byte: TensorFlow's encoders make few."""
import struct
import zlib

import numpy as np
import tensorflow as tf


def pixels(draw, channels, dtype=np.uint8, max_side=20):
    shape = (draw.integer(1, max_side), draw.integer(1, max_side), channels)
    if draw.chance(0.5):  # smooth, as photographs are
        y, x, c = np.meshgrid(*(np.arange(n) for n in shape), indexing="ij")
        values = (y * draw.integer(1, 9) + x * draw.integer(1, 9) + c * 60) % 256
    else:
        values = draw.rng.integers(0, 256, shape)
    values = values.astype(dtype)
    return values * 257 if dtype == np.uint16 else values


def jpeg(draw):
    options = {"quality": draw.choice([10, 75, 95, 100]), "progressive": draw.chance(0.3),
               "chroma_downsampling": draw.chance(0.6), "optimize_size": draw.chance(0.3)}
    image = pixels(draw, draw.choice([1, 3, 3]), max_side=40)
    with tf.compat.v1.Session(graph=tf.Graph()) as session, session.graph.as_default():
        return session.run(tf.raw_ops.EncodeJpeg(image=tf.constant(image), **options))


def _chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


# What samples a pixel has, by PNG's colour type.
SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}


def _interlaced_sizes(width, height):
    passes = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
    for x0, y0, dx, dy in passes:
        yield max(0, (width - x0 + dx - 1) // dx), max(0, (height - y0 + dy - 1) // dy)


def png(draw):
    kind, depth = draw.choice([(0, 1), (0, 2), (0, 4), (0, 8), (0, 16), (2, 8), (2, 16), (3, 1), (3, 4), (3, 8), (4, 8),
                               (4, 16), (6, 8), (6, 16)])
    width, height = draw.integer(1, 19), draw.integer(1, 19)
    interlaced = draw.chance(0.3)
    rows = b""
    for w, h in _interlaced_sizes(width, height) if interlaced else [(width, height)]:
        length = (w * SAMPLES[kind] * depth + 7) // 8
        if w and h:
            rows += b"".join(bytes([draw.integer(0, 4)]) + draw.rng.bytes(length) for _ in range(h))
    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, int(interlaced))
    out = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header)
    if kind == 3:
        out += _chunk(b"PLTE", draw.rng.bytes(3 * 2 ** depth))
    if kind in (0, 2, 3) and draw.chance(0.4):
        out += _chunk(b"tRNS", draw.rng.bytes(2 ** depth) if kind == 3 else b"\x00\x01" * SAMPLES[kind])
    return out + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")


def bmp(draw):
    width, height, channels = draw.integer(1, 9), draw.integer(1, 9), draw.choice([1, 3, 4])
    data = draw.rng.bytes((width * channels + 3) // 4 * 4 * height)
    signed = -height if draw.chance(0.3) else height
    return (b"BM" + struct.pack("<IHHI", 54 + len(data), 0, 0, 54) +
            struct.pack("<IiiHHIIiiII", 40, width, signed, 1, 8 * channels, 0, len(data), 0, 0, 0, 0) + data)


def _lzw(values, bits):
    """Packs as encoders do: codes grow, and are forgotten at 4096 of them."""
    clear, out, held, have = 1 << bits, bytearray(), 0, 0
    codes, width, run = {}, bits + 1, ()

    def put(code):
        nonlocal held, have
        held |= code << have
        have += width
        while have >= 8:
            out.append(held & 255)
            held >>= 8
            have -= 8

    put(clear)
    for value in values:
        longer = run + (value,)
        if len(longer) == 1 or longer in codes:
            run = longer
            continue
        put(codes[run] if len(run) > 1 else run[0])
        codes[longer] = clear + 2 + len(codes)
        if codes[longer] == (1 << width) and width < 12:
            width += 1
        if len(codes) + clear + 2 >= 4096:
            put(clear)
            codes, width = {}, bits + 1
        run = (value,)
    put(codes[run] if len(run) > 1 else run[0])
    put(clear + 1)
    if have:
        out.append(held & 255)
    return bytes(out)


def gif(draw, frames=None):
    bits = draw.choice([2, 4, 8])
    width, height = draw.integer(3, 30), draw.integer(3, 30)
    out = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80 | (bits - 1), 0, 0) + draw.rng.bytes(3 * 2 ** bits)
    for i in range(frames or draw.integer(1, 3)):
        if draw.chance(0.4):
            out += b"\x21\xf9\x04" + bytes([1, 0, 0, draw.integer(0, 2 ** bits - 1)]) + b"\0"
        w, h = draw.integer(1, width), draw.integer(1, height)
        left, top = draw.integer(0, width - w), draw.integer(0, height - h)
        if i == 0 and draw.chance(0.6):
            w, h, left, top = width, height, 0, 0
        values = draw.rng.integers(0, 2 ** bits, w * h)
        if draw.chance(0.5):
            values = np.repeat(values, 5)[:w * h]
        packed = _lzw([int(v) for v in values], bits)
        out += b"\x2c" + struct.pack("<HHHHB", left, top, w, h, 0x40 if draw.chance(0.3) else 0) + bytes([bits])
        for at in range(0, len(packed), 255):
            out += bytes([len(packed[at:at + 255])]) + packed[at:at + 255]
        out += b"\0"
    return out + (b"\x3b" if draw.chance(0.9) else b"")


def damaged(draw, data):
    """A file that breaks off, or that is none."""
    return draw.choice([data[:draw.integer(0, len(data) - 1)], b"", b"neither this nor that", data[:12], data[5:]])
