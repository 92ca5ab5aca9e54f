#include "tutti/train/internal/hooked_run.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace tutti::internal {
namespace {

std::string_view without_index(std::string_view name) {
  return name.ends_with(":0") ? name.substr(0, name.size() - 2) : name;
}
bool same_tensor(const TensorName& a, const TensorName& b) { return without_index(a.str()) == without_index(b.str()); }

// The run that everybody's wishes make together.
class Merged {
 public:
  explicit Merged(const StepRequest& request)
      : feeds_(request.feeds),
        fetches_(request.fetches),
        targets_(request.targets),
        options_(request.options),
        user_feeds_(request.feeds.size()) {}

  void add(const RunArgs& args) {
    std::vector<std::size_t>& places = places_.emplace_back();
    for (const TensorName& fetch : args.fetches) places.push_back(place_of(fetch));
    for (const auto& [name, value] : args.feeds) add_feed(name, value);
    targets_.insert(targets_.end(), args.targets.begin(), args.targets.end());
    options_.timeout = std::max(options_.timeout, args.timeout);
    trace_ = trace_ || args.trace;
  }
  void add_nothing() { places_.emplace_back(); }

  void run(Session& session) {
    if (trace_ && options_.metadata == nullptr) options_.metadata = &metadata_;
    values_ = session.run(feeds_, fetches_, targets_, options_);
  }

  RunValues values_of(std::size_t hook) const {
    RunValues values{.results = {}, .options = options_, .metadata = options_.metadata};
    for (const std::size_t place : places_[hook]) values.results.push_back(values_[place]);
    return values;
  }
  std::vector<Tensor> take_first(std::size_t count) {
    values_.resize(count);
    return std::move(values_);
  }

 private:
  std::size_t place_of(const TensorName& fetch) {
    const auto known = std::find_if(fetches_.begin(), fetches_.end(),
                                    [&](const TensorName& other) { return same_tensor(fetch, other); });
    const auto place = static_cast<std::size_t>(known - fetches_.begin());
    if (known == fetches_.end()) fetches_.push_back(fetch);
    return place;
  }
  void add_feed(const TensorName& name, const Tensor& value) {
    const auto known =
        std::find_if(feeds_.begin(), feeds_.end(), [&](const auto& feed) { return same_tensor(feed.first, name); });
    if (known != feeds_.end()) {
      const bool users = static_cast<std::size_t>(known - feeds_.begin()) < user_feeds_;
      throw_error(invalid_argument(
          users ? "Same tensor is fed by a SessionRunHook and user: " : "Same tensor is fed by two hooks: ",
          name.str()));
    }
    feeds_.emplace_back(name, value);
  }

  Feeds feeds_;
  std::vector<TensorName> fetches_;
  std::vector<NodeName> targets_;
  RunOptions options_;
  const std::size_t user_feeds_;
  bool trace_ = false;
  RunMetadata metadata_;
  std::vector<std::vector<std::size_t>> places_;  // of each hook's fetches among all
  std::vector<Tensor> values_;
};

}  // namespace

StepOutcome run_with_hooks(Session& session, const std::vector<Hook>& hooks, const StepRequest& request) {
  RunContext context(session, {request.feeds, request.fetches, request.targets});
  Merged merged(request);
  for (const Hook& hook : hooks) {
    const std::optional<RunArgs> args = hook->before_run(context);
    args ? merged.add(*args) : merged.add_nothing();
  }
  merged.run(session);
  for (std::size_t i = 0; i < hooks.size(); ++i) hooks[i]->after_run(context, merged.values_of(i));
  return {merged.take_first(request.fetches.size()), context.stop_requested()};
}

}  // namespace tutti::internal
