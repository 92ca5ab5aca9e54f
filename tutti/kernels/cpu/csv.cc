#include "tutti/kernels/cpu/csv.h"

#include "tutti/kernels/cpu/internal/number_text.h"
#include "tutti/kernels/cpu/parallel.h"

namespace tutti::cpu {

namespace {

bool breaks_line(char c) { return c == '\n' || c == '\r'; }

// Walks over a record field by field.
class CsvScanner {
 public:
  CsvScanner(std::string_view record, const CsvFormat& format) : rest_(record), format_(format) {}

  bool done() const { return rest_.empty() && !open_; }

  // The next field, into `field` unless that is null.
  Status next(std::string* field) {
    open_ = false;
    return format_.quotes && rest_.starts_with('"') ? quoted(field) : plain(field);
  }

 private:
  Status plain(std::string* field) {
    std::size_t end = 0;
    for (; end < rest_.size() && rest_[end] != format_.delimiter; ++end) {
      if (format_.quotes && (rest_[end] == '"' || breaks_line(rest_[end]))) {
        return invalid_argument("Unquoted fields cannot have quotes/CRLFs inside");
      }
    }
    if (field != nullptr) field->assign(rest_.substr(0, end));
    leave(end);
    return {};
  }

  Status quoted(std::string* field) {
    if (field != nullptr) field->clear();
    std::size_t at = 1;
    while (at < rest_.size()) {
      if (rest_[at] != '"') {
        if (field != nullptr) field->push_back(rest_[at]);
        ++at;
      } else if (at + 1 < rest_.size() && rest_[at + 1] == '"') {
        if (field != nullptr) field->push_back('"');
        at += 2;
      } else if (at + 1 == rest_.size() || rest_[at + 1] == format_.delimiter) {
        leave(at + 1);
        return {};
      } else {
        return invalid_argument("Quote inside a string has to be escaped by another quote");
      }
    }
    return invalid_argument("Quoted field has to end with quote followed by delim or end");
  }

  // Past a delimiter there is another field, even of nothing.
  void leave(std::size_t end) {
    open_ = end < rest_.size();
    rest_.remove_prefix(open_ ? end + 1 : end);
  }

  std::string_view rest_;
  bool open_ = false;
  const CsvFormat& format_;
};

}  // namespace

Status split_csv(std::string_view record, const CsvFormat& format, std::vector<std::string>* fields) {
  std::size_t count = 0;  // kept so far: strings of the last record are written over
  CsvScanner scanner(record, format);
  std::size_t wanted = 0;
  // What comes after the last column that is wanted may be anything.
  const auto goes_on = [&] { return format.columns.empty() || wanted < format.columns.size(); };
  for (std::int64_t column = 0; goes_on() && !scanner.done(); ++column) {
    const bool keep = format.columns.empty() || format.columns[wanted] == column;
    if (!keep) {
      TUTTI_RETURN_IF_ERROR(scanner.next(nullptr));
      continue;
    }
    ++wanted;
    if (count == fields->size()) fields->emplace_back();
    TUTTI_RETURN_IF_ERROR(scanner.next(&(*fields)[count++]));
  }
  fields->resize(count);
  return {};
}

namespace {

constexpr std::int64_t kRecordsPerPiece = 256;

class DecodeCsv : public Kernel {
 public:
  DecodeCsv(const KernelInit& init, CsvFormat format)
      : types_(init.attr<std::vector<DType>>("OUT_TYPE")),
        missing_(init.attr<std::string>("na_value")),
        format_(std::move(format)) {}

  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    CsvFormat format;
    const std::string& delimiter = init.attr<std::string>("field_delim");
    if (delimiter.size() != 1) return invalid_argument("field_delim should be only 1 char");
    format.delimiter = delimiter[0];
    format.quotes = init.attr<bool>("use_quote_delim");
    format.columns = init.attr<std::vector<std::int64_t>>("select_cols");
    const std::size_t count = init.attr<std::vector<DType>>("OUT_TYPE").size();
    if (!format.columns.empty() && format.columns.size() != count) {
      return invalid_argument("select_cols should match output size: ", format.columns.size(), " and ", count);
    }
    for (std::size_t i = 0; i < format.columns.size(); ++i) {
      if (format.columns[i] < 0) return invalid_argument("select_cols should be non-negative indices");
      if (i > 0 && format.columns[i] <= format.columns[i - 1]) {
        return invalid_argument("select_cols should be strictly increasing indices");
      }
    }
    return std::unique_ptr<Kernel>(std::make_unique<DecodeCsv>(init, std::move(format)));
  }

  Status compute(KernelContext& ctx) override {
    const Tensor& records = ctx.input(0);
    for (int i = 1; i < ctx.num_inputs(); ++i) {
      const Tensor& value = ctx.input(i);
      if (value.rank() > 1) return invalid_argument("Each record default should be at most rank 1");
      if (value.num_elements() > 1) {
        return invalid_argument("There should only be 1 default per field but field ", i - 1, " has ",
                                value.num_elements());
      }
    }
    std::vector<Tensor*> out;
    for (int i = 0; i < ctx.num_outputs(); ++i) {
      TUTTI_ASSIGN_OR_RETURN(Tensor * column, ctx.allocate_output(i, records.shape()));
      out.push_back(column);
    }
    std::vector<Status> errors(static_cast<std::size_t>(ctx.team().size()));
    parallel_ranges(ctx.team(), records.num_elements(), kRecordsPerPiece,
                    [&](int piece, std::int64_t begin, std::int64_t end) {
                      std::vector<std::string> fields;
                      Status& error = errors[static_cast<std::size_t>(piece)];
                      for (std::int64_t i = begin; i < end && error.ok(); ++i) error = decode(ctx, i, &fields, out);
                    });
    for (Status& error : errors) {
      if (!error.ok()) return std::move(error);
    }
    return {};
  }

 private:
  Status decode(KernelContext& ctx, std::int64_t record, std::vector<std::string>* fields,
                const std::vector<Tensor*>& out) const {
    TUTTI_RETURN_IF_ERROR(split_csv(ctx.input(0).data<std::string>()[record], format_, fields));
    if (fields->size() != types_.size()) {
      return invalid_argument("Expect ", types_.size(), " fields but have ", fields->size(), " in record ", record);
    }
    for (std::size_t i = 0; i < types_.size(); ++i) {
      TUTTI_RETURN_IF_ERROR(set(*out[i], record, i, (*fields)[i], ctx.input(1 + static_cast<int>(i))));
    }
    return {};
  }

  Status set(Tensor& out, std::int64_t record, std::size_t field, std::string& text, const Tensor& otherwise) const {
    switch (types_[field]) {
      case DType::kInt32:
        return set_number<std::int32_t>(out, record, field, text, otherwise);
      case DType::kInt64:
        return set_number<std::int64_t>(out, record, field, text, otherwise);
      case DType::kFloat:
        return set_number<float>(out, record, field, text, otherwise);
      case DType::kDouble:
        return set_number<double>(out, record, field, text, otherwise);
      default:
        break;
    }
    std::string& to = out.data<std::string>()[record];
    if (!is_missing(text)) {
      std::swap(to, text);
      return {};
    }
    if (otherwise.num_elements() != 1) return required(record, field);
    to = otherwise.scalar<std::string>();
    return {};
  }

  template <typename T>
  Status set_number(Tensor& out, std::int64_t record, std::size_t field, const std::string& text,
                    const Tensor& otherwise) const {
    T& to = out.data<T>()[record];
    if (is_missing(text)) {
      if (otherwise.num_elements() != 1) return required(record, field);
      to = otherwise.scalar<T>();
      return {};
    }
    if (internal::number_from_text(text, &to)) return {};
    return invalid_argument("Field ", field, " in record ", record, " is not a valid ", dtype_name(types_[field]), ": ",
                            printable(text));
  }

  bool is_missing(const std::string& text) const { return text.empty() || text == missing_; }
  static Status required(std::int64_t record, std::size_t field) {
    return invalid_argument("Field ", field, " is required but missing in record ", record, "!");
  }

  const std::vector<DType> types_;
  const std::string missing_;
  const CsvFormat format_;
};

}  // namespace

KernelFactory decode_csv_kernel() { return kernel_of<DecodeCsv>(); }

}  // namespace tutti::cpu
