// Reading checkpoints: tensor bundles, TensorFlow's checkpoint format V2 (see bundle_writer.h).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/file_system.h"
#include "tutti/core/tensor.h"
#include "tutti/io/tensor_slice.h"
#include "tutti/io/variant_codec.h"

namespace tutti {

// What a checkpoint says of a tensor.
struct BundleEntry {
  DType dtype = DType::kInvalid;
  Shape shape;                      // of the whole tensor
  std::vector<TensorSlice> slices;  // how it is cut up; empty: stored in one piece
};

// The files may come from anywhere: sizes are believed only as far as the files are large, every value is checked
// against its checksum. Errors name the tensor and the file: kDataLoss for damage, kNotFound for a missing file or
// tensor, kUnimplemented for what Tutti cannot read (another byte order, resources, variants of unknown types).
// Thread-safe.
class BundleReader {
 public:
  // Reads the index; data files are opened when a tensor in them is read. `fs` and `variants` outlive the reader;
  // without the latter, variants are listed but not read.
  static Result<std::unique_ptr<BundleReader>> open(FileSystem& fs, const std::string& prefix,
                                                    const VariantCodec* variants = nullptr);
  ~BundleReader();

  // In the order of bytes.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const;
  // kNotFound: "Key NAME not found in checkpoint...".
  Result<BundleEntry> find(std::string_view name) const;
  // A partitioned tensor is put together.
  Result<Tensor> read(std::string_view name, Allocator& allocator = heap_allocator()) const;
  Result<Tensor> read_slice(std::string_view name, const TensorSlice& slice,
                            Allocator& allocator = heap_allocator()) const;

 private:
  class Impl;
  explicit BundleReader(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace tutti
