// Writes checkpoints for the fuzzer to start from, in its own form: bundle_seeds FOLDER
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bundle_input.h"
#include "memory_files.h"
#include "tutti/core/optional.h"
#include "tutti/core/tensor_list.h"
#include "tutti/core/variant.h"
#include "tutti/io/bundle_writer.h"
#include "tutti/io/internal/coding.h"
#include "tutti/io/slice_file.h"
#include "tutti/io/table_reader.h"
#include "tutti/ops/host/variant_messages.h"

using namespace tutti;

namespace {

void put_pair(std::string& input, std::string_view key, std::string_view value) {
  put_varint64(input, key.size());
  put_varint64(input, value.size());
  input += key;
  input += value;
}

// See bundle_fuzzer.cc. `data` is a path, or empty.
std::string fuzzer_input(FileSystem& files, const std::string& index, const std::string& data) {
  std::string input(1, '\1');
  const auto table = TableReader::open(files, index).value_or_throw();
  throw_if_error(table->scan([&](std::string_view key, std::string_view value) -> Status {
    put_pair(input, key, value);
    return {};
  }));
  if (!data.empty()) put_pair(input, fuzz::kDataKey, read_file(files, data).value_or_throw());
  return input;
}

// A list in a list, and an optional.
Tensor variants() {
  const auto inner =
      std::make_shared<TensorList>(DType::kFloat, PartialShape(), std::vector{Tensor::vector<float>({1, 2})});
  const auto outer = std::make_shared<TensorList>(DType::kVariant, PartialShape(),
                                                  std::vector{Tensor::scalar(Variant(inner)), Tensor()});
  return Tensor::vector<Variant>({Variant(outer), Variant(std::make_shared<Optional>(std::vector{Tensor::scalar(7)}))});
}

struct Paths {
  std::string index;
  std::string data;
};

Paths bundle(fuzz::MemoryFileSystem& files) {
  const auto out = BundleWriter::create(files, "/model", {.variants = &kVariantMessages}).value_or_throw();
  throw_if_error(out->add("f", Tensor::vector<float>({1, 2})));
  throw_if_error(out->add("s", Tensor::vector<std::string>({"ab", "", "c"})));
  throw_if_error(out->add("b", Tensor::scalar(true)));
  throw_if_error(out->add("v", variants()));
  for (const char* slice : {"0,1:-", "1,2:0,2"}) {
    const TensorSlice part = TensorSlice::parse(slice).value_or_throw();
    const Shape shape = part.shape_in({3, 2}).value_or_throw();
    throw_if_error(out->add_slice("w", {3, 2}, part, Tensor(DType::kInt64, shape)));
  }
  throw_if_error(out->finish());
  return {"/model.index", "/model.data-00000-of-00001"};
}

Paths slice_file(fuzz::MemoryFileSystem& files) {
  SliceFileWriter out(files, "/old");
  throw_if_error(out.add("f", {2}, TensorSlice::whole(1), Tensor::vector<float>({1, 2})));
  throw_if_error(out.add("s", {}, TensorSlice(), Tensor::scalar(std::string("word"))));
  for (const char* slice : {"0,1:-", "1,2:0,2"}) {
    const TensorSlice part = TensorSlice::parse(slice).value_or_throw();
    throw_if_error(out.add("w", {3, 2}, part, Tensor(DType::kInt32, part.shape_in({3, 2}).value_or_throw())));
  }
  throw_if_error(out.finish());
  return {"/old", ""};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: bundle_seeds FOLDER\n"), 2;
  try {
    const std::string folder = argv[1];
    fuzz::MemoryFileSystem files;
    for (const auto& [name, paths] : {std::pair{"bundle", bundle(files)}, std::pair{"slice_file", slice_file(files)}}) {
      const std::string whole = read_file(files, paths.index).value_or_throw();
      throw_if_error(
          write_file(local_file_system(), folder + "/" + name, fuzzer_input(files, paths.index, paths.data)));
      throw_if_error(write_file(local_file_system(), folder + "/" + name + "_raw", std::string(1, '\0') + whole));
    }
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "bundle_seeds: %s\n", error.what());
    return 1;
  }
}
