#include "tutti/distributed/internal/partial_step.h"

#include <algorithm>

#include "tutti/distributed/internal/call_watch.h"
#include "tutti/distributed/internal/master_step.h"

namespace tutti::internal {
namespace {

int index_of(const std::vector<std::string>& names, const std::string& name) {
  auto it = std::lower_bound(names.begin(), names.end(), name);
  return it == names.end() || *it != name ? -1 : static_cast<int>(it - names.begin());
}

bool all(const std::vector<bool>& flags) { return std::find(flags.begin(), flags.end(), false) == flags.end(); }

}  // namespace

// One call of the client.
struct PartialStep::Round {
  Round(Clock& clock, Cancellation* cancellation, std::optional<TimePoint> deadline)
      : watch(clock, cancellation, deadline) {}
  CallWatch watch;
  std::shared_ptr<PartsRun> parts;
  std::vector<int> fetches;
  std::vector<const CompiledPart*> called;
  std::vector<std::vector<std::string>> recv_keys;  // of each part that was called
  std::vector<std::vector<int>> recv_fetches;       // the fetch that each is
  Done done;
};

PartialStep::PartialStep(std::shared_ptr<MasterContext> context, std::string session, Signature names,
                         std::shared_ptr<CompiledStep> compiled)
    : context_(std::move(context)),
      session_(std::move(session)),
      names_(std::move(names)),
      compiled_(std::move(compiled)),
      id_(context_->ids.step_id()),
      given_(names_.feeds.size(), false),
      taken_(names_.fetches.size(), false) {}

Result<PartialStep::Asked> PartialStep::check(const NamedTensors& feeds,
                                              const std::vector<std::string>& fetches) const {
  if (over_) return status_.ok() ? failed_precondition("the partial run is over") : status_;
  Asked asked;
  std::vector<bool> given = given_;
  for (const auto& [name, value] : feeds) {
    const int index = index_of(names_.feeds, tensor_name(name));
    if (index < 0) return invalid_argument("The feed ", printable(name), " was not specified in partial_run_setup.");
    if (given[index]) return invalid_argument("The feed ", printable(name), " has already been fed.");
    TUTTI_RETURN_IF_ERROR(compiled_->check_feed(index, value));
    given[index] = true;
    asked.feeds.emplace(index, value);
  }
  std::vector<bool> taken = taken_;
  for (const std::string& name : fetches) {
    const int index = index_of(names_.fetches, tensor_name(name));
    if (index < 0) return invalid_argument("The fetch ", printable(name), " was not specified in partial_run_setup.");
    if (taken[index]) return invalid_argument("The fetch ", printable(name), " has already been fetched.");
    for (int feed : compiled_->needs()[index]) {
      if (given[feed]) continue;
      return invalid_argument("Fetch ", printable(name),
                              " can't be computed from the feeds that have been fed so far: ",
                              printable(names_.feeds[feed]), " is missing.");
    }
    taken[index] = true;
    asked.fetches.push_back(index);
  }
  return asked;
}

std::vector<PartsRun::Call> PartialStep::make_calls(const Asked& asked) {
  for (const auto& [index, value] : asked.feeds) given_[index] = true;
  for (int index : asked.fetches) taken_[index] = true;
  const bool last = all(given_) && all(taken_);
  const bool everywhere = last || !started_;
  started_ = true;
  std::vector<PartsRun::Call> calls;
  for (const CompiledPart& part : compiled_->parts()) {
    RunGraphRequest request{.session_handle = session_,
                            .create_worker_session_called = true,
                            .graph_handle = part.graph_handle,
                            .step_id = id_,
                            .sends = {},
                            .recv_keys = {},
                            .is_partial = true,
                            .is_last_partial_run = last,
                            .store_errors_in_response_body = true,
                            .request_id = context_->ids.request_id()};
    for (const auto& [index, key] : part.feeds) {
      if (auto it = asked.feeds.find(index); it != asked.feeds.end()) request.sends.emplace_back(key, it->second);
    }
    for (std::size_t i = 0; i < part.fetches.size(); ++i) {
      if (std::find(asked.fetches.begin(), asked.fetches.end(), part.fetches[i]) != asked.fetches.end()) {
        request.recv_keys.push_back(part.recv_keys[i]);
      }
    }
    if (everywhere || !request.sends.empty() || !request.recv_keys.empty())
      calls.push_back({&part, std::move(request)});
  }
  return calls;
}

void PartialStep::run(const NamedTensors& feeds, const std::vector<std::string>& fetches, Cancellation* cancellation,
                      std::optional<TimePoint> deadline, Done done) {
  auto self = shared_from_this();
  auto round = std::make_shared<Round>(*context_->clock, cancellation, deadline);
  Status refused;
  {
    MutexLock lock(mu_);
    Result<Asked> asked = check(feeds, fetches);
    if (!asked.ok()) {
      refused = asked.status();
    } else {
      std::vector<PartsRun::Call> calls = make_calls(*asked);
      round->fetches = asked->fetches;
      for (const PartsRun::Call& call : calls) {
        round->called.push_back(call.part);
        round->recv_keys.push_back(call.request.recv_keys);
        std::vector<int> indices;
        for (const std::string& key : call.request.recv_keys) {
          const auto& keys = call.part->recv_keys;
          indices.push_back(call.part->fetches[std::find(keys.begin(), keys.end(), key) - keys.begin()]);
        }
        round->recv_fetches.push_back(std::move(indices));
      }
      if (!calls.empty()) {
        round->parts = std::make_shared<PartsRun>(compiled_, std::move(calls),
                                                  [self, round](Status status, std::vector<RunGraphReply> replies) {
                                                    self->end_round(round, std::move(status), std::move(replies));
                                                  });
        rounds_.insert(round->parts);
      }
    }
  }
  if (!refused.ok() || round->parts == nullptr) return done(refused, {});
  round->done = std::move(done);
  std::shared_ptr<PartsRun> parts = round->parts;
  const TimePoint start = context_->clock->now();
  round->watch.start(
      [parts](Status cause) { parts->cancel(std::move(cause)); },
      [parts, start, clock = context_->clock] {
        parts->cancel(deadline_exceeded("the partial run did not answer within ", milliseconds(clock->now() - start),
                                        ": still running on ", str_join(parts->running(), ", ")));
      });
  parts->start();
}

void PartialStep::end_round(const std::shared_ptr<Round>& round, Status status, std::vector<RunGraphReply> replies) {
  round->watch.stop();
  std::map<int, Tensor> values;
  for (std::size_t i = 0; i < replies.size() && status.ok(); ++i) {
    status =
        take_values(*round->called[i], round->recv_keys[i], replies[i].recvs,
                    [&](std::size_t index, Tensor value) { values[round->recv_fetches[i][index]] = std::move(value); });
  }
  bool finished = false;
  {
    MutexLock lock(mu_);
    rounds_.erase(round->parts);
    finished = !over_ && status.ok() && rounds_.empty() && all(given_) && all(taken_);
    if (finished) over_ = true;
  }
  if (finished) clean_up(*context_, *compiled_, id_, false);
  if (!status.ok()) end_by(status);
  round->parts.reset();  // which owns this
  std::vector<Tensor> fetches;
  if (status.ok()) {
    for (int index : round->fetches) fetches.push_back(values[index]);
  }
  std::exchange(round->done, nullptr)(std::move(status), std::move(fetches));
}

void PartialStep::end_by(const Status& cause) {
  std::set<std::shared_ptr<PartsRun>> rounds;
  {
    MutexLock lock(mu_);
    if (over_) return;
    over_ = true;
    status_ = cause;
    rounds = rounds_;
  }
  for (const auto& round : rounds) round->cancel(cause);
  clean_up(*context_, *compiled_, id_, true);
}

void PartialStep::cancel(Status cause) { end_by(cause); }

bool PartialStep::over() const {
  MutexLock lock(mu_);
  return over_;
}

}  // namespace tutti::internal
