// A step that a client feeds and fetches in several calls.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tutti/distributed/internal/master_context.h"
#include "tutti/distributed/internal/parts_run.h"
#include "tutti/distributed/internal/step_signature.h"

namespace tutti::internal {

// Open -> over: when every feed was given and every fetch taken, by the first failure, or by cancel(). The first call
// starts all parts, the last waits for all of them. Thread-safe.
class PartialStep : public std::enable_shared_from_this<PartialStep> {
 public:
  // Values in the order of the fetches asked for.
  using Done = std::function<void(Status, std::vector<Tensor>)>;

  // REQUIRES: `compiled`, of the signature `names`, is registered.
  PartialStep(std::shared_ptr<MasterContext> context, std::string session, Signature names,
              std::shared_ptr<CompiledStep> compiled);

  // `done` runs exactly once, possibly before this returns. Errors name the feed or fetch that is unknown, came
  // before, does not fit or needs a feed that was not given; they do not end the step.
  void run(const NamedTensors& feeds, const std::vector<std::string>& fetches, Cancellation* cancellation,
           std::optional<TimePoint> deadline, Done done);
  void cancel(Status cause);
  bool over() const;
  bool uses(const std::string& task) const { return compiled_->uses(task); }

 private:
  struct Round;
  struct Asked {
    std::map<int, Tensor> feeds;  // by index in the signature
    std::vector<int> fetches;
  };
  Result<Asked> check(const NamedTensors& feeds, const std::vector<std::string>& fetches) const TUTTI_REQUIRES(mu_);
  std::vector<PartsRun::Call> make_calls(const Asked& asked) TUTTI_REQUIRES(mu_);
  void end_round(const std::shared_ptr<Round>& round, Status status, std::vector<RunGraphReply> replies);
  void end_by(const Status& cause);

  const std::shared_ptr<MasterContext> context_;
  const std::string session_;
  const Signature names_;
  const std::shared_ptr<CompiledStep> compiled_;
  const std::int64_t id_;

  mutable Mutex mu_;
  std::vector<bool> given_ TUTTI_GUARDED_BY(mu_);
  std::vector<bool> taken_ TUTTI_GUARDED_BY(mu_);
  bool started_ TUTTI_GUARDED_BY(mu_) = false;
  bool over_ TUTTI_GUARDED_BY(mu_) = false;
  Status status_ TUTTI_GUARDED_BY(mu_);  // why it is over, where not by success
  std::set<std::shared_ptr<PartsRun>> rounds_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace tutti::internal
