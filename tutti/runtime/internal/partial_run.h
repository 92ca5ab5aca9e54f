// A step that is fed and fetched in several calls.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tutti/graph/subgraph.h"
#include "tutti/runtime/local_rendezvous.h"
#include "tutti/runtime/session.h"

namespace tutti::internal {

// The body's arguments become receives and its results sends, over a rendezvous of the run's own; the step starts
// at once and waits where it must. Thread-safe.
class PartialRun {
 public:
  // Rewrites `body` so. `device` names both ends of the keys.
  static Result<std::unique_ptr<PartialRun>> create(const Signature& signature, FunctionBody& body,
                                                    const std::string& device);

  Rendezvous& rendezvous() { return rendezvous_; }
  // Aborts the rendezvous when `step` is cancelled; to be called before the step starts.
  void watch(Cancellation& step);
  // The step has ended.
  void end(Cancellation& step, Status status);

  // Gives feeds, then waits for fetches. Errors name the feed or fetch that is unknown, came twice, does not fit, still
  // needs a feed that was not given, or lies on an untaken branch. Once every feed was given and every fetch taken,
  // waits for the step's end too and gives its status.
  Result<std::vector<Tensor>> run(const Feeds& feeds, const std::vector<TensorName>& fetches);
  // Nothing more can come of it.
  bool over() const;

 private:
  struct Feed {
    std::string key;  // of the rendezvous
    DType dtype;
    PartialShape shape;
  };
  struct Fetch {
    std::string key;
    std::set<std::string> needs;  // feeds
  };

  PartialRun() = default;
  Status check(const Feeds& feeds, const std::vector<TensorName>& fetches) TUTTI_REQUIRES(mu_);
  Result<std::vector<Tensor>> receive(const std::vector<TensorName>& fetches);
  bool complete() const TUTTI_REQUIRES(mu_) {
    return given_.size() == feeds_.size() && taken_.size() == fetches_.size();
  }

  std::map<std::string, Feed> feeds_;
  std::map<std::string, Fetch> fetches_;
  Cancellation waiting_;  // of those who wait for fetches; before rendezvous_, which answers them when it goes
  LocalRendezvous rendezvous_;
  Cancellation::Token token_ = 0;

  mutable Mutex mu_;
  CondVar changed_;
  bool ended_ TUTTI_GUARDED_BY(mu_) = false;
  Status status_ TUTTI_GUARDED_BY(mu_);
  std::set<std::string> given_ TUTTI_GUARDED_BY(mu_);
  std::set<std::string> taken_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace tutti::internal
