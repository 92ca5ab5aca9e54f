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
  TUTTI_ASSIGN_OR_RETURN(const CallableId callable, callable_for(feeds, fetches, targets));
  return run_callable(callable, values_of(feeds), options);
}

Result<std::vector<Tensor>> Session::run_callable(CallableId callable, std::vector<Tensor> feeds,
                                                  const RunOptions& options) {
  Waiter waiter;
  run_callable_async(callable, std::move(feeds), options, waiter.done());
  return waiter.wait();
}

void Session::run_async(const Feeds& feeds, const std::vector<TensorName>& fetches,
                        const std::vector<NodeName>& targets, const RunOptions& options, Done done) {
  Result<CallableId> callable = callable_for(feeds, fetches, targets);
  if (!callable.ok()) return done(callable.status(), {});
  run_callable_async(*callable, values_of(feeds), options, std::move(done));
}

Result<Session::CallableId> Session::callable_for(const Feeds& feeds, const std::vector<TensorName>& fetches,
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
    if (it != signatures_.end()) return it->second;
  }
  Signature signature;
  for (const auto& [name, value] : feeds) signature.feeds.push_back(name.str());
  for (const TensorName& name : fetches) signature.fetches.push_back(name.str());
  for (const NodeName& name : targets) signature.targets.push_back(name.str());
  TUTTI_ASSIGN_OR_RETURN(CallableId callable, make_callable(signature));
  CallableId kept = 0;
  {
    MutexLock lock(signatures_mu_);
    kept = signatures_.emplace(std::move(key), callable).first->second;
  }
  // Two threads may compile the same signature at once. The second to come uses the first's; that its own cannot be
  // released, the session being closed say, is nothing that its run should fail of.
  if (kept != callable) static_cast<void>(release_callable(callable));
  return kept;
}

}  // namespace tutti
