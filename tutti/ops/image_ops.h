// Registration of the families that images and parsing need. Part of register_all_ops.
#pragma once

namespace tutti {

class OpTable;

void register_image_ops(OpTable& ops);  // resizing, cropping, colours, boxes

}  // namespace tutti
