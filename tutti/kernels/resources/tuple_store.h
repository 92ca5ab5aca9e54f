// Where a queue keeps its tuples, and in which order it gives them out.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tutti/core/tensor.h"

namespace tutti {

using TensorTuple = std::vector<Tensor>;

// Not thread-safe: its queue guards it.
class TupleStore {
 public:
  virtual ~TupleStore() = default;
  virtual std::size_t size() const = 0;
  virtual void add(TensorTuple tuple) = 0;
  // REQUIRES: size() > 0
  virtual TensorTuple take() = 0;
  // Undoes several `take`s, given in their order.
  virtual void give_back(std::vector<TensorTuple> tuples) = 0;
};

// First in, first out.
std::unique_ptr<TupleStore> make_fifo_store();
// Any tuple, the same ones as TensorFlow for the same seeds. Seeds of 0 and 0: different ones in every store.
std::unique_ptr<TupleStore> make_shuffled_store(std::int64_t seed, std::int64_t seed2);
// The least first component, an int64 scalar; first in, first out among equals.
std::unique_ptr<TupleStore> make_priority_store();

}  // namespace tutti
