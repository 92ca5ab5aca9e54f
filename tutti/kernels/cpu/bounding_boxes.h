// Boxes in images.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Inputs: images [batch, height, width, 1, 3 or 4], boxes [batch, n, 4] (y1, x1, y2, x2 in shares of the image) and,
// where the op has it, colours [m, channels]. The output has their outlines drawn in.
Status draw_bounding_boxes(KernelContext& ctx);

// Which forms of suppression there are: inputs boxes, scores, max_output_size, then as many of iou_threshold,
// score_threshold and soft_nms_sigma as the op has; the first may be an attribute.
KernelFactory non_max_suppression_kernel();
// Inputs: overlaps [n, n], scores, max_output_size, overlap_threshold, score_threshold.
Status non_max_suppression_with_overlaps(KernelContext& ctx);

}  // namespace tutti::cpu
