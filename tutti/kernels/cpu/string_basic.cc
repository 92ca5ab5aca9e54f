// Joining, cutting and measuring strings.
#include <algorithm>
#include <vector>

#include "tutti/core/strings.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/strings.h"
#include "tutti/kernels/cpu/utf8.h"

namespace tutti::cpu {
namespace {

// A string op of one input: output element i is fn(input element i).
template <typename Fn>
Status map_strings(KernelContext& ctx, Fn&& fn) {
  const Tensor& in = ctx.input(0);
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, in.shape()));
  for (std::int64_t i = 0; i < in.num_elements(); ++i) {
    out->data<std::string>()[i] = fn(in.data<std::string>()[i]);
  }
  return {};
}

class StringJoin : public Kernel {
 public:
  explicit StringJoin(const KernelInit& init) : separator_(init.attr<std::string>("separator")) {}
  Status compute(KernelContext& ctx) override {
    Shape shape;
    TUTTI_RETURN_IF_ERROR(common_shape(ctx, &shape));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    for (std::int64_t i = 0; i < shape.num_elements(); ++i) {
      std::string& joined = out->data<std::string>()[i];
      for (int k = 0; k < ctx.num_inputs(); ++k) {
        if (k > 0) joined += separator_;
        joined += ctx.input(k).data<std::string>()[ctx.input(k).rank() == 0 ? 0 : i];
      }
    }
    return {};
  }

 private:
  // That of the inputs that are no scalars.
  static Status common_shape(KernelContext& ctx, Shape* shape) {
    bool found = false;
    for (int k = 0; k < ctx.num_inputs(); ++k) {
      const Shape& in = ctx.input(k).shape();
      if (in.rank() == 0) continue;
      if (found && !(in == *shape)) return invalid_argument("Input shapes do not match: ", *shape, " vs. ", in);
      *shape = in;
      found = true;
    }
    return {};
  }

  const std::string separator_;
};

char ascii_case(char c, bool upper) {
  if (upper) return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

template <bool kUpper>
class StringCase : public Kernel {
 public:
  explicit StringCase(bool utf8) : utf8_(utf8) {}
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    const std::string& encoding = init.attr<std::string>("encoding");
    if (!encoding.empty() && encoding != "utf-8") {
      return invalid_argument("only utf-8 or '' (no encoding) is supported, received ", printable(encoding));
    }
    return std::unique_ptr<Kernel>(std::make_unique<StringCase>(!encoding.empty()));
  }
  Status compute(KernelContext& ctx) override {
    return map_strings(ctx, [this](const std::string& text) {
      if (utf8_) return kUpper ? utf8_upper(text) : utf8_lower(text);
      std::string changed = text;
      for (char& c : changed) c = ascii_case(c, kUpper);
      return changed;
    });
  }

 private:
  const bool utf8_;
};

bool counts_characters(const KernelInit& init) { return init.attr<std::string>("unit") == "UTF8_CHAR"; }

class StringLength : public Kernel {
 public:
  explicit StringLength(const KernelInit& init) : characters_(counts_characters(init)) {}
  Status compute(KernelContext& ctx) override {
    const Tensor& in = ctx.input(0);
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, in.shape()));
    for (std::int64_t i = 0; i < in.num_elements(); ++i) {
      const std::string& text = in.data<std::string>()[i];
      const std::int64_t length = characters_ ? utf8_length(text) : static_cast<std::int64_t>(text.size());
      out->data<std::int32_t>()[i] = static_cast<std::int32_t>(length);
    }
    return {};
  }

 private:
  const bool characters_;
};

// `length` bytes from `pos` on, counted from the end when negative. Null pointer: out of range.
// A negative length means the rest, as in TensorFlow.
const char* cut_bytes(std::string_view text, std::int64_t pos, std::int64_t length, std::size_t* size) {
  const auto total = static_cast<std::int64_t>(text.size());
  if (pos > total || pos < -total) return nullptr;
  const std::int64_t start = pos < 0 ? pos + total : pos;
  *size = static_cast<std::size_t>(length < 0 ? total - start : std::min(length, total - start));
  return text.data() + start;
}

// Where character `count` begins, counted from byte `at`; npos when there are fewer.
std::size_t skip_characters(std::string_view text, std::size_t at, std::int64_t count) {
  for (; count > 0; --count) {
    if (at >= text.size()) return std::string_view::npos;
    for (++at; at < text.size() && is_utf8_continuation(text[at]);) ++at;
  }
  return at;
}

// The same in characters; here a negative length means none, or from the end, which has no meaning, an error.
const char* cut_characters(std::string_view text, std::int64_t pos, std::int64_t length, std::size_t* size) {
  if (pos < 0 && length < 0) return nullptr;
  if (pos < 0) pos += utf8_length(text);
  if (pos < 0) return nullptr;
  const std::size_t start = skip_characters(text, 0, pos);
  if (start == std::string_view::npos) return nullptr;
  *size = std::min(skip_characters(text, start, length), text.size()) - start;
  return text.data() + start;
}

class Substr : public Kernel {
 public:
  explicit Substr(const KernelInit& init) : characters_(counts_characters(init)) {}
  Status compute(KernelContext& ctx) override {
    const Tensor &text = ctx.input(0), &pos = ctx.input(1), &length = ctx.input(2);
    if (!(pos.shape() == length.shape())) {
      return invalid_argument("pos and len should have the same shape, got: ", pos.shape(), " vs. ", length.shape());
    }
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, broadcast_shapes(text.shape(), pos.shape()));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    std::vector<std::int64_t> text_at(static_cast<std::size_t>(shape.num_elements()));
    std::vector<std::int64_t> pos_at(text_at.size());
    broadcast_indices(text.shape(), shape, text_at);
    broadcast_indices(pos.shape(), shape, pos_at);
    for (std::size_t i = 0; i < text_at.size(); ++i) {
      const std::string& from = text.data<std::string>()[text_at[i]];
      const std::int64_t at = index_at(pos.raw(), pos.dtype(), pos_at[i]);
      std::size_t size = 0;
      const char* cut = (characters_ ? cut_characters : cut_bytes)(
          from, at, index_at(length.raw(), length.dtype(), pos_at[i]), &size);
      if (cut == nullptr) {
        return invalid_argument("pos ", at, " out of range for string", characters_ ? "" : " b'",
                                characters_ ? "" : printable(from), characters_ ? "" : "'", " at index ", i);
      }
      out->data<std::string>()[i].assign(cut, size);
    }
    return {};
  }

 private:
  // For each element of `to`, the element of `from` that broadcasting puts there.
  static void broadcast_indices(const Shape& from, const Shape& to, std::vector<std::int64_t>& indices) {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      auto rest = static_cast<std::int64_t>(i);
      std::int64_t index = 0, stride = 1;
      for (int d = to.rank() - 1, e = from.rank() - 1; e >= 0; --d, --e) {
        if (from.dim(e) != 1) index += rest % to.dim(d) * stride;
        rest /= to.dim(d);
        stride *= from.dim(e);
      }
      indices[i] = index;
    }
  }

  const bool characters_;
};

class ReduceJoin : public Kernel {
 public:
  explicit ReduceJoin(const KernelInit& init)
      : keep_dims_(init.attr<bool>("keep_dims")), separator_(init.attr<std::string>("separator")) {}

  Status compute(KernelContext& ctx) override {
    const Tensor& in = ctx.input(0);
    std::vector<int> reduced;
    TUTTI_RETURN_IF_ERROR(read_dimensions(ctx.input(1), in.rank(), &reduced));
    if (reduced.empty()) {
      ctx.set_output(0, in);
      return {};
    }
    std::vector<int> kept;
    std::vector<std::int64_t> dims;
    for (int d = 0; d < in.rank(); ++d) {
      const bool is_reduced = std::find(reduced.begin(), reduced.end(), d) != reduced.end();
      if (!is_reduced) kept.push_back(d);
      if (!is_reduced || keep_dims_) dims.push_back(is_reduced ? 1 : in.dim(d));
    }
    // The dimension that is named first varies fastest.
    std::reverse(reduced.begin(), reduced.end());
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    const std::vector<std::int64_t> starts = offsets(in.shape(), kept);
    const std::vector<std::int64_t> steps = offsets(in.shape(), reduced);
    for (std::size_t i = 0; i < starts.size(); ++i) {
      std::string& joined = out->data<std::string>()[i];
      for (std::size_t k = 0; k < steps.size(); ++k) {
        if (k > 0) joined += separator_;
        joined += in.data<std::string>()[starts[i] + steps[k]];
      }
    }
    return {};
  }

 private:
  static Status read_dimensions(const Tensor& indices, int rank, std::vector<int>* dimensions) {
    for (const std::int32_t index : indices.flat<std::int32_t>()) {
      if (index < -rank || index >= rank) {
        return out_of_range("Invalid reduction dimension ", index, " for input with ", rank, " dimension(s)");
      }
      const int dimension = index < 0 ? index + rank : index;
      if (std::find(dimensions->begin(), dimensions->end(), dimension) != dimensions->end()) {
        return invalid_argument("Duplicate reduction dimension ", dimension);
      }
      dimensions->push_back(dimension);
    }
    return {};
  }

  // Where the elements lie that differ in these dimensions only, the last of them varying fastest.
  static std::vector<std::int64_t> offsets(const Shape& shape, const std::vector<int>& dimensions) {
    std::vector<std::int64_t> at = {0};
    for (const int d : dimensions) {
      const std::int64_t stride = elements_from(shape, d + 1);
      std::vector<std::int64_t> next;
      for (const std::int64_t start : at) {
        for (std::int64_t i = 0; i < shape.dim(d); ++i) next.push_back(start + i * stride);
      }
      at = std::move(next);
    }
    return at;
  }

  const bool keep_dims_;
  const std::string separator_;
};

}  // namespace

Status string_strip(KernelContext& ctx) {
  return map_strings(ctx, [](const std::string& text) { return std::string(str_strip(text)); });
}

KernelFactory string_join_kernel() { return kernel_of<StringJoin>(); }
KernelFactory string_case_kernel(bool upper) {
  return upper ? kernel_of<StringCase<true>>() : kernel_of<StringCase<false>>();
}
KernelFactory string_length_kernel() { return kernel_of<StringLength>(); }
KernelFactory substr_kernel() { return kernel_of<Substr>(); }
KernelFactory reduce_join_kernel() { return kernel_of<ReduceJoin>(); }

}  // namespace tutti::cpu
