#include "network.h"

#include <algorithm>
#include <utility>

namespace tutti::sim {

// One call, from its caller to its server and back. The two ends end by themselves: each side may be gone first.
struct Network::Call {
  std::int64_t id = 0;
  std::string from, to, method, request;
  CallOptions options;
  Channel::Done done;                 // null once finished
  Cancellation::Token cancelled = 0;  // with options.cancellation
  Clock::TimerId deadline = 0;
  TimePoint begun;
  std::int64_t server_life = 0;  // 0: not there yet
  // At a server, until the reply. A request that came twice is served twice.
  struct Serving {
    std::shared_ptr<Cancellation> cancellation;
    std::int64_t life;
  };
  std::map<bool, Serving> serving;
  Status withdrawn;  // the caller's cancellation has overtaken the request
};

class SimChannel : public Channel {
 public:
  SimChannel(Network& network, std::string from, std::string to)
      : network_(network), from_(std::move(from)), to_(std::move(to)) {}

  ~SimChannel() override {
    std::vector<Network::CallPtr> mine;
    for (const auto& [id, call] : network_.open_) {
      if (calls_.contains(id)) mine.push_back(call);
    }
    for (const auto& call : mine) network_.abandon(call, cancelled("the channel to ", to_, " was destroyed"));
  }

  void call(std::string_view method, Payload request, const CallOptions& options, Done done) override {
    auto call = std::make_shared<Network::Call>();
    call->id = network_.next_call_++;
    call->from = from_;
    call->to = to_;
    call->method = method;
    call->request = request.flatten();
    call->options = options;
    call->done = std::move(done);
    call->begun = network_.clock_.now();
    calls_.insert(call->id);
    network_.begin(call);
  }

  std::string describe() const override { return "sim to " + to_; }

 private:
  Network& network_;
  const std::string from_, to_;
  std::set<std::int64_t> calls_;
};

Network::Network(ManualClock& clock, std::mt19937_64& random, NetworkOptions options)
    : clock_(clock), random_(random), options_(options) {}

Network::~Network() { TUTTI_CHECK(open_.empty(), open_.size(), " calls outlived the network"); }

Duration Network::delay() {
  const std::uint64_t range = static_cast<std::uint64_t>((options_.most_delay - options_.least_delay).count());
  // Mostly short, sometimes long: that is what reorders.
  const std::uint64_t part = chance(0.1) ? range : range / 8;
  return options_.least_delay + Duration(static_cast<std::int64_t>(random_() % (part + 1)));
}

bool Network::chance(double probability) { return static_cast<double>(random_() >> 11) * 0x1p-53 < probability; }

bool Network::passes(const std::string& a, const std::string& b) const { return !cuts_.contains(std::minmax(a, b)); }

void Network::later(Duration delay, std::function<void()> event) {
  clock_.call_at(clock_.now() + delay, std::move(event));
}

void Network::start(const std::string& task, CallHandler& handler) {
  TUTTI_CHECK(!processes_.contains(task), task, " listens already");
  processes_[task] = {&handler, next_life_++};
  dead_.erase(task);
}

void Network::crash(const std::string& task) {
  processes_.erase(task);
  dead_.insert(task);
  std::vector<CallPtr> outgoing, incoming;
  for (const auto& [id, call] : open_) {
    if (call->from == task) outgoing.push_back(call);
    if (call->to == task && call->server_life != 0) incoming.push_back(call);
  }
  for (const CallPtr& call : outgoing) abandon(call, cancelled("the process has ended"));
  for (const CallPtr& call : incoming) fail_after_delay(call, unavailable(call->to, ": connection reset"));
}

void Network::cut(const std::string& a, const std::string& b) { cuts_.insert(std::minmax(a, b)); }

void Network::heal() { cuts_.clear(); }

void Network::calm() { options_.repeated = options_.late = options_.lost = 0; }

std::shared_ptr<Channel> Network::channel(const std::string& from, const std::string& to) {
  return std::make_shared<SimChannel>(*this, from, to);
}

Duration Network::lateness() {
  return Duration(static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(options_.most_late.count())));
}

void Network::begin(const CallPtr& call) {
  if (dead_.contains(call->from)) return call->done(cancelled("the process has ended"), {});
  if (call->options.cancellation != nullptr) {
    call->cancelled = call->options.cancellation->register_callback(
        [this, weak = std::weak_ptr(call), cancellation = call->options.cancellation] {
          if (const CallPtr call = weak.lock()) abandon(call, cancellation->status());
        });
    if (call->cancelled == 0) {
      call->done(call->options.cancellation->status(), {});
      return;
    }
  }
  open_[call->id] = call;
  if (call->options.deadline) {
    call->deadline = clock_.call_at(*call->options.deadline, [this, weak = std::weak_ptr(call)] {
      if (const CallPtr call = weak.lock()) {
        call->deadline = 0;
        abandon(call, deadline_exceeded(call->method, " to ", call->to, ": no answer in time"));
      }
    });
  }
  later(chance(options_.late) ? lateness() : delay(), [this, call] { arrive(call); });
  if (chance(options_.repeated)) {
    later(chance(0.25) ? lateness() : delay(), [this, call] { arrive_again(call); });
  }
}

void Network::arrive(const CallPtr& call) {
  if (!passes(call->from, call->to)) {
    // A packet on a link that is cut is sent again and again, until the connection is given up.
    if (clock_.now() - call->begun >= options_.keepalive) {
      return finish(call, unavailable(call->to, ": connection timed out"), {});
    }
    const auto again = std::chrono::milliseconds(50 + random_() % 450);
    return later(again, [this, call] { arrive(call); });
  }
  const auto process = processes_.find(call->to);
  if (process == processes_.end()) {
    // Who has given up or crashed does not connect again.
    if (!call->done) return;
    if (call->options.wait_for_ready) return later(std::chrono::milliseconds(50), [this, call] { arrive(call); });
    return fail_after_delay(call, unavailable(call->to, ": connection refused; the call was never sent"));
  }
  call->server_life = process->second.life;
  serve(call, false);
  if (!call->withdrawn.ok()) withdraw(call, call->withdrawn);
}

void Network::arrive_again(const CallPtr& call) {
  if (call->server_life != 0 && processes_.contains(call->to) && passes(call->from, call->to)) serve(call, true);
}

Payload Network::shredded(const std::string& bytes) {
  Payload pieces;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t size = chance(0.7) ? bytes.size() - at : 1 + random_() % (bytes.size() - at);
    pieces.append(bytes.substr(at, size));
    at += size;
  }
  return pieces;
}

void Network::serve(const CallPtr& call, bool repeated) {
  const Process& process = processes_.at(call->to);
  const auto cancellation = std::make_shared<Cancellation>();
  call->serving[repeated] = {cancellation, process.life};
  being_served_[call->id] = call;
  IncomingCall incoming{.method = call->method,
                        .request = shredded(call->request),
                        .peer_task = "",
                        .connection = call->from,
                        .cancellation = cancellation.get()};
  process.handler->handle(std::move(incoming), [this, call, repeated](Status status, Payload reply) {
    TUTTI_CHECK(call->serving.erase(repeated) == 1, call->method, " was answered twice");
    if (call->serving.empty()) being_served_.erase(call->id);
    if (!repeated) answer(call, std::move(status), std::move(reply));
  });
}

void Network::answer(const CallPtr& call, Status status, Payload reply) {
  const auto process = processes_.find(call->to);
  if (process == processes_.end() || process->second.life != call->server_life || !call->done) return;
  if (chance(options_.lost)) return fail_after_delay(call, unavailable(call->to, ": connection lost"));
  later(delay(), [this, call, status = std::move(status), bytes = reply.flatten()] {
    if (!call->done) return;
    if (passes(call->from, call->to)) return finish(call, status, shredded(bytes));
    later(options_.keepalive, [this, call] { finish(call, unavailable(call->to, ": connection timed out"), {}); });
  });
}

void Network::fail_after_delay(const CallPtr& call, Status status) {
  later(delay(), [this, call, status = std::move(status)] {
    // Who is cut off hears of a break when the connection is given up.
    if (passes(call->from, call->to)) return finish(call, status, {});
    later(options_.keepalive, [this, call, status] { finish(call, status, {}); });
  });
}

void Network::finish(const CallPtr& call, Status status, Payload reply) {
  if (!call->done) return;
  if (call->cancelled != 0) call->options.cancellation->deregister(std::exchange(call->cancelled, 0));
  if (call->deadline != 0) clock_.cancel_timer(std::exchange(call->deadline, 0));
  open_.erase(call->id);
  std::exchange(call->done, nullptr)(std::move(status), std::move(reply));
}

void Network::abandon(const CallPtr& call, const Status& cause) {
  if (!call->done) return;
  finish(call, cause, {});
  withdraw(call, cause);
}

void Network::withdraw(const CallPtr& call, const Status& cause) {
  later(delay(), [this, call, cause] {
    if (call->server_life == 0) call->withdrawn = cause;
    const auto process = processes_.find(call->to);
    if (process == processes_.end()) return;
    // Held, since the reply that a cancellation brings about takes it out.
    const std::map<bool, Call::Serving> serving = call->serving;
    for (const auto& [repeated, one] : serving) {
      if (one.life == process->second.life) one.cancellation->cancel(cause);
    }
  });
}

}  // namespace tutti::sim
