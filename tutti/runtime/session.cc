#include "tutti/runtime/session.h"

namespace tutti {
namespace {

// Waits for one callback. The run usually ends before wait(), on the same thread, and nothing sleeps.
class Waiter {
 public:
  Session::Done done() {
    return [this](Status status, std::vector<Tensor> values) {
      MutexLock lock(mu_);
      status_ = std::move(status);
      values_ = std::move(values);
      called_ = true;
      changed_.notify_one();
    };
  }
  Result<std::vector<Tensor>> wait() {
    MutexLock lock(mu_);
    while (!called_) changed_.wait(mu_);
    if (!status_.ok()) return std::move(status_);
    return std::move(values_);
  }

 private:
  Mutex mu_;
  CondVar changed_;
  bool called_ TUTTI_GUARDED_BY(mu_) = false;
  Status status_ TUTTI_GUARDED_BY(mu_);
  std::vector<Tensor> values_ TUTTI_GUARDED_BY(mu_);
};

std::vector<Tensor> values_of(const Feeds& feeds) {
  std::vector<Tensor> values;
  values.reserve(feeds.size());
  for (const auto& [name, value] : feeds) values.push_back(value);
  return values;
}

}  // namespace

std::vector<Tensor> Session::run(const Feeds& feeds, const std::vector<TensorName>& fetches,
                                 const std::vector<NodeName>& targets, const RunOptions& options) {
  return try_run(feeds, fetches, targets, options).value_or_throw();
}

Result<std::vector<Tensor>> Session::try_run(const Feeds& feeds, const std::vector<TensorName>& fetches,
                                             const std::vector<NodeName>& targets, const RunOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(Known* const known, callable_for(feeds, fetches, targets));
  Result<std::vector<Tensor>> values = run_callable(known->callable, values_of(feeds), options);
  count_out(*known);
  return values;
}

Result<std::vector<Tensor>> Session::run_callable(CallableId callable, std::vector<Tensor> feeds,
                                                  const RunOptions& options) {
  Waiter waiter;
  run_callable_async(callable, std::move(feeds), options, waiter.done());
  return waiter.wait();
}

void Session::run_async(const Feeds& feeds, const std::vector<TensorName>& fetches,
                        const std::vector<NodeName>& targets, const RunOptions& options, Done done) {
  Result<Known*> known = callable_for(feeds, fetches, targets);
  if (!known.ok()) return done(known.status(), {});
  run_callable_async((*known)->callable, values_of(feeds), options,
                     [this, known = *known, done = std::move(done)](Status status, std::vector<Tensor> values) {
                       count_out(*known);
                       done(std::move(status), std::move(values));
                     });
}

Result<Session::Known*> Session::callable_for(const Feeds& feeds, const std::vector<TensorName>& fetches,
                                              const std::vector<NodeName>& targets) {
  // Names may hold any byte, so each is preceded by its length.
  std::string key;
  auto append = [&key](const std::string& name) {
    const std::size_t size = name.size();
    key.append(reinterpret_cast<const char*>(&size), sizeof size);
    key += name;
  };
  for (const auto& [name, value] : feeds) append(name.str());
  key += "->";
  for (const TensorName& name : fetches) append(name.str());
  key += "->";
  for (const NodeName& name : targets) append(name.str());
  {
    MutexLock lock(signatures_mu_);
    auto it = signatures_.find(key);
    if (it != signatures_.end()) {
      Known& known = it->second;
      ++known.runs;
      by_use_.splice(by_use_.begin(), by_use_, known.last_used);
      return &known;
    }
  }
  Signature signature;
  for (const auto& [name, value] : feeds) signature.feeds.push_back(name.str());
  for (const TensorName& name : fetches) signature.fetches.push_back(name.str());
  for (const NodeName& name : targets) signature.targets.push_back(name.str());
  TUTTI_ASSIGN_OR_RETURN(CallableId callable, make_callable(signature));
  return add_known(std::move(key), callable);
}

Session::Known* Session::add_known(std::string key, CallableId callable) {
  Known* known = nullptr;
  std::vector<CallableId> unused;
  {
    MutexLock lock(signatures_mu_);
    const auto [it, is_new] = signatures_.try_emplace(std::move(key));
    known = &it->second;
    ++known->runs;
    if (is_new) {
      known->callable = callable;
      known->last_used = by_use_.insert(by_use_.begin(), &it->first);
    } else {  // another thread has compiled it at the same time
      unused.push_back(callable);
    }
    for (auto oldest = by_use_.end(); signatures_.size() > kMaxSignatures && oldest != by_use_.begin();) {
      const auto found = signatures_.find(**--oldest);
      if (found->second.runs > 0) continue;
      unused.push_back(found->second.callable);
      oldest = by_use_.erase(oldest);
      signatures_.erase(found);
    }
  }
  for (const CallableId one : unused) static_cast<void>(release_callable(one));
  return known;
}

void Session::count_out(Known& known) {
  MutexLock lock(signatures_mu_);
  --known.runs;
}

}  // namespace tutti
