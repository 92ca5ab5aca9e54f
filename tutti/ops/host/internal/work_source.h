// What readers make of a unit of work, mostly the name of a file.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tutti/core/file_system.h"
#include "tutti/kernels/kernel.h"

namespace tutti {

// One thread at a time.
class WorkSource {
 public:
  enum class Step { kRecord, kLastRecord, kEnd };

  virtual ~WorkSource() = default;
  // Leaves what it was at.
  virtual Status begin(FileSystem& files, const std::string& work) = 0;
  // The next record with its key. REQUIRES: begun, and not at the end.
  virtual Result<Step> next(std::string* key, std::string* value) = 0;
  // Whether the name of the work says all there is to know of where it is.
  virtual bool can_be_saved() const { return false; }
};

using WorkSourceFactory = std::function<Result<std::unique_ptr<WorkSource>>(const KernelInit&)>;

Result<std::unique_ptr<WorkSource>> make_identity_source(const KernelInit& init);
Result<std::unique_ptr<WorkSource>> make_whole_file_source(const KernelInit& init);
// Attribute skip_header_lines.
Result<std::unique_ptr<WorkSource>> make_text_line_source(const KernelInit& init);
// Attributes header_bytes, record_bytes, footer_bytes, hop_bytes and, in the newer form, encoding.
Result<std::unique_ptr<WorkSource>> make_fixed_length_source(const KernelInit& init);
// Attribute compression_type.
Result<std::unique_ptr<WorkSource>> make_record_source(const KernelInit& init);

}  // namespace tutti
