#include "tutti/kernels/cpu/tables.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tutti/core/file_system.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/resources/lookup_table.h"
#include "tutti/kernels/resources/slots.h"

namespace tutti::cpu {

namespace {

using TableResult = Result<std::shared_ptr<LookupTable>>;

// A kernel that finds or makes the table of its node.
class MakeTable : public Kernel {
 public:
  MakeTable(std::shared_ptr<ResourceSlot> slot, const KernelInit& init)
      : slot_(std::move(slot)),
        options_{.name = slot_->name(),
                 .key_dtype = init.attr<DType>("key_dtype"),
                 .value_dtype = init.attr<DType>("value_dtype")},
        output_(init, slot_) {}

  Status compute(KernelContext& ctx) override {
    auto resource = slot_->get();
    if (!resource) {
      TUTTI_ASSIGN_OR_RETURN(const auto table, make(ctx));
      resource = slot_->get_or_create([&] { return table; });
    }
    const auto table = std::dynamic_pointer_cast<LookupTable>(resource);
    if (!table) return invalid_argument("Resource ", printable(slot_->name()), " is not a table");
    const TableOptions& there = table->options();
    if (there.key_dtype != options_.key_dtype || there.value_dtype != options_.value_dtype) {
      return invalid_argument("Conflicting key/value dtypes ", dtype_name(options_.key_dtype), "->",
                              dtype_name(options_.value_dtype), " with ", dtype_name(there.key_dtype), "-",
                              dtype_name(there.value_dtype), " for table ", printable(slot_->name()));
    }
    output_.give(ctx);
    return {};
  }

 protected:
  virtual TableResult make(KernelContext& ctx) const = 0;

  const std::shared_ptr<ResourceSlot> slot_;
  TableOptions options_;  // constant once constructed

 private:
  const HandleOutput output_;
};

Result<std::shared_ptr<ResourceSlot>> table_slot(const KernelInit& init) {
  return own_slot(init, init.attr<bool>("use_node_name_sharing") ? Unnamed::kByNode : Unnamed::kPrivate);
}

class MakePlainTable : public MakeTable {
 public:
  using Maker = TableResult (*)(TableOptions);
  MakePlainTable(std::shared_ptr<ResourceSlot> slot, const KernelInit& init, Maker maker)
      : MakeTable(std::move(slot), init), maker_(maker) {}
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init, Maker maker) {
    TUTTI_ASSIGN_OR_RETURN(auto slot, table_slot(init));
    return std::unique_ptr<Kernel>(std::make_unique<MakePlainTable>(std::move(slot), init, maker));
  }

 protected:
  TableResult make(KernelContext&) const override { return maker_(options_); }

 private:
  const Maker maker_;
};

Result<Shape> value_shape_of(const KernelInit& init) {
  const PartialShape& shape = init.attr<PartialShape>("value_shape");
  const auto known = shape.as_shape();
  if (!known) return invalid_argument("value_shape must be known, got ", shape);
  return *known;
}

class MakeTableOfTensors : public MakeTable {
 public:
  MakeTableOfTensors(std::shared_ptr<ResourceSlot> slot, const KernelInit& init, Shape value_shape)
      : MakeTable(std::move(slot), init) {
    options_.value_shape = std::move(value_shape);
  }
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    TUTTI_ASSIGN_OR_RETURN(auto slot, table_slot(init));
    TUTTI_ASSIGN_OR_RETURN(Shape shape, value_shape_of(init));
    if (shape.rank() != 1) return invalid_argument("Default value must be a vector, got shape ", shape);
    return std::unique_ptr<Kernel>(std::make_unique<MakeTableOfTensors>(std::move(slot), init, std::move(shape)));
  }

 protected:
  TableResult make(KernelContext&) const override { return make_mutable_hash_table(options_); }
};

class MakeDenseTable : public MakeTable {
 public:
  MakeDenseTable(std::shared_ptr<ResourceSlot> slot, const KernelInit& init, Shape value_shape)
      : MakeTable(std::move(slot), init),
        initial_num_buckets_(init.attr<std::int64_t>("initial_num_buckets")),
        max_load_factor_(init.attr<float>("max_load_factor")) {
    options_.value_shape = std::move(value_shape);
  }
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    TUTTI_ASSIGN_OR_RETURN(auto slot, table_slot(init));
    TUTTI_ASSIGN_OR_RETURN(Shape shape, value_shape_of(init));
    return std::unique_ptr<Kernel>(std::make_unique<MakeDenseTable>(std::move(slot), init, std::move(shape)));
  }

 protected:
  TableResult make(KernelContext& ctx) const override {
    return make_dense_hash_table(options_, {.empty_key = ctx.input(0),
                                            .deleted_key = ctx.input(1),
                                            .initial_num_buckets = initial_num_buckets_,
                                            .max_load_factor = max_load_factor_});
  }

 private:
  const std::int64_t initial_num_buckets_;
  const float max_load_factor_;
};

// A kernel that acts on the table behind input 0.
class TableKernel : public Kernel {
 public:
  explicit TableKernel(const KernelInit& init) : signature_(init) {}

 protected:
  Result<std::shared_ptr<LookupTable>> input_table(KernelContext& ctx) const {
    TUTTI_ASSIGN_OR_RETURN(const auto slot, input_slot(ctx, 0));
    return resource_in<LookupTable>(*slot, "table");
  }
  const NodeSignature signature_;
};

class Find : public TableKernel {
 public:
  using TableKernel::TableKernel;
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const auto table, input_table(ctx));
    const TableOptions& types = table->options();
    TUTTI_RETURN_IF_ERROR(signature_.check({types.key_dtype, types.value_dtype}, {types.value_dtype}));
    TUTTI_ASSIGN_OR_RETURN(Tensor values, table->find(ctx.input(1), ctx.input(2)));
    ctx.set_output(0, std::move(values));
    return {};
  }
};

// Insert and Import.
class Put : public TableKernel {
 public:
  Put(const KernelInit& init, bool replace_all) : TableKernel(init), replace_all_(replace_all) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const auto table, input_table(ctx));
    TUTTI_RETURN_IF_ERROR(signature_.check({table->options().key_dtype, table->options().value_dtype}, {}));
    return replace_all_ ? table->import_all(ctx.input(1), ctx.input(2)) : table->insert(ctx.input(1), ctx.input(2));
  }

 private:
  const bool replace_all_;
};

class Remove : public TableKernel {
 public:
  using TableKernel::TableKernel;
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const auto table, input_table(ctx));
    TUTTI_RETURN_IF_ERROR(signature_.check({table->options().key_dtype}, {}));
    return table->remove(ctx.input(1));
  }
};

class Export : public TableKernel {
 public:
  using TableKernel::TableKernel;
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const auto table, input_table(ctx));
    TUTTI_ASSIGN_OR_RETURN(auto contents, table->export_all());
    TUTTI_RETURN_IF_ERROR(signature_.check({}, {table->options().key_dtype, table->options().value_dtype}));
    ctx.set_output(0, std::move(contents.first));
    ctx.set_output(1, std::move(contents.second));
    return {};
  }
};

class Initialize : public TableKernel {
 public:
  using TableKernel::TableKernel;
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const auto table, input_table(ctx));
    TUTTI_RETURN_IF_ERROR(signature_.check({table->options().key_dtype, table->options().value_dtype}, {}));
    const Tensor& keys = ctx.input(1);
    const Tensor& values = ctx.input(2);
    if (keys.rank() != 1) return invalid_argument("Keys must be a vector, but received shape", keys.shape());
    if (values.rank() != 1) return invalid_argument("Values must be a vector, but received shape", values.shape());
    if (keys.num_elements() != values.num_elements()) {
      return invalid_argument("Keys and values must have the same size ", keys.num_elements(), " vs ",
                              values.num_elements());
    }
    if (keys.num_elements() == 0) return invalid_argument("keys and values cannot be empty tensors.");
    return table->initialise(keys, values);
  }
};

// --- Text files. ---

constexpr std::int64_t kLineNumber = -1;
constexpr std::int64_t kWholeLine = -2;

// The first `limit` lines without their ends; carriage returns are dropped. An end of line at the end of the file
// starts no line, and no line may be empty.
Result<std::vector<std::string>> read_lines(std::string_view text, std::int64_t limit, const std::string& path) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size() && static_cast<std::int64_t>(lines.size()) < limit;) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line(text.substr(at, end - at));
    std::erase(line, '\r');
    at = end + 1;
    if (line.empty()) {
      return invalid_argument("Invalid content in ", printable(path), ": empty line found at position ", at, ".");
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

template <typename T>
bool parse_floating(const std::string& text, T* value) {
  char* end = nullptr;
  *value = static_cast<T>(std::strtod(text.c_str(), &end));
  return !text.empty() && end == text.c_str() + text.size();
}

bool parse_element(const std::string& field, std::int64_t i, Tensor& to) {
  std::int64_t whole = 0;
  switch (to.dtype()) {
    case DType::kString:
      to.data<std::string>()[i] = field;
      return true;
    case DType::kInt64:
      return parse_int64(str_strip(field), &to.data<std::int64_t>()[i]);
    case DType::kInt32:
      if (!parse_int64(str_strip(field), &whole) || whole != static_cast<std::int32_t>(whole)) return false;
      to.data<std::int32_t>()[i] = static_cast<std::int32_t>(whole);
      return true;
    case DType::kFloat:
      return parse_floating(field, &to.data<float>()[i]);
    case DType::kDouble:
      return parse_floating(field, &to.data<double>()[i]);
    default:
      return false;
  }
}

class InitializeFromFile : public Kernel {
 public:
  explicit InitializeFromFile(const KernelInit& init)
      : key_index_(init.attr<std::int64_t>("key_index")),
        value_index_(init.attr<std::int64_t>("value_index")),
        vocab_size_(init.attr<std::int64_t>("vocab_size")),
        offset_(init.attr<std::int64_t>("offset")),
        delimiter_(init.attr<std::string>("delimiter")) {}

  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    auto kernel = std::make_unique<InitializeFromFile>(init);
    if (kernel->delimiter_.size() != 1) return invalid_argument("delimiter should be only 1 char");
    return std::unique_ptr<Kernel>(std::move(kernel));
  }

  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const auto slot, input_slot(ctx, 0));
    TUTTI_ASSIGN_OR_RETURN(const auto table, resource_in<LookupTable>(*slot, "table"));
    const Tensor& name = ctx.input(1);
    if (name.num_elements() != 1) {
      return invalid_argument("filename should be a single string, but got shape ", name.shape());
    }
    const std::string& path = name.scalar<std::string>();
    if (path.empty()) return invalid_argument("filename cannot be empty.");
    const TableOptions& types = table->options();
    TUTTI_RETURN_IF_ERROR(check_column(key_index_, types.key_dtype, "Key", "key"));
    TUTTI_RETURN_IF_ERROR(check_column(value_index_, types.value_dtype, "Value", "value"));
    if (ctx.services().files == nullptr) return failed_precondition("this task has no files");
    TUTTI_ASSIGN_OR_RETURN(const std::string text, read_file(*ctx.services().files, path));
    const std::int64_t limit = vocab_size_ < 0 ? std::numeric_limits<std::int64_t>::max() : vocab_size_;
    TUTTI_ASSIGN_OR_RETURN(const std::vector<std::string> lines, read_lines(text, limit, path));
    return fill(*table, lines, path);
  }

 private:
  static Status check_column(std::int64_t index, DType dtype, std::string_view column, std::string_view name) {
    if (index == kLineNumber && dtype != DType::kInt64) {
      return invalid_argument(column, " index for line number requires table ", name, " dtype of int64, got ",
                              dtype_name(dtype));
    }
    if (dtype == DType::kString || dtype == DType::kInt32 || dtype == DType::kInt64 || dtype == DType::kFloat ||
        dtype == DType::kDouble) {
      return {};
    }
    return invalid_argument("Data type ", dtype_name(dtype), " not supported.");
  }

  Status fill(LookupTable& table, const std::vector<std::string>& lines, const std::string& path) const {
    const auto there = static_cast<std::int64_t>(lines.size());
    const std::int64_t count = vocab_size_ < 0 ? there : vocab_size_;
    if (count > there) {
      return invalid_argument("Invalid vocab_size in ", printable(path), ": expected ", count, " but got ", there);
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor keys, Tensor::create(table.options().key_dtype, Shape{count}, heap_allocator()));
    TUTTI_ASSIGN_OR_RETURN(Tensor values, Tensor::create(table.options().value_dtype, Shape{count}, heap_allocator()));
    for (std::int64_t i = 0; i < count; ++i) {
      const std::string& line = lines[static_cast<std::size_t>(i)];
      TUTTI_RETURN_IF_ERROR(check_columns(line, i, path));
      TUTTI_RETURN_IF_ERROR(read_column(key_index_, line, i, keys));
      TUTTI_RETURN_IF_ERROR(read_column(value_index_, line, i, values));
    }
    return table.initialise(keys, values);
  }

  Status check_columns(const std::string& line, std::int64_t number, const std::string& path) const {
    const std::int64_t last = std::max(key_index_, value_index_);
    if (last < 0) return {};
    const auto columns = static_cast<std::int64_t>(str_split(line, delimiter_[0]).size());
    if (columns > last) return {};
    return invalid_argument("Invalid number of columns in ", printable(path), " line ", number, " (", printable(line),
                            ") : expected at least ", last + 1, " got ", columns);
  }

  Status read_column(std::int64_t column, const std::string& line, std::int64_t number, Tensor& to) const {
    if (column == kLineNumber) {
      to.data<std::int64_t>()[number] = number + offset_;
      return {};
    }
    const std::string field =
        column == kWholeLine ? line : std::string(str_split(line, delimiter_[0])[static_cast<std::size_t>(column)]);
    if (parse_element(field, number, to)) return {};
    return invalid_argument("Field ", printable(field), " in line ", number, " is not a valid ", dtype_name(to.dtype()),
                            ".");
  }

  const std::int64_t key_index_;
  const std::int64_t value_index_;
  const std::int64_t vocab_size_;
  const std::int64_t offset_;
  const std::string delimiter_;
};

}  // namespace

KernelFactory hash_table_kernel() {
  return [](const KernelInit& init) { return MakePlainTable::create(init, make_hash_table); };
}
KernelFactory mutable_hash_table_kernel() {
  return [](const KernelInit& init) { return MakePlainTable::create(init, make_mutable_hash_table); };
}
KernelFactory mutable_hash_table_of_tensors_kernel() { return kernel_of<MakeTableOfTensors>(); }
KernelFactory mutable_dense_hash_table_kernel() { return kernel_of<MakeDenseTable>(); }
KernelFactory table_find_kernel() { return kernel_of<Find>(); }
KernelFactory table_insert_kernel() {
  return [](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    return std::unique_ptr<Kernel>(std::make_unique<Put>(init, /*replace_all=*/false));
  };
}
KernelFactory table_import_kernel() {
  return [](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    return std::unique_ptr<Kernel>(std::make_unique<Put>(init, /*replace_all=*/true));
  };
}
KernelFactory table_remove_kernel() { return kernel_of<Remove>(); }
KernelFactory table_export_kernel() { return kernel_of<Export>(); }
KernelFactory table_initialize_kernel() { return kernel_of<Initialize>(); }
KernelFactory table_initialize_from_file_kernel() { return kernel_of<InitializeFromFile>(); }

Status table_size(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const auto slot, input_slot(ctx, 0));
  TUTTI_ASSIGN_OR_RETURN(const auto table, resource_in<LookupTable>(*slot, "table"));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{}));
  *out->data<std::int64_t>() = table->size();
  return {};
}

}  // namespace tutti::cpu
