"""Recipes of images: resizing, cropping, colours and boxes."""
import numpy as np

from drawing import FLOATS, NUMPY
from recipes import arguments
from script import Arguments


def _images(draw, dtype, max_side=6, channels=None, empty=False):
    batch = draw.integer(0 if empty and draw.chance(0.1) else 1, 3)
    shape = (batch, draw.integer(1, max_side), draw.integer(1, max_side), channels or draw.choice([1, 3, 2, 9]))
    return draw.values(dtype, shape, 0 if dtype.startswith("u") else -4, 8)


def _modes(draw):
    return draw.choice([{}, {"align_corners": True}, {"half_pixel_centers": True}])


def _size(draw):
    return np.array([draw.integer(1, 9), draw.integer(1, 9)], np.int32)


@arguments("ResizeBilinear", "ResizeBicubic", "ResizeNearestNeighbor", "ResizeArea")
def resize(draw, op, types):
    attrs = {"align_corners": draw.chance(0.5)} if op == "ResizeArea" else _modes(draw)
    return Arguments(attrs, images=_images(draw, types["T"], empty=True), size=_size(draw), fixed=["size"],
                     differentiable=types["T"] in FLOATS)


@arguments("ResizeBilinearGrad", "ResizeBicubicGrad")
def resize_grad(draw, op, types):
    image = _images(draw, types["T"])
    grads = draw.values("float", (image.shape[0], draw.integer(1, 8), draw.integer(1, 8), image.shape[3]), -2, 2)
    # Batches and channels that differ are not looked at, and read beyond what is there.
    return Arguments(_modes(draw), grads=grads, original_image=image, differentiable=False, spoilable=False)


@arguments("ResizeNearestNeighborGrad")
def resize_nearest_grad(draw, op, types):
    return Arguments(_modes(draw), grads=_images(draw, types["T"]), size=_size(draw), fixed=["size"],
                     differentiable=False)


FILTERS = ["lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic"]


@arguments("ScaleAndTranslate", "ScaleAndTranslateGrad")
def scale_and_translate(draw, op, types):
    attrs = {"kernel_type": draw.choice(FILTERS), "antialias": draw.chance(0.7)}
    image = _images(draw, types["T"])
    size = _size(draw)
    scale = np.array([draw.choice([0.5, 0.8, 1.0, 1.7]) for _ in range(2)], np.float32)
    shift = np.array([draw.choice([-1.0, 0.0, 0.25, 2.0]) for _ in range(2)], np.float32)
    if op == "ScaleAndTranslate":
        return Arguments(attrs, images=image, size=size, scale=scale, translation=shift,
                         fixed=["size", "scale", "translation"], differentiable=types["T"] == "float")
    grads = draw.values("float", (image.shape[0], int(size[0]), int(size[1]), image.shape[3]), -2, 2)
    return Arguments(attrs, grads=grads, original_image=image, scale=scale, translation=shift,
                     fixed=["scale", "translation"], differentiable=False, spoilable=False)


def _boxes(draw, count):
    """Corners on no pixel's centre, some of them outside of the image."""
    return draw.values("float", (count, 4), 0, 1) * np.float32(0.9) + np.float32(0.037)


@arguments("CropAndResize")
def crop_and_resize(draw, op, types):
    image = _images(draw, types["T"])
    count = draw.integer(0, 3)
    boxes = _boxes(draw, count) + draw.values("float", (count, 4), -0.25, 0.25)
    return Arguments({"method": draw.choice(["bilinear", "nearest"]), "extrapolation_value": draw.choice([0.0, -1.5])},
                     image=image, boxes=boxes, box_ind=draw.integers(0, image.shape[0] - 1, (count,)),
                     crop_size=_size(draw), fixed=["box_ind", "crop_size"], differentiable=types["T"] in FLOATS)


@arguments("CropAndResizeGradImage")
def crop_grad_image(draw, op, types):
    from drawing import tf_type
    size = [draw.integer(1, 3), draw.integer(1, 6), draw.integer(1, 6), draw.choice([1, 3])]
    count = draw.integer(1, 3)
    grads = draw.values("float", (count, draw.integer(1, 5), draw.integer(1, 5), size[3]), -2, 2)
    return Arguments({"T": tf_type(types["T"]), "method": draw.choice(["bilinear", "nearest"])}, grads=grads,
                     boxes=_boxes(draw, count), box_ind=draw.integers(0, size[0] - 1, (count,)),
                     image_size=np.array(size, np.int32), fixed=["box_ind", "image_size"], differentiable=False)


@arguments("CropAndResizeGradBoxes")
def crop_grad_boxes(draw, op, types):
    image = _images(draw, types["T"])
    count = draw.integer(1, 3)
    grads = draw.values("float", (count, draw.integer(1, 5), draw.integer(1, 5), image.shape[3]), -2, 2)
    return Arguments(grads=grads, image=image, boxes=_boxes(draw, count),
                     box_ind=draw.integers(0, image.shape[0] - 1, (count,)), fixed=["box_ind"], differentiable=False)


@arguments("RGBToHSV", "HSVToRGB")
def colors(draw, op, types):
    # Not on the coarse grid: where two colours are the same the hue has a kink, and hues of 0 and 1 are one.
    shape = draw.shape(max_rank=3) + (3,)
    images = (np.asarray(draw.rng.random(shape)) * 0.9 + 0.05).astype(NUMPY[types["T"]])
    # In half, colours may lie so near each other that nothing is left of their difference.
    return Arguments(images=images, differentiable=types["T"] != "half")


@arguments("AdjustContrastv2", "AdjustHue", "AdjustSaturation")
def adjust(draw, op, types):
    shape = draw.shape(2, 4, max_dim=4, empty=False) + (3,)
    images = np.asarray(draw.rng.random(shape) * 0.9 + 0.05, np.float32).astype(NUMPY[types["T"]])
    factor = np.array(draw.choice([-0.3, 0.2, 0.9] if op == "AdjustHue" else [0.0, 0.5, 1.7, 3.0]), np.float32)
    name = {"AdjustContrastv2": "contrast_factor", "AdjustHue": "delta", "AdjustSaturation": "scale"}[op]
    return Arguments(images=images, **{name: factor}, fixed=[name], differentiable=False)


@arguments("DrawBoundingBoxes", "DrawBoundingBoxesV2")
def draw_boxes(draw, op, types):
    images = _images(draw, types["T"], max_side=9, channels=draw.choice([1, 3, 4]))
    boxes = draw.values("float", (images.shape[0], draw.integer(0, 12), 4), -0.25, 1.25)
    if op == "DrawBoundingBoxes":
        return Arguments(images=images, boxes=boxes, differentiable=False)
    colors_ = draw.values("float", (draw.integer(0, 3), images.shape[3]), 0, 1)
    return Arguments(images=images, boxes=boxes, colors=colors_, differentiable=False)


@arguments("NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV4",
           "NonMaxSuppressionV5")
def suppression(draw, op, types):
    dtype = types.get("T", "float")
    threshold_type = NUMPY[types.get("T_threshold", dtype)]
    count = draw.integer(0, 12)
    inputs = {"boxes": draw.values(dtype, (count, 4), 0, 1), "scores": draw.values(dtype, (count,), -1, 1),
              "max_output_size": np.array(draw.integer(0, 12), np.int32)}
    overlap = draw.choice([0.0, 0.3, 0.5, 1.0])
    attrs = {}
    if op == "NonMaxSuppression":
        attrs["iou_threshold"] = overlap
    else:
        inputs["iou_threshold"] = np.array(overlap, threshold_type)
    if op[-1] in "345":
        inputs["score_threshold"] = np.array(draw.choice([-2.0, 0.0, 0.25]), threshold_type)
    if op[-1] in "45":
        attrs["pad_to_max_output_size"] = draw.chance(0.5)
    if op[-1] == "5":
        inputs["soft_nms_sigma"] = np.array(draw.choice([0.0, 0.5]), threshold_type)
    return Arguments(attrs, **inputs, fixed=["max_output_size"], differentiable=False)


@arguments("NonMaxSuppressionWithOverlaps")
def suppression_with_overlaps(draw, op, types):
    count = draw.integer(0, 8)
    return Arguments(overlaps=draw.values("float", (count, count), 0, 1), scores=draw.values("float", (count,), -1, 1),
                     max_output_size=np.array(draw.integer(0, 8), np.int32),
                     overlap_threshold=np.array(draw.choice([0.3, 0.5]), np.float32),
                     score_threshold=np.array(draw.choice([-2.0, 0.0]), np.float32), differentiable=False)


@arguments("SampleDistortedBoundingBox", "SampleDistortedBoundingBoxV2")
def sample_box(draw, op, types):
    attrs = {"seed": draw.integer(1, 99), "seed2": draw.integer(0, 99), "max_attempts": draw.choice([1, 100]),
             "area_range": draw.choice([[0.05, 1.0], [0.4, 0.6]]),
             "aspect_ratio_range": draw.choice([[0.75, 1.33], [0.5, 2.0]]),
             "use_image_if_no_bounding_boxes": draw.chance(0.7)}
    corners = np.sort(draw.values("float", (1, draw.integer(0, 2), 2, 2), 0, 1), axis=2)
    boxes = corners.reshape((1, corners.shape[1], 4))
    size = np.array([draw.integer(20, 120), draw.integer(20, 120), 3], NUMPY[types["T"]])
    covered = draw.choice([0.0, 0.1, 0.9])
    if op == "SampleDistortedBoundingBox":
        return Arguments({**attrs, "min_object_covered": covered}, image_size=size, bounding_boxes=boxes,
                         differentiable=False)
    return Arguments(attrs, image_size=size, bounding_boxes=boxes, min_object_covered=np.array(covered, np.float32),
                     differentiable=False)
