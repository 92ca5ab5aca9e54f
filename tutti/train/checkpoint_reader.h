// Looking into checkpoints: what they have, and its values. No graph or session is needed.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/file_system.h"
#include "tutti/core/tensor.h"
#include "tutti/io/checkpoint_state.h"

namespace tutti {

class BundleReader;
class SliceFileReader;

// Reads both of TensorFlow's formats. Thread-safe.
class CheckpointReader {
 public:
  struct Variable {
    std::string name;
    DType dtype = DType::kInvalid;
    Shape shape;
  };

  // `path`: a prefix, or a directory whose file `state_file` names one. kInvalidArgument when it is neither, kDataLoss
  // for damage. `fs` outlives the reader.
  static Result<std::unique_ptr<CheckpointReader>> open(FileSystem& fs, const std::string& path,
                                                        std::string_view state_file = kCheckpointStateFile);
  ~CheckpointReader();

  const std::string& prefix() const { return prefix_; }
  // In the order of bytes of their names.
  std::vector<Variable> variables() const;
  bool contains(std::string_view name) const;
  // kNotFound names the checkpoint and what it has.
  Result<Variable> find(std::string_view name) const;
  // A partitioned one is put together. kDataLoss when its bytes are damaged.
  Result<Tensor> read(std::string_view name) const;

 private:
  explicit CheckpointReader(std::string prefix);
  Status missing(std::string_view name) const;

  const std::string prefix_;
  std::unique_ptr<BundleReader> bundle_;
  std::unique_ptr<SliceFileReader> old_;  // instead of bundle_, for the old format
  std::vector<Variable> variables_;
};

// From the local disk. They throw Error.
std::unique_ptr<CheckpointReader> load_checkpoint(const std::string& path);
std::vector<CheckpointReader::Variable> list_variables(const std::string& path);
Tensor load_variable(const std::string& path, const std::string& name);

}  // namespace tutti
