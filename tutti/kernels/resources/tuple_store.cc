#include "tutti/kernels/resources/tuple_store.h"

#include <deque>
#include <iterator>
#include <map>
#include <random>
#include <utility>

#include "tutti/kernels/cpu/philox.h"

namespace tutti {

namespace {

class FifoStore : public TupleStore {
 public:
  std::size_t size() const override { return tuples_.size(); }
  void add(TensorTuple tuple) override { tuples_.push_back(std::move(tuple)); }
  TensorTuple take() override {
    TensorTuple tuple = std::move(tuples_.front());
    tuples_.pop_front();
    return tuple;
  }
  void give_back(std::vector<TensorTuple> tuples) override {
    tuples_.insert(tuples_.begin(), std::make_move_iterator(tuples.begin()), std::make_move_iterator(tuples.end()));
  }

 private:
  std::deque<TensorTuple> tuples_;
};

cpu::Philox seeded(std::int64_t seed, std::int64_t seed2) {
  if (seed != 0 || seed2 != 0) return {static_cast<std::uint64_t>(seed), static_cast<std::uint64_t>(seed2)};
  std::random_device entropy;
  const std::uint64_t key = (std::uint64_t{entropy()} << 32) | entropy();
  return {key, (std::uint64_t{entropy()} << 32) | entropy()};
}

class ShuffledStore : public TupleStore {
 public:
  ShuffledStore(std::int64_t seed, std::int64_t seed2) : words_(seeded(seed, seed2)) {}
  std::size_t size() const override { return tuples_.size(); }
  void add(TensorTuple tuple) override { tuples_.push_back(std::move(tuple)); }
  // The last one fills the gap: which tuple a word means depends on it, so TensorFlow's way is kept.
  TensorTuple take() override {
    const std::size_t at = words_.next() % tuples_.size();
    std::swap(tuples_[at], tuples_.back());
    TensorTuple tuple = std::move(tuples_.back());
    tuples_.pop_back();
    return tuple;
  }
  void give_back(std::vector<TensorTuple> tuples) override {
    for (TensorTuple& tuple : tuples) add(std::move(tuple));
  }

 private:
  cpu::PhiloxWords words_;
  std::vector<TensorTuple> tuples_;
};

class PriorityStore : public TupleStore {
 public:
  std::size_t size() const override { return tuples_.size(); }
  void add(TensorTuple tuple) override {
    const std::int64_t priority = tuple[0].scalar<std::int64_t>();
    tuples_.emplace(priority, std::move(tuple));  // behind its equals
  }
  TensorTuple take() override {
    TensorTuple tuple = std::move(tuples_.begin()->second);
    tuples_.erase(tuples_.begin());
    return tuple;
  }
  void give_back(std::vector<TensorTuple> tuples) override {
    for (auto tuple = tuples.rbegin(); tuple != tuples.rend(); ++tuple) {
      const std::int64_t priority = (*tuple)[0].scalar<std::int64_t>();
      tuples_.emplace_hint(tuples_.lower_bound(priority), priority, std::move(*tuple));  // before its equals
    }
  }

 private:
  std::multimap<std::int64_t, TensorTuple> tuples_;
};

}  // namespace

std::unique_ptr<TupleStore> make_fifo_store() { return std::make_unique<FifoStore>(); }
std::unique_ptr<TupleStore> make_shuffled_store(std::int64_t seed, std::int64_t seed2) {
  return std::make_unique<ShuffledStore>(seed, seed2);
}
std::unique_ptr<TupleStore> make_priority_store() { return std::make_unique<PriorityStore>(); }

}  // namespace tutti
