// The old single-file checkpoints that the ops Save, Restore and RestoreSlice write and read: a table (see
// table_writer.h) of slices, elements included.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/file_system.h"
#include "tutti/core/tensor.h"
#include "tutti/io/tensor_slice.h"

namespace tutti {

// Holds everything in memory until finish(), which makes the file appear whole. One thread at a time.
class SliceFileWriter {
 public:
  // `fs` outlives the writer.
  SliceFileWriter(FileSystem& fs, std::string path);
  ~SliceFileWriter();

  // kInternal, as in TensorFlow, when slices do not agree on the whole or one is there already; kUnimplemented for
  // types that the format does not know.
  Status add(std::string_view name, const Shape& full_shape, const TensorSlice& slice, const Tensor& value);
  // Errors name the file, and leave no file behind but one that was there before.
  Status finish();

 private:
  struct Saved;
  Status write(const std::string& path) const;

  FileSystem& fs_;
  const std::string path_;
  std::map<std::string, std::unique_ptr<Saved>, std::less<>> tensors_;
  std::map<std::string, std::string> slices_;  // messages by key
};

struct SliceFileEntry {
  DType dtype = DType::kInvalid;
  Shape shape;  // of the whole tensor
};

// The slices of all files that a pattern names. As careful as BundleReader, with the same errors.
class SliceFileReader {
 public:
  // kNotFound when no file fits. `fs` outlives the reader.
  static Result<std::unique_ptr<SliceFileReader>> open(FileSystem& fs, const std::string& pattern);
  ~SliceFileReader();

  std::vector<std::string> names() const;
  // kNotFound: `Tensor name "NAME" not found in checkpoint files...`.
  Result<SliceFileEntry> find(std::string_view name) const;
  Result<Tensor> read(std::string_view name, Allocator& allocator = heap_allocator()) const;
  Result<Tensor> read_slice(std::string_view name, const TensorSlice& slice,
                            Allocator& allocator = heap_allocator()) const;

 private:
  class Impl;
  explicit SliceFileReader(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace tutti
