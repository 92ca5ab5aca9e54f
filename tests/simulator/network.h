// A network in one thread and in simulated time: calls are delayed, reordered, repeated, lost and cut off as a seed
// says.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>

#include "tutti/core/clock.h"
#include "tutti/transport/channel.h"

namespace tutti::sim {

struct NetworkOptions {
  Duration least_delay = std::chrono::microseconds(50);
  Duration most_delay = std::chrono::milliseconds(2);
  double repeated = 0.05;                                // of requests arrive twice, some of them late
  double late = 0.01;                                    // of requests are on their way for up to `most_late`
  Duration most_late = std::chrono::milliseconds(1000);  // shorter than workers remember steps
  double lost = 0.01;                                    // of connections break between a request and its reply
  // After so long on a link that is cut, a connection is given up.
  Duration keepalive = std::chrono::seconds(2);
};

// Calls go through it as bytes, cut into random pieces. What a process has sent before it crashed still arrives; what
// it would say afterwards is never heard, and its calls have ended. A request that arrives a second time may do so at a
// later process of the same name. Not thread-safe; must outlive its channels' calls.
class Network {
 public:
  Network(ManualClock& clock, std::mt19937_64& random, NetworkOptions options);
  ~Network();

  // A process begins to listen. `handler` must outlive its crash.
  void start(const std::string& task, CallHandler& handler);
  // Everything that it was doing ends: its callers hear kUnavailable, its own calls end with kCancelled. Also for those
  // that never listened.
  void crash(const std::string& task);
  bool listens(const std::string& task) const { return processes_.contains(task); }
  // Nothing passes between the two, in either direction, until heal().
  void cut(const std::string& a, const std::string& b);
  void heal();
  // From now on nothing new is repeated, late or lost.
  void calm();

  // From `from`, which need not listen (a client), to whatever listens as `to`.
  std::shared_ptr<Channel> channel(const std::string& from, const std::string& to);

  std::int64_t calls() const { return next_call_; }

 private:
  friend class SimChannel;
  struct Call;
  using CallPtr = std::shared_ptr<Call>;

  Duration delay();
  bool chance(double probability);
  bool passes(const std::string& a, const std::string& b) const;
  void later(Duration delay, std::function<void()> event);

  Duration lateness();
  void begin(const CallPtr& call);
  void arrive(const CallPtr& call);
  void arrive_again(const CallPtr& call);
  void serve(const CallPtr& call, bool repeated);
  void withdraw(const CallPtr& call, const Status& cause);
  void answer(const CallPtr& call, Status status, Payload reply);
  void fail_after_delay(const CallPtr& call, Status status);
  void finish(const CallPtr& call, Status status, Payload reply);
  void abandon(const CallPtr& call, const Status& cause);
  Payload shredded(const std::string& bytes);

  ManualClock& clock_;
  std::mt19937_64& random_;
  NetworkOptions options_;
  std::int64_t next_call_ = 0;
  struct Process {
    CallHandler* handler;
    std::int64_t life;  // of all that ever started, which
  };
  std::map<std::string, Process> processes_;
  std::int64_t next_life_ = 1;
  std::set<std::string> dead_;  // crashed and not started since
  std::set<std::pair<std::string, std::string>> cuts_;
  std::map<std::int64_t, CallPtr> open_;  // not finished at their callers
  std::map<std::int64_t, CallPtr> being_served_;
};

}  // namespace tutti::sim
