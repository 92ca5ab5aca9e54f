"""Recipes of image files and other encodings."""
import struct

import numpy as np
import tensorflow as tf

import image_files
from drawing import NUMPY, tf_type
from recipes import arguments, scripts
from script import Arguments, raw


def _scalar(data):
    return np.array(data, object)


JPEG_OPS = ("DecodeJpeg", "DecodeAndCropJpeg")


@scripts("DecodeJpeg", "DecodePng", "DecodeBmp", "DecodeGif", "DecodeImage", "DecodeAndCropJpeg", "ExtractJpegShape")
def decode(script, op, types):
    draw = script.draw
    makers = {"DecodePng": image_files.png, "DecodeBmp": image_files.bmp, "DecodeGif": image_files.gif}
    maker = makers.get(op, image_files.jpeg)
    if op == "DecodeImage" or (draw.chance(0.1) and op != "ExtractJpegShape"):
        maker = draw.choice([image_files.jpeg, image_files.png, image_files.bmp, image_files.gif])
    data = maker(draw)
    if script.spoiled:
        data = image_files.damaged(draw, data)
    attrs = {}
    if op == "ExtractJpegShape":
        attrs["output_type"] = tf_type(types["output_type"])
    elif op != "DecodeGif":
        attrs["channels"] = draw.choice([0, 0, 1, 3, 4, 2] if script.spoiled else [0, 0, 3])
        if op == "DecodePng":
            attrs["channels"] = draw.choice([0, 0, 1, 3, 4])
    if op in ("DecodePng", "DecodeImage"):
        attrs["dtype"] = tf_type(types["dtype"])
    if op == "DecodeImage":
        attrs["expand_animations"] = draw.chance(0.7)
    inputs = {"contents": script.feed(_scalar(data))}
    if op in JPEG_OPS:
        attrs.update(ratio=draw.choice([1, 1, 2, 4, 8]), fancy_upscaling=draw.chance(0.7),
                     dct_method=draw.choice(["", "INTEGER_FAST", "INTEGER_ACCURATE"]), channels=draw.choice([0, 1, 3]))
    if op == "DecodeAndCropJpeg":
        attrs["ratio"] = 1
        inputs["crop_window"] = script.feed(np.array([draw.integer(0, 4), draw.integer(0, 12), draw.integer(1, 9),
                                                      draw.integer(1, 20)], np.int32), fixed=True)
    script.step(fetch=[raw(op, name="op", **inputs, **attrs)])


@scripts("EncodePng", "EncodeJpeg", "EncodeJpegVariableQuality")
def encode(script, op, types):
    """The pixels that come back are compared, not the bytes: those hang on the version of the compressor."""
    draw = script.draw
    if op == "EncodePng":
        image = image_files.pixels(draw, draw.choice([1, 2, 3, 4]), NUMPY[types["T"]])
        image = image[np.newaxis] if script.spoiled else image
        bytes_ = raw(op, name="op", image=script.feed(image), compression=draw.choice([-1, 0, 9]))
        if script.spoiled:
            return script.step(fetch=[tf.shape(bytes_)])
        return script.step(fetch=[raw("DecodePng", contents=bytes_, dtype=tf_type(types["T"]))])
    image = image_files.pixels(draw, 2 if script.spoiled else draw.choice([1, 3]))
    if op == "EncodeJpeg":
        bytes_ = raw(op, name="op", image=script.feed(image), quality=draw.choice([5, 50, 95, 100]),
                     progressive=draw.chance(0.4), optimize_size=draw.chance(0.4),
                     chroma_downsampling=draw.chance(0.5), density_unit=draw.choice(["in", "cm"]),
                     xmp_metadata=draw.choice(["", "<x/>"]))
    else:
        bytes_ = raw(op, name="op", images=script.feed(image),
                     quality=script.feed(np.array(draw.choice([5, 50, 100, 101]), np.int32)))
    return script.step(fetch=[raw("DecodeJpeg", contents=bytes_), tf.strings.length(bytes_)])


@arguments("DecodePaddedRaw")
def decode_padded_raw(draw, op, types):
    width = np.dtype(NUMPY[types["out_type"]]).itemsize
    shape = draw.shape(max_rank=2)
    content = np.array([bytes(range(draw.integer(0, 20))) for _ in range(int(np.prod(shape)))], object).reshape(shape)
    return Arguments({"out_type": tf_type(types["out_type"]), "little_endian": draw.chance(0.5)}, input_bytes=content,
                     fixed_length=np.array(draw.choice([0, width, 2 * width, 3 * width + 1]), np.int32))


@scripts("DecodeWav", "EncodeWav")
def sound(script, op, types):
    draw = script.draw
    frames, channels = draw.integer(1, 9), draw.integer(1, 3)
    if op == "EncodeWav":
        audio = draw.values("float", (frames, channels), -1.25, 1.25)
        return script.step(fetch=[raw(op, name="op", audio=script.feed(audio[0] if script.spoiled else audio),
                                      sample_rate=script.feed(np.array(8000, np.int32)))])
    samples = draw.rng.bytes(2 * frames * channels)
    chunk = b"LIST" + struct.pack("<I", 4) + b"more" if draw.chance(0.3) else b""
    wide = draw.chance(0.3)
    data = (b"RIFF" + struct.pack("<I", 36 + len(samples)) + b"WAVEfmt " +
            struct.pack("<IHHIIHH", 18 if wide else 16, 1, channels, 8000, 16000 * channels, 2 * channels, 16) +
            (b"\0\0" if wide else b"") + chunk + b"data" + struct.pack("<I", len(samples)) + samples)
    if script.spoiled:
        data = draw.choice([data[:draw.integer(0, len(data) - 1)], data.replace(b"fmt", b"xxx"), b""])
    outputs = raw(op, name="op", contents=script.feed(_scalar(data)), desired_channels=draw.choice([-1, 1, 3]),
                  desired_samples=draw.choice([-1, 4, 12]))
    return script.step(fetch=list(outputs))
