#include "tutti/distributed/peers.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "tutti/distributed/codec.h"
#include "tutti/distributed/hello.h"
#include "tutti/distributed/task_service.h"

namespace tutti::peers_test {

using namespace std::chrono_literals;

const std::string kOwn = "/job:worker/replica:0/task:0";
const std::string kPs = "/job:ps/replica:0/task:0";
constexpr std::string_view kWork = "/tensorflow.WorkerService/RunGraph";

// A peer: our service when it is one of us, GetStatus, and calls that are held until released.
class FakePeer : public CallHandler {
 public:
  explicit FakePeer(ManualClock& clock) : clock_(clock) { restart(1); }

  void restart(std::uint64_t new_incarnation) {
    incarnation = new_incarnation;
    service_.reset();
    TaskServiceOptions options;
    options.hello.self = {.task = kPs, .incarnation = incarnation, .host_id = "host", .shm_name = shm_name};
    options.hello.token = token;
    options.clock = &clock_;
    service_ = std::make_unique<TaskService>(options, *this);
  }
  void set_token(std::string secret) {
    token = std::move(secret);
    restart(incarnation);
  }
  CallHandler& front() { return *service_; }

  void handle(IncomingCall call, Reply reply) override {
    if (call.method == "/tensorflow.WorkerService/GetStatus") {
      GetStatusReply status;
      status.devices.push_back({.name = kPs + "/device:CPU:0", .type = "CPU", .incarnation = incarnation});
      return reply({}, *encode(status));
    }
    held.push_back(std::move(reply));
  }

  std::string shm_name;
  std::string token;
  std::uint64_t incarnation = 0;
  bool foreign = false;
  std::vector<Reply> held;

 private:
  ManualClock& clock_;
  std::unique_ptr<TaskService> service_;
};

// The way to the peer, which a test cuts, silences or mends.
class FakeChannel : public Channel {
 public:
  FakeChannel(FakePeer& peer, std::string name) : peer_(peer), name_(std::move(name)) {}
  void call(std::string_view method, Payload request, const CallOptions& options, Done done) override {
    methods.emplace_back(method);
    if (!failure.ok()) return done(failure, {});
    auto once = std::make_shared<Done>(std::move(done));
    const auto end = [once](Status status, Payload bytes) {
      if (const Done run = std::exchange(*once, nullptr)) run(std::move(status), std::move(bytes));
    };
    if (options.cancellation != nullptr) {
      Cancellation* const cancellation = options.cancellation;
      const auto stop = [end, cancellation] { end(cancellation->status(), {}); };
      if (cancellation->register_callback(stop) == 0) return stop();
    }
    if (silent) return unanswered.push_back([=, this, method = std::string(method)] { serve(method, request, end); });
    if (method == mute) return;
    serve(method, std::move(request), end);
  }
  // What came while it was silent.
  void answer() {
    silent = false;
    for (const auto& serve_one : std::exchange(unanswered, {})) serve_one();
  }
  void serve(std::string_view method, Payload request, const Done& end) {
    if (peer_.foreign && method.starts_with("/tutti.")) return end(unimplemented("what?"), {});
    peer_.front().handle({method, std::move(request), {}, name_, nullptr}, end);
  }
  std::string describe() const override { return name_; }

  Status failure;
  bool silent = false;
  std::string_view mute;  // the method that is not answered
  std::vector<std::string> methods;
  std::vector<std::function<void()>> unanswered;

 private:
  FakePeer& peer_;
  const std::string name_;
};

class PeersTest : public ::testing::Test {
 protected:
  PeersTest() : peer_(clock_), plain_(std::make_shared<FakeChannel>(peer_, "plain")) {}
  ~PeersTest() override {
    peers_.reset();
    for (auto& reply : peer_.held) reply(cancelled("the test ended"), {});
  }

  void start(const std::string& token = {}) {
    PeersOptions options;
    options.addresses = {{kOwn, "127.0.0.1:1"}, {kPs, "127.0.0.1:2"}};
    options.task = kOwn;
    options.incarnation = 77;
    options.host_id = "host";
    options.token = token;
    options.health.lease = 1s;
    options.clock = &clock_;
    options.dial = [this](const std::string& address, const std::string& task) {
      dialled_.push_back(address + " " + task);
      return plain_;
    };
    options.dial_fast = [this](const HelloReply& peer, std::function<void(Status)> on_lost) {
      fast_names_.push_back(peer.shm_name);
      if (!fast_works_) return Result<std::shared_ptr<Channel>>(unavailable("no shared memory"));
      fast_ = std::make_shared<FakeChannel>(peer_, "fast");
      fast_lost_ = std::move(on_lost);
      return Result<std::shared_ptr<Channel>>(fast_);
    };
    options.gone = [this](const std::string& task, const Status& cause, std::uint64_t incarnation) {
      gone_.emplace_back(task, cause);
      EXPECT_EQ(incarnation != 0, cause.code() == Code::kAborted) << incarnation;
      if (on_gone_) on_gone_();
      return true;
    };
    options.log = [this](const std::string& line) { lines_.push_back(line); };
    peers_ = std::make_unique<Peers>(std::move(options));
  }

  // A call that the peer holds.
  std::shared_ptr<std::optional<Status>> call(Cancellation* cancellation = nullptr) {
    auto result = std::make_shared<std::optional<Status>>();
    CallOptions options;
    options.cancellation = cancellation;
    (*peers_->channel(kPs))->call(kWork, {}, options, [result](Status status, Payload) {
      EXPECT_FALSE(result->has_value());
      *result = std::move(status);
    });
    return result;
  }

  ManualClock clock_;
  FakePeer peer_;
  std::shared_ptr<FakeChannel> plain_;
  std::shared_ptr<FakeChannel> fast_;
  std::function<void(Status)> fast_lost_;
  bool fast_works_ = true;
  std::vector<std::string> dialled_;
  std::vector<std::string> fast_names_;
  std::vector<std::pair<std::string, Status>> gone_;
  std::function<void()> on_gone_;
  std::vector<std::string> lines_;
  std::unique_ptr<Peers> peers_;
};

TEST_F(PeersTest, ListsTheTasksAndCallsNobody) {
  start();
  EXPECT_EQ(peers_->tasks(), (std::vector<std::string>{kPs, kOwn}));
  const Status unknown = peers_->worker("/job:ps/replica:0/task:9").status();
  EXPECT_EQ(unknown.code(), Code::kNotFound);
  EXPECT_NE(unknown.message().find("task:9"), std::string::npos);
  EXPECT_TRUE(peers_->worker(kPs).ok());
  clock_.advance(1min);
  EXPECT_TRUE(dialled_.empty());
  EXPECT_EQ(peers_->state(kPs), PeerState::kUnknown);
}

TEST_F(PeersTest, TheFirstCallSaysHello) {
  start();
  const auto result = call();
  const std::string dial = "127.0.0.1:2 " + kPs;
  EXPECT_EQ(dialled_, (std::vector<std::string>{dial, dial})) << "one connection for calls, one for questions";
  EXPECT_EQ(peers_->state(kPs), PeerState::kAlive);
  ASSERT_EQ(peer_.held.size(), 1u);
  peer_.held[0]({}, {});
  peer_.held.clear();
  EXPECT_TRUE(result->value().ok());
}

TEST_F(PeersTest, HeartbeatsKeepItAlive) {
  start();
  call();
  clock_.advance(10s);
  EXPECT_EQ(peers_->state(kPs), PeerState::kAlive);
  EXPECT_EQ(std::count(plain_->methods.begin(), plain_->methods.end(), kLeaseMethod), 40);
  EXPECT_TRUE(gone_.empty());
}

TEST_F(PeersTest, SilenceEndsTheCallsAndIsTold) {
  start();
  const auto result = call();
  plain_->silent = true;
  clock_.advance(2s);
  ASSERT_EQ(gone_.size(), 1u);
  EXPECT_EQ(gone_[0].first, kPs);
  EXPECT_EQ(gone_[0].second.code(), Code::kUnavailable);
  ASSERT_TRUE(result->has_value());
  EXPECT_EQ((*result)->code(), Code::kUnavailable);
  EXPECT_NE((*result)->message().find(kPs), std::string::npos);
}

TEST_F(PeersTest, ALostPeerIsNotWaitedFor) {
  start();
  call();
  plain_->silent = true;
  clock_.advance(2s);
  const auto late = call();
  ASSERT_TRUE(late->has_value());
  EXPECT_EQ((*late)->code(), Code::kUnavailable);
  EXPECT_NE((*late)->message().find(kPs), std::string::npos);
}

TEST_F(PeersTest, ARestartAbortsTheCalls) {
  start();
  const auto result = call();
  peer_.restart(2);
  clock_.advance(1s);
  ASSERT_EQ(gone_.size(), 1u);
  EXPECT_EQ(gone_[0].second.code(), Code::kAborted);
  EXPECT_EQ((*result)->code(), Code::kAborted);
  EXPECT_EQ(peers_->state(kPs), PeerState::kAlive);
}

// A session that is made while a task is away waits for just that restart.
TEST_F(PeersTest, ACallThatWaitsForTheRestartGoesOn) {
  start();
  call();
  plain_->failure = unavailable("connection refused; the call was not sent");
  call();
  ASSERT_EQ(peers_->state(kPs), PeerState::kLost);
  plain_->failure = {};
  peer_.restart(2);
  std::optional<Status> waiting;
  CallOptions options;
  options.wait_for_ready = true;
  (*peers_->channel(kPs))->call(kWork, {}, options, [&](Status status, const Payload&) {
    waiting = std::move(status);
  });
  clock_.advance(5s);
  EXPECT_EQ(peers_->state(kPs), PeerState::kAlive);
  ASSERT_EQ(gone_.size(), 2u);
  EXPECT_EQ(gone_[1].second.code(), Code::kAborted);
  EXPECT_FALSE(waiting.has_value());
  peers_->stop(cancelled("the test ended"));
  EXPECT_TRUE(waiting.has_value());
}

TEST_F(PeersTest, AnswersToCallsAreSignsOfLife) {
  start();
  call();
  plain_->mute = kLeaseMethod;
  for (int i = 0; i < 20; ++i) {
    call();
    clock_.advance(200ms);
    peer_.held.back()({}, {});
    peer_.held.pop_back();
  }
  EXPECT_TRUE(gone_.empty());
  clock_.advance(2s);
  EXPECT_EQ(gone_.size(), 1u);
}

TEST_F(PeersTest, AnErrorIsAnAnswer) {
  start();
  call();
  plain_->failure = resource_exhausted("too many calls");
  clock_.advance(5s);
  EXPECT_TRUE(gone_.empty());
  EXPECT_EQ(peers_->state(kPs), PeerState::kAlive);
}

TEST_F(PeersTest, CallsOfAWayThatIsReplacedGoOn) {
  peer_.shm_name = "shm-1";
  peer_.restart(1);
  start();
  call();
  call();  // the fast way
  const std::weak_ptr<FakeChannel> old = fast_;
  const auto lost = fast_lost_;
  lost(unavailable("closed"));
  ASSERT_NE(fast_, old.lock()) << "another one";
  EXPECT_FALSE(old.expired());
  for (auto& reply : peer_.held) reply({}, {});
  peer_.held.clear();
  EXPECT_TRUE(old.expired());
}

TEST_F(PeersTest, ADeadPeerIsLostAtOnceAndFoundAgain) {
  start();
  call();
  plain_->failure = unavailable("connection refused; the call was not sent");
  const auto refused = call();
  EXPECT_EQ((*refused)->code(), Code::kUnavailable);
  EXPECT_NE((*refused)->message().find(kPs), std::string::npos);
  ASSERT_EQ(gone_.size(), 1u) << "no lease had to run out";
  plain_->failure = {};
  peer_.restart(2);
  clock_.advance(1s);
  ASSERT_EQ(gone_.size(), 2u);
  EXPECT_EQ(gone_[1].second.code(), Code::kAborted);
  EXPECT_EQ(peers_->state(kPs), PeerState::kAlive);
}

TEST_F(PeersTest, ACallToALostPeerFindsOutThatItIsBack) {
  start();
  call();
  plain_->failure = unavailable("connection refused; the call was not sent");
  EXPECT_EQ((*call())->code(), Code::kUnavailable);
  clock_.advance(10s);
  const std::size_t dialled = dialled_.size();
  EXPECT_EQ((*call())->code(), Code::kUnavailable);
  EXPECT_EQ(dialled_.size(), dialled + 1) << "over a new connection: an old one repeats what it found before";
  plain_->failure = {};
  peer_.restart(2);
  peer_.held.clear();
  const auto result = call();
  EXPECT_FALSE(result->has_value()) << (*result)->to_string();
  EXPECT_EQ(peer_.held.size(), 1u) << "it was sent, and the news of the restart did not end it";
  ASSERT_EQ(gone_.size(), 2u);
  EXPECT_EQ(gone_[1].second.code(), Code::kAborted);
}

TEST_F(PeersTest, ACallThatWaitsForALostPeerIsBoundedAndMayBeCancelled) {
  start();
  call();
  plain_->failure = unavailable("connection refused; the call was not sent");
  EXPECT_EQ((*call())->code(), Code::kUnavailable);
  plain_->failure = {};
  plain_->silent = true;  // it takes connections, and says nothing
  Cancellation cancellation;
  const auto first = call(&cancellation);
  const auto second = call();
  EXPECT_FALSE(first->has_value());
  cancellation.cancel(cancelled("enough"));
  ASSERT_TRUE(first->has_value());
  EXPECT_EQ((*first)->code(), Code::kCancelled);
  EXPECT_FALSE(second->has_value());
  peers_->stop(unavailable("we stop"));
  ASSERT_TRUE(second->has_value());
  EXPECT_EQ((*second)->message(), "we stop");
}

TEST_F(PeersTest, AMissingPeerIsSaidOnce) {
  start();
  plain_->failure = unavailable("name lookup failed; the call was not sent");
  call();
  clock_.advance(1min);
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_NE(lines_[0].find("still missing"), std::string::npos);
  EXPECT_NE(lines_[0].find(kPs), std::string::npos);
  EXPECT_NE(lines_[0].find("name lookup"), std::string::npos);
  EXPECT_TRUE(gone_.empty());
}

// As a new session waits for its tasks.
TEST_F(PeersTest, ALostPeerThatIsWaitedForIsSaidToBeMissingOnce) {
  start();
  call();
  plain_->failure = unavailable("connection refused; the call was not sent");
  call();
  ASSERT_EQ(peers_->state(kPs), PeerState::kLost);
  clock_.advance(1min);
  lines_.clear();
  const auto worker = peers_->worker(kPs).value_or_throw();
  for (int i = 0; i < 3; ++i) {
    worker->get_status({.wait_for_ready = true}, [](const Result<GetStatusReply>& reply) { EXPECT_FALSE(reply.ok()); });
    clock_.advance(1min);
  }
  EXPECT_EQ(lines_, std::vector<std::string>{"still missing: " + kPs +
                                             ": connection refused: connection refused; the call was not sent"});
}

// As a session that ends tells the tasks that are gone, in case that they come back.
TEST_F(PeersTest, ALostPeerThatIsOnlyToldIsNotMissed) {
  start();
  call();
  plain_->failure = unavailable("connection refused; the call was not sent");
  call();
  lines_.clear();
  const auto worker = peers_->worker(kPs).value_or_throw();
  worker->delete_worker_session({}, {.wait_for_ready = true}, [](const Result<EmptyMessage>&) {});
  clock_.advance(1min);
  EXPECT_TRUE(lines_.empty()) << lines_[0];
}

TEST_F(PeersTest, OnTheSameHostTheFastWayIsTaken) {
  peer_.shm_name = "shm-1";
  peer_.restart(1);
  start();
  call();
  EXPECT_EQ(fast_names_, std::vector<std::string>{"shm-1"});
  EXPECT_EQ(peers_->describe(kPs), "fast");
  call();
  EXPECT_EQ(fast_->methods.back(), kWork);
  clock_.advance(1s);
  EXPECT_EQ(fast_->methods.back(), kLeaseMethod);
}

TEST_F(PeersTest, WhenTheFastWayIsLostThePlainOneIsTaken) {
  peer_.shm_name = "shm-1";
  peer_.restart(1);
  start();
  call();
  fast_works_ = false;
  fast_lost_(unavailable("closed"));
  EXPECT_EQ(peers_->describe(kPs), "plain");
  EXPECT_EQ(plain_->methods.back(), kHelloMethod) << "asked at once who is there";
  EXPECT_EQ(peers_->state(kPs), PeerState::kAlive);
  EXPECT_TRUE(gone_.empty());
}

TEST_F(PeersTest, ACallAfterTheWayBrokeIsNotEndedByTheRestart) {
  peer_.shm_name = "shm-1";
  peer_.restart(1);
  start();
  call();
  plain_->silent = true;
  peer_.shm_name = "shm-2";
  peer_.restart(2);
  fast_lost_(unavailable("closed"));
  EXPECT_EQ(peers_->state(kPs), PeerState::kSuspected);
  const auto early = call();
  EXPECT_FALSE(early->has_value()) << "who is there is not known yet";
  peer_.held.clear();
  plain_->answer();
  EXPECT_FALSE(early->has_value());
  EXPECT_EQ(peer_.held.size(), 1u);
  ASSERT_EQ(gone_.size(), 1u);
  EXPECT_EQ(gone_[0].second.code(), Code::kAborted);
}

TEST_F(PeersTest, ALateCallOfADeadIncarnationChangesNothing) {
  peer_.restart(2);
  start();
  const auto result = call();
  plain_->methods.clear();
  peers_->heard(kPs, 1);
  EXPECT_EQ(plain_->methods.size(), 1u) << "who is there?";
  clock_.advance(3s);
  EXPECT_EQ(peers_->state(kPs), PeerState::kAlive);
  EXPECT_FALSE(result->has_value());
  EXPECT_TRUE(gone_.empty());
}

TEST_F(PeersTest, OneThatCallsUsIsCalledOverANewConnection) {
  start();
  call();
  plain_->failure = unavailable("connection refused; the call was not sent");
  EXPECT_EQ((*call())->code(), Code::kUnavailable);
  plain_->failure = {};
  peer_.restart(2);
  const std::size_t dialled = dialled_.size();
  peers_->heard(kPs, 2);
  peer_.held.clear();
  EXPECT_FALSE(call()->has_value());
  EXPECT_EQ(dialled_.size(), dialled + 2) << "the old ones pause before they try again";
  EXPECT_EQ(peer_.held.size(), 1u);
}

TEST_F(PeersTest, ARestartedPeerIsReachedUnderItsNewName) {
  peer_.shm_name = "shm-1";
  peer_.restart(1);
  start();
  call();
  peer_.shm_name = "shm-2";
  peer_.restart(2);
  fast_lost_(unavailable("closed"));
  EXPECT_EQ(fast_names_, (std::vector<std::string>{"shm-1", "shm-2"}));
  EXPECT_EQ(peers_->describe(kPs), "fast");
  ASSERT_EQ(gone_.size(), 1u);
  EXPECT_EQ(gone_[0].second.code(), Code::kAborted);
}

TEST_F(PeersTest, AForeignerIsAskedByGetStatus) {
  peer_.foreign = true;
  start();
  call();
  EXPECT_EQ(peers_->state(kPs), PeerState::kAlive);
  clock_.advance(10s);
  EXPECT_EQ(peers_->state(kPs), PeerState::kAlive);
  EXPECT_EQ(std::count(plain_->methods.begin(), plain_->methods.end(), kHelloMethod), 1);
  peer_.incarnation = 9;
  clock_.advance(1s);
  ASSERT_EQ(gone_.size(), 1u);
  EXPECT_EQ(gone_[0].second.code(), Code::kAborted);
}

// What a new session learns from GetStatus must not be ended by the news of the restart that came before it.
TEST_F(PeersTest, ARestartIsToldBeforeTheAnswerThatShowsIt) {
  start();
  call();
  peer_.restart(2);
  std::size_t gone_before_answer = 0;
  (*peers_->worker(kPs))->get_status({}, [&](const Result<GetStatusReply>& reply) {
    EXPECT_TRUE(reply.ok());
    gone_before_answer = gone_.size();
  });
  EXPECT_EQ(gone_before_answer, 1u);
  clock_.advance(5s);
  EXPECT_EQ(gone_.size(), 1u);
}

// The news is being told by another thread, which takes its time.
TEST_F(PeersTest, AnAnswerThatWaitsForNewsHoldsNoThread) {
  std::promise<void> telling, told;
  on_gone_ = [&] {
    telling.set_value();
    told.get_future().wait();
  };
  start();
  call();
  peer_.restart(2);
  std::thread teller([&] { peers_->heard(kPs, 2); });
  telling.get_future().wait();
  bool answered = false;
  (*peers_->worker(kPs))->get_status({}, [&](const Result<GetStatusReply>& reply) {
    answered = true;
    EXPECT_TRUE(reply.ok());
  });
  EXPECT_FALSE(answered);
  told.set_value();
  teller.join();
  EXPECT_TRUE(answered);
}

TEST_F(PeersTest, AnAnswerThatWaitsForNewsComesDespiteAStop) {
  std::promise<void> telling, told;
  on_gone_ = [&] {
    telling.set_value();
    told.get_future().wait();
  };
  start();
  call();
  peer_.restart(2);
  std::thread teller([&] { peers_->heard(kPs, 2); });
  telling.get_future().wait();
  std::promise<void> answered;
  (*peers_->worker(kPs))->get_status({}, [&](const Result<GetStatusReply>&) { answered.set_value(); });
  std::thread stopper([&] { peers_->stop(unavailable("the end")); });
  answered.get_future().wait();
  told.set_value();
  teller.join();
  stopper.join();
}

TEST_F(PeersTest, TokensAreProvedBothWays) {
  peer_.set_token("secret");
  start("secret");
  call();
  EXPECT_EQ(peers_->state(kPs), PeerState::kAlive);
}

TEST_F(PeersTest, AWrongTokenIsAFailedHandshake) {
  peer_.set_token("secret");
  start("other");
  call();
  clock_.advance(5s);
  EXPECT_EQ(peers_->state(kPs), PeerState::kConnecting);
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_NE(lines_[0].find("handshake failed"), std::string::npos) << lines_[0];
}

TEST_F(PeersTest, CallersMayCancel) {
  start();
  Cancellation cancellation;
  const auto result = call(&cancellation);
  EXPECT_FALSE(result->has_value());
  cancellation.cancel(cancelled("enough"));
  EXPECT_EQ((*result)->code(), Code::kCancelled);
  const auto late = call(&cancellation);
  EXPECT_EQ((*late)->code(), Code::kCancelled);
}

TEST_F(PeersTest, StoppingEndsAllCalls) {
  start();
  const auto result = call();
  const auto channel = *peers_->channel(kPs);
  peers_->stop(unavailable("we stop"));
  EXPECT_EQ((*result)->code(), Code::kUnavailable);
  EXPECT_EQ((*call())->code(), Code::kUnavailable);
  EXPECT_FALSE(peers_->worker(kPs).ok());
  peers_.reset();
  Status late;
  channel->call(kWork, {}, {}, [&](Status status, Payload) { late = std::move(status); });
  EXPECT_EQ(late.code(), Code::kUnavailable);
}

TEST_F(PeersTest, AddressesMayComeLate) {
  start();
  EXPECT_EQ(peers_->set_addresses({{kOwn, "a:1"}}).code(), Code::kInvalidArgument);
  EXPECT_EQ(peers_->set_addresses({{kOwn, "a:1"}, {kPs, "b:1"}, {"/job:x/replica:0/task:0", "c:1"}}).code(),
            Code::kInvalidArgument);
  EXPECT_TRUE(peers_->set_addresses({{kOwn, "a:1"}, {kPs, "b:1"}}).ok());
  call();
  EXPECT_EQ(dialled_, (std::vector<std::string>{"b:1 " + kPs, "b:1 " + kPs}));
  EXPECT_EQ(peers_->set_addresses({{kOwn, "a:1"}, {kPs, "c:1"}}).code(), Code::kFailedPrecondition);
}

TEST_F(PeersTest, OneThatCallsUsIsHeard) {
  start();
  peers_->heard(kPs, 5);
  EXPECT_EQ(peers_->state(kPs), PeerState::kAlive);
  clock_.advance(2s);
  EXPECT_EQ(gone_.size(), 1u);
  EXPECT_TRUE(dialled_.empty());
  peers_->heard("/job:other/replica:0/task:0", 5);
  EXPECT_EQ(peers_->state("/job:other/replica:0/task:0"), PeerState::kUnknown);
}

}  // namespace tutti::peers_test
