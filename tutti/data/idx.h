// The IDX format of MNIST: two zero bytes, an element type, a rank, big-endian dimensions, elements.
#pragma once

#include <string>
#include <string_view>

#include "tutti/core/file_system.h"
#include "tutti/core/status.h"
#include "tutti/core/tensor.h"

namespace tutti {

// Contents of an IDX file, gzip-compressed or not: a tensor of uint8, int8, int16, int32, float or double.
// Errors give the values: kInvalidArgument for bytes that are not IDX, dimensions that overflow and bytes left
// over; kDataLoss for a file that ends early or a damaged gzip stream. No more memory is taken than the file
// really fills.
Result<Tensor> parse_idx(std::string_view bytes);

// The same from a file; errors begin with its path.
Result<Tensor> read_idx(FileSystem& fs, const std::string& path);

}  // namespace tutti
