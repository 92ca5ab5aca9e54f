// Writing checkpoints: tensor bundles, TensorFlow's checkpoint format V2.
//
// A bundle with prefix P is P.index, a table of what there is, and P.data-00000-of-00001 with the elements.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "tutti/core/file_system.h"
#include "tutti/core/tensor.h"
#include "tutti/io/tensor_slice.h"
#include "tutti/io/variant_codec.h"

namespace tutti {

struct BundleWriterOptions {
  // Tensors begin at multiples of this in the data file.
  std::uint64_t alignment = 1;
  // Whether finish() waits until all is on the disk, so that not even a power failure shows half a checkpoint.
  bool sync = true;
  // Outlives the writer. Null: variants are refused.
  const VariantCodec* variants = nullptr;
};

// Until finish() has succeeded nothing is visible under the prefix, and a bundle that was there before stays; what was
// written meanwhile goes away with the writer. Keeps its first error; errors name the file. One thread at a time.
class BundleWriter {
 public:
  // Makes the directory of the prefix. `fs` outlives the writer.
  static Result<std::unique_ptr<BundleWriter>> create(FileSystem& fs, std::string prefix,
                                                      const BundleWriterOptions& options = {});
  ~BundleWriter();

  // kInvalidArgument for an empty or taken name, kUnimplemented for resources and for variants that cannot be
  // written.
  Status add(std::string_view name, const Tensor& value);
  // A part of a tensor, which may have others here or in bundles to be merged with this one. A part that is all of it
  // is stored as the tensor. kInvalidArgument when parts do not agree on the whole.
  Status add_slice(std::string_view name, const Shape& full_shape, const TensorSlice& slice, const Tensor& value);
  Status finish();

 private:
  BundleWriter(FileSystem& fs, std::string prefix, const BundleWriterOptions& options);
  Status open();
  Status add_entry(std::string_view name, const std::string& key, const Tensor& value);
  Status align();
  Status write_index(WritableFile& file) const;
  Status write_files();

  FileSystem& fs_;
  const std::string prefix_;
  const BundleWriterOptions options_;
  const std::string temporary_data_;
  const std::string temporary_index_;

  std::unique_ptr<WritableFile> data_;
  std::uint64_t data_bytes_ = 0;
  std::map<std::string, std::string> entries_;  // key to message, of whole tensors and slices
  // Partitioned tensors by name. The message holds the slices so far.
  struct Partitioned;
  std::map<std::string, std::unique_ptr<Partitioned>, std::less<>> partitioned_;
  Status error_;
  bool finished_ = false;
};

}  // namespace tutti
