// Variants that take much of a reader's budget, and how much.
#pragma once

#include <string>
#include <vector>

#include "tests/support/variant_values.h"
#include "tutti/graph/variant_data.h"

namespace tutti::testing {

inline std::vector<Tensor> variants_to_count() {
  std::vector<Tensor> tensors = variant_samples();
  tensors.push_back(list_of(DType::kFloat, PartialShape(), std::vector<Tensor>(50, Tensor::scalar(1.f))));
  tensors.push_back(list_of(DType::kFloat, PartialShape(), std::vector<Tensor>(200)));
  tensors.push_back(list_of(DType::kInt64, PartialShape(), {counted(DType::kInt64, {20'000}), Tensor()}));
  std::vector<std::string> words(100);
  words.back() = std::string(10'000, 'x');
  tensors.push_back(list_of(DType::kString, PartialShape(), {Tensor::vector<std::string>(words)}));
  tensors.push_back(Tensor(DType::kVariant, {300}));
  tensors.push_back(optional_of({Tensor(DType::kVariant, {300}), Tensor(DType::kVariant, {10})}));
  // The same ones many times.
  tensors.push_back(list_of(DType::kVariant, PartialShape(), std::vector<Tensor>(20, tensors[8])));
  return tensors;
}

// Of a reader's budgets, the smallest for which these may be written.
inline std::int64_t smallest_budget(const Tensor& variants) {
  std::int64_t refused = -1, enough = ExpansionBudget().bytes_left;
  while (enough - refused > 1) {
    const std::int64_t middle = refused + (enough - refused) / 2;
    (check_writable(variants, {.bytes_left = middle}).ok() ? enough : refused) = middle;
  }
  return enough;
}

}  // namespace tutti::testing
