// A worker that trains on parameter servers, as a thread: the base of a program's own kind of worker.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "tutti/core/cancellation.h"
#include "tutti/core/clock.h"
#include "tutti/core/mutex.h"
#include "tutti/distributed/cluster_spec.h"
#include "tutti/graph/graph.h"
#include "tutti/runtime/session.h"
#include "tutti/train/coordinator.h"
#include "tutti/train/session_creator.h"

namespace tutti {

struct PSWorkerOptions {
  ClusterSpec cluster;
  bool is_chief = false;  // initialises or restores the variables; the others wait for that
  std::string job_name = "worker";
  int task_index = 0;
  // The session: its master (empty: this task's own address in the cluster), scaffold, checkpoint, time limits. Its
  // environment's cancellation, where there is one, ends the worker too.
  SessionCreatorOptions session;
  // What steps get to end by themselves when the worker is stopped, before kDeadlineExceeded. The destructor waits for
  // those that take longer all the same: they use the worker.
  Duration stop_grace_period = std::chrono::seconds(120);
};

// A subclass says what the graph is and what a step does:
//
//   class Trainer : public PSWorker {
//    public:
//     using PSWorker::PSWorker;
//     ~Trainer() override { finish(); }
//    private:
//     void build(Graph& graph) override { ... }
//     bool step(Session& session, const RunOptions& options) override {
//       session.run(feeds, {loss_}, {train_}, options);
//       return ++steps_ < 1000;
//     }
//   };
//
//   Trainer trainer(options);
//   trainer.start();       the session is ready, steps run on a thread
//   trainer.stop();        also while one is in flight
//
// Thread-safe. What fails throws Error.
class PSWorker {
 public:
  explicit PSWorker(PSWorkerOptions options);
  // REQUIRES: it does not run. A subclass's destructor calls finish(): its members go before this one's thread could.
  virtual ~PSWorker();
  PSWorker(const PSWorker&) = delete;
  PSWorker& operator=(const PSWorker&) = delete;

  // Builds the graph, makes the session (the chief initialises, others wait for it) and starts the steps. Once. What is
  // called meanwhile (build, a log) may call stop(), which returns at once: this throws then, or no step runs.
  void start();
  // Ends the steps, those in flight by cancellation, and closes the session; ends a start() and a join() of another
  // thread too. Throws what a step had failed with before, once. For good, and idempotent. Not to be called by a step:
  // that returns false, or asks the coordinator to stop.
  void stop();
  // Waits until a step has returned false, failed, or asked to stop; then as stop().
  void join();

  // REQUIRES: start() has returned.
  Session& session() { return *session_; }
  // What the session is made with.
  const SessionCreatorOptions& config() const { return options_.session; }
  Coordinator& coordinator() { return coordinator_; }
  Graph& graph() { return graph_; }
  const ClusterSpec& cluster() const { return options_.cluster; }
  bool is_chief() const { return options_.is_chief; }
  int task_index() const { return options_.task_index; }
  // "/job:worker/replica:0/task:1"
  std::string name() const;

 protected:
  // For Graph::device_scope: variables on the parameter servers in turn, the rest on this task.
  DeviceFunction device() const;
  // Adds nodes to the graph; called once, by start().
  virtual void build(Graph& graph) = 0;
  // One step; `options` carry the cancellation that stop() uses. False: there is no other. What it throws ends the
  // worker: kOutOfRange, the end of the data, is no error.
  virtual bool step(Session& session, const RunOptions& options) = 0;
  // stop() for destructors: drops errors, and waits for the last step however long that takes.
  void finish() noexcept;

 private:
  enum class State { kNew, kStarting, kRunning, kEnded };

  void begin_start();
  void end_start(State state);
  std::unique_ptr<Session> make_session();
  void run_steps();
  // Waits for the steps and closes.
  void end();
  bool runs();
  void wait_for_last_step();

  const PSWorkerOptions options_;
  Graph graph_;
  Cancellation cancellation_;
  Coordinator coordinator_;
  std::unique_ptr<SessionCreator> creator_;
  std::unique_ptr<Session> session_;
  Mutex mu_;  // held while the worker ends
  CondVar started_;
  State state_ TUTTI_GUARDED_BY(mu_) = State::kNew;
  std::thread::id starter_ TUTTI_GUARDED_BY(mu_);  // in kStarting
};

}  // namespace tutti
