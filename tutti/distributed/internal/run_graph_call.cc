#include "tutti/distributed/internal/run_graph_call.h"

#include <utility>

#include "tutti/runtime/held_work.h"

namespace tutti::internal {
namespace {

// Collects values of a table.
class Gathering : public std::enable_shared_from_this<Gathering> {
 public:
  using Done = std::function<void(Status, NamedTensors)>;

  explicit Gathering(Done done) : done_(std::move(done)) {}

  // `wait`: until all are there, or `cancellation` fires. Else those that are not there are an error.
  void start(StepRendezvous& table, const std::vector<std::string>& keys, bool wait, Cancellation& cancellation) {
    {
      MutexLock lock(mu_);
      missing_ = keys.size() + 1;
      values_.resize(keys.size());
    }
    for (std::size_t i = 0; i < keys.size(); ++i) {
      table.recv_local(keys[i], wait ? cancellation : at_once_,
                       [self = shared_from_this(), i, &key = keys[i]](Status status, Tensor value, bool dead) {
                         if (status.ok() && dead) {
                           status = invalid_argument("The tensor returned for ", printable(key),
                                                     " was not valid: it lies on a branch that was not taken");
                         }
                         self->arrived(i, key, std::move(status), std::move(value));
                       });
    }
    if (!wait) {
      at_once_.cancel(
          invalid_argument("a value was asked for that the graph does not send, or that was taken already"));
    }
    arrived(keys.size(), {}, {}, {});
  }

 private:
  // `start` itself is one of those that must arrive, so that nobody is done before all were asked for.
  void arrived(std::size_t i, const std::string& key, Status status, Tensor value) {
    NamedTensors values;
    {
      MutexLock lock(mu_);
      if (!status.ok()) status_.update(status.with_context(printable(key)));
      if (i < values_.size()) values_[i] = {key, std::move(value)};
      if (--missing_ > 0) return;
      status = std::move(status_);
      values.swap(values_);
    }
    done_(std::move(status), std::move(values));
  }

  Cancellation at_once_;
  Mutex mu_;
  std::size_t missing_ TUTTI_GUARDED_BY(mu_) = 0;
  Status status_ TUTTI_GUARDED_BY(mu_);
  NamedTensors values_ TUTTI_GUARDED_BY(mu_);
  const Done done_;
};

}  // namespace

RunGraphCall::RunGraphCall(RunGraphRequest request, WorkerSessions::Part part, std::shared_ptr<Step> step,
                           ReplyDone<RunGraphReply> done)
    : request_(std::move(request)),
      part_(std::move(part)),
      step_(std::move(step)),
      cancel_when_(std::shared_ptr<Cancellation>(step_, &step_->cancellation())),
      done_(std::move(done)) {}

void RunGraphCall::start(const CallOptions& options, Clock& clock, const std::function<void()>& began,
                         std::function<void()> ended) {
  const bool first = step_->claim(part_.session.get());
  if (!first && (!request_.is_partial || step_->session() != part_.session.get()))
    return finish(aborted("step ", step_->id(), " was started here already"));
  if (first) began();
  if (part_.session->removed) {
    const std::string over = str_cat("session ", printable(part_.session->handle), " ended before step ", step_->id(),
                                     " began", part_.session->given_up ? ": its master was lost for a while" : "");
    step_->end(part_.session->given_up ? unavailable(over) : aborted(over));
  }
  if (options.cancellation != nullptr) cancel_when_.cancelled(*options.cancellation);
  if (options.deadline) {
    cancel_when_.reached(clock, *options.deadline,
                         deadline_exceeded("RunGraph of step ", step_->id(), " took longer than it was given"));
  }
  auto self = shared_from_this();
  if (!request_.is_partial) {
    step_->when_run_ended([self](const Status& status) { status.ok() ? self->gather(false) : self->finish(status); });
  }
  Status sent = send_inputs();
  if (first) run(std::move(sent), std::move(ended));
  if (request_.is_partial) gather(true);
}

// An error aborts the step's table, if it was not aborted already: gathering will meet it.
Status RunGraphCall::send_inputs() {
  for (auto& [key, value] : request_.sends) {
    Status status = step_->rendezvous().send(key, std::move(value), false);
    if (!status.ok()) return status;
  }
  return {};
}

void RunGraphCall::run(Status sent, std::function<void()> ended) {
  if (!sent.ok()) {
    step_->run_ended(std::move(sent));
    return ended();
  }
  // A partial call may be answered before the graph has run.
  const bool trace = request_.trace && !request_.is_partial;
  const TaskStep task_step{.id = step_->id(),
                           .rendezvous = &step_->rendezvous(),
                           .cancellation = &step_->cancellation(),
                           .stats = trace ? &reply_.report.step_stats : nullptr};
  if (part_.received) {
    step_->rendezvous().expect(part_.received, [session = part_.session](const std::function<void()>& deliver) {
      const HeldWork held;
      session->task->resume(deliver);
    });
  }
  const HeldWork held;
  part_.session->task->run(part_.graph, task_step,
                           [self = shared_from_this(), ended = std::move(ended)](Status status) {
                             HeldWork::run_all();  // values first: they are waited for
                             self->step_->run_ended(std::move(status));
                             ended();
                           });
}

void RunGraphCall::gather(bool wait) {
  if (request_.recv_keys.empty()) return gathered({}, {});
  auto gathering = std::make_shared<Gathering>([self = shared_from_this()](Status status, NamedTensors values) {
    self->gathered(std::move(status), std::move(values));
  });
  gathering->start(step_->rendezvous(), request_.recv_keys, wait, step_->cancellation());
}

void RunGraphCall::gathered(Status status, NamedTensors values) {
  // What the graph says is the cause of what the table says.
  const Status run = step_->run_status();
  if (!run.ok()) return finish(run);
  if (!status.ok()) return finish(status);
  reply_.recvs = std::move(values);
  if (!request_.is_partial || !request_.is_last_partial_run) return finish({});
  step_->when_run_ended([self = shared_from_this()](const Status& ended) { self->finish(ended); });
}

void RunGraphCall::finish(const Status& status) {
  cancel_when_.stop();
  const ReplyDone<RunGraphReply> done = std::move(done_);
  if (!status.ok()) return done(status);
  if (request_.partition_graphs) reply_.report.partition_graphs.push_back(part_.graph->graph_def());
  done(std::move(reply_));
}

}  // namespace tutti::internal
