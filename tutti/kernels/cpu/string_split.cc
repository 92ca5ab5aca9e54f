// Splitting: a vector of strings becomes a sparse matrix with a row for each.
#include <algorithm>
#include <string_view>
#include <vector>

#include "tutti/kernels/cpu/strings.h"

namespace tutti::cpu {
namespace {

using Pieces = std::vector<std::string_view>;

constexpr std::string_view kWhiteSpace = " \t\n\v\f\r";

// StringSplit: every character of `delimiters` separates; none at all: every byte is a piece.
void split_at_any(std::string_view text, std::string_view delimiters, bool skip_empty, Pieces* pieces) {
  if (delimiters.empty()) {
    for (std::size_t i = 0; i < text.size(); ++i) pieces->push_back(text.substr(i, 1));
    return;
  }
  if (text.empty()) return;
  while (true) {
    const std::size_t end = std::min(text.find_first_of(delimiters), text.size());
    if (end > 0 || !skip_empty) pieces->push_back(text.substr(0, end));
    if (end == text.size()) return;
    text.remove_prefix(end + 1);
  }
}

std::string_view without_leading_space(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kWhiteSpace), text.size()));
}

void split_at_space(std::string_view text, std::int64_t max_splits, Pieces* pieces) {
  text = without_leading_space(text);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(kWhiteSpace), text.size());
    pieces->push_back(text.substr(0, end));
    text = without_leading_space(text.substr(end));
    if (--max_splits == 0) return pieces->push_back(text);
  }
}

// StringSplitV2: as Python's str.split, except that `max_splits` may leave an empty rest.
void split_at(std::string_view text, std::string_view separator, std::int64_t max_splits, Pieces* pieces) {
  if (max_splits == 0) return pieces->push_back(text);
  if (separator.empty()) return split_at_space(text, max_splits, pieces);
  for (std::size_t end; (end = text.find(separator)) != std::string_view::npos;) {
    pieces->push_back(text.substr(0, end));
    text.remove_prefix(end + separator.size());
    if (--max_splits == 0) break;
  }
  pieces->push_back(text);
}

// Splits each string of input 0 and writes indices, values and dense shape.
template <typename Split>
Status write_sparse(KernelContext& ctx, Split&& split) {
  const Tensor& in = ctx.input(0);
  if (in.rank() != 1) return invalid_argument("input must be a vector, got shape: ", in.shape());
  Pieces pieces;
  std::vector<std::size_t> ends;  // of the pieces of each row
  std::size_t widest = 0;
  for (const std::string& text : in.flat<std::string>()) {
    const std::size_t before = pieces.size();
    split(text, &pieces);
    widest = std::max(widest, pieces.size() - before);
    ends.push_back(pieces.size());
  }
  const auto count = static_cast<std::int64_t>(pieces.size());
  TUTTI_ASSIGN_OR_RETURN(Tensor * indices, ctx.allocate_output(0, Shape{count, 2}));
  TUTTI_ASSIGN_OR_RETURN(Tensor * values, ctx.allocate_output(1, Shape{count}));
  TUTTI_ASSIGN_OR_RETURN(Tensor * shape, ctx.allocate_output(2, Shape{2}));
  std::int64_t* index = indices->data<std::int64_t>();
  std::size_t piece = 0;
  for (std::size_t row = 0; row < ends.size(); ++row) {
    for (std::int64_t column = 0; piece < ends[row]; ++piece, ++column) {
      *index++ = static_cast<std::int64_t>(row);
      *index++ = column;
      values->data<std::string>()[piece] = pieces[piece];
    }
  }
  shape->data<std::int64_t>()[0] = in.num_elements();
  shape->data<std::int64_t>()[1] = static_cast<std::int64_t>(widest);
  return {};
}

class StringSplit : public Kernel {
 public:
  explicit StringSplit(const KernelInit& init) : skip_empty_(init.attr<bool>("skip_empty")) {}
  Status compute(KernelContext& ctx) override {
    const Tensor& delimiter = ctx.input(1);
    if (delimiter.rank() != 0) return invalid_argument("delimiter must be a scalar, got shape: ", delimiter.shape());
    return write_sparse(ctx, [&](std::string_view text, Pieces* pieces) {
      split_at_any(text, delimiter.scalar<std::string>(), skip_empty_, pieces);
    });
  }

 private:
  const bool skip_empty_;
};

class StringSplitV2 : public Kernel {
 public:
  explicit StringSplitV2(const KernelInit& init) : max_splits_(init.attr<std::int64_t>("maxsplit")) {}
  Status compute(KernelContext& ctx) override {
    const Tensor& separator = ctx.input(1);
    if (separator.rank() != 0) return invalid_argument("sep must be a scalar, got shape: ", separator.shape());
    return write_sparse(ctx, [&](std::string_view text, Pieces* pieces) {
      split_at(text, separator.scalar<std::string>(), max_splits_ < 0 ? -1 : max_splits_, pieces);
    });
  }

 private:
  const std::int64_t max_splits_;
};

}  // namespace

KernelFactory string_split_kernel() { return kernel_of<StringSplit>(); }
KernelFactory string_split_v2_kernel() { return kernel_of<StringSplitV2>(); }

}  // namespace tutti::cpu
