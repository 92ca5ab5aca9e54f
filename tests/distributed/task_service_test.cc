#include "tutti/distributed/task_service.h"

#include <gtest/gtest.h>

#include <map>

#include "tutti/distributed/codec.h"

namespace tutti::task_service_test {

using namespace std::chrono_literals;

const std::string kPs = "/job:ps/replica:0/task:0";
const std::string kWorker = "/job:worker/replica:0/task:0";

class OtherServices : public CallHandler {
 public:
  void handle(IncomingCall call, Reply reply) override {
    methods.emplace_back(call.method);
    reply(status, answer);
  }
  std::vector<std::string> methods;
  Status status;
  Payload answer;
};

class TaskServiceTest : public ::testing::Test {
 protected:
  struct Answer {
    int count = 0;
    Status status;
    Payload bytes;
  };

  TaskServiceTest() { make({}); }
  ~TaskServiceTest() override { service_.reset(); }

  void make(const std::string& token) {
    TaskServiceOptions options;
    options.hello.self = {.task = kPs, .incarnation = 42, .host_id = "h", .shm_name = "s"};
    options.hello.token = token;
    options.clock = &clock_;
    options.heard = [this](const std::string& task, std::uint64_t incarnation) {
      heard_.emplace_back(task, incarnation);
    };
    options.certificates = certificates_;
    if (certificates_) options.shm_ticket = [](const std::string& task) { return "ticket of " + task; };
    options.leases.renew = 10s;
    options.leased = [this](const std::string& session, bool held) { leased_[session] += held ? 1 : -1; };
    options.abandon = [this](const std::string& session) { abandoned_.push_back(session); };
    options.log = [this](const std::string& line) { lines_.push_back(line); };
    service_ = std::make_unique<TaskService>(options, others_);
  }

  std::shared_ptr<Answer> call(std::string_view method, Payload request, Cancellation* cancellation = nullptr,
                               std::string peer_task = {}) {
    auto answer = std::make_shared<Answer>();
    service_->handle({method, std::move(request), std::move(peer_task), "ipv4:1.2.3.4:5", cancellation},
                     [answer](Status status, Payload bytes) {
                       ++answer->count;
                       answer->status = std::move(status);
                       answer->bytes = std::move(bytes);
                     });
    return answer;
  }

  ManualClock clock_;
  OtherServices others_;
  std::vector<std::pair<std::string, std::uint64_t>> heard_;
  bool certificates_ = false;
  std::map<std::string, int> leased_;
  std::vector<std::string> abandoned_;
  std::vector<std::string> lines_;
  std::unique_ptr<TaskService> service_;
};

TEST_F(TaskServiceTest, OtherMethodsGoOn) {
  EXPECT_TRUE(call("/tensorflow.WorkerService/GetStatus", {})->status.ok());
  EXPECT_EQ(others_.methods, std::vector<std::string>{"/tensorflow.WorkerService/GetStatus"});
}

TEST_F(TaskServiceTest, HelloTellsWhoWeAreAndWhoCalled) {
  const auto answer = call(kHelloMethod, encode(HelloRequest{.task = kWorker, .incarnation = 7, .to_task = kPs}));
  HelloReply reply;
  ASSERT_TRUE(answer->status.ok());
  ASSERT_TRUE(decode(answer->bytes, reply).ok());
  EXPECT_EQ(reply.task, kPs);
  EXPECT_EQ(reply.incarnation, 42u);
  EXPECT_EQ(heard_, (std::vector<std::pair<std::string, std::uint64_t>>{{kWorker, 7}}));
}

TEST_F(TaskServiceTest, GarbageIsRefused) {
  EXPECT_EQ(call(kHelloMethod, Payload(std::string("\xff")))->status.code(), Code::kInvalidArgument);
  EXPECT_EQ(call(kLeaseMethod, Payload(std::string("\xff")))->status.code(), Code::kInvalidArgument);
}

TEST_F(TaskServiceTest, TheSenderMustBeWhomItsCertificateNames) {
  const Payload hello = encode(HelloRequest{.task = kWorker, .incarnation = 7});
  EXPECT_EQ(call(kHelloMethod, hello, nullptr, kPs)->status.code(), Code::kUnauthenticated);
  EXPECT_EQ(call(kHelloMethod, hello, nullptr, kPs)->status.code(), Code::kUnauthenticated);
  EXPECT_EQ(lines_.size(), 1u);
  EXPECT_EQ(call(kLeaseMethod, encode(LeaseRequest{.task = kWorker}), nullptr, kPs)->status.code(),
            Code::kUnauthenticated);
  EXPECT_TRUE(heard_.empty());
  EXPECT_TRUE(call(kHelloMethod, hello, nullptr, kWorker)->status.ok());
}

TEST_F(TaskServiceTest, WhereThereAreCertificatesANameMustBeProved) {
  certificates_ = true;
  make({});
  const Payload hello = encode(HelloRequest{.task = kWorker, .incarnation = 7});
  EXPECT_EQ(call(kHelloMethod, hello)->status.code(), Code::kUnauthenticated);
  EXPECT_EQ(call(kLeaseMethod, encode(LeaseRequest{.task = kWorker}))->status.code(), Code::kUnauthenticated);
  EXPECT_TRUE(heard_.empty());
  EXPECT_TRUE(call(kHelloMethod, hello, nullptr, kWorker)->status.ok());
  EXPECT_TRUE(call(kHelloMethod, encode(HelloRequest{}))->status.ok()) << "a client has no name to prove";
}

TEST_F(TaskServiceTest, ATicketIsForWhomTheCertificateNames) {
  certificates_ = true;
  make({});
  HelloReply reply;
  const auto hello = [&](const std::string& claims, const std::string& proved) {
    reply = {};
    const auto answer = call(kHelloMethod, encode(HelloRequest{.task = claims}), nullptr, proved);
    if (!answer->status.ok()) return answer->status.code();
    EXPECT_TRUE(decode(answer->bytes, reply).ok());
    return Code::kOk;
  };
  EXPECT_EQ(hello(kWorker, kWorker), Code::kOk);
  EXPECT_EQ(reply.your_task, kWorker);
  EXPECT_EQ(reply.shm_ticket, std::string("ticket of ") + kWorker);
  EXPECT_EQ(hello("", "/job:client/replica:0/task:0"), Code::kOk) << "a client";
  EXPECT_EQ(reply.shm_ticket, "ticket of /job:client/replica:0/task:0");
  EXPECT_EQ(hello("", ""), Code::kOk);
  EXPECT_EQ(reply.shm_ticket, "") << "for who has proved nothing";
  EXPECT_EQ(hello(kWorker, kPs), Code::kUnauthenticated);
  make("secret");
  EXPECT_EQ(hello(kWorker, kWorker), Code::kOk);
  EXPECT_EQ(reply.shm_ticket, "") << "before the token was proved";
  EXPECT_FALSE(reply.challenge.empty());
}

TEST_F(TaskServiceTest, WithoutProofNobodyIsHeard) {
  make("secret");
  const auto answer = call(kHelloMethod, encode(HelloRequest{.task = kWorker, .incarnation = 7}));
  HelloReply reply;
  ASSERT_TRUE(decode(answer->bytes, reply).ok());
  EXPECT_FALSE(reply.challenge.empty());
  EXPECT_TRUE(heard_.empty());
}

TEST_F(TaskServiceTest, AHeartbeatIsAnsweredAtOnce) {
  const auto answer = call(kLeaseMethod, encode(LeaseRequest{.task = kWorker, .incarnation = 7}));
  LeaseReply reply;
  ASSERT_EQ(answer->count, 1);
  ASSERT_TRUE(decode(answer->bytes, reply).ok());
  EXPECT_EQ(reply.incarnation, 42u);
  EXPECT_EQ(heard_.size(), 1u);
}

TEST_F(TaskServiceTest, ALeaseIsHeldAndMustBeRenewed) {
  Cancellation cancellation;
  auto answer = call(kLeaseMethod, encode(LeaseRequest{.session_handle = "s1"}), &cancellation);
  EXPECT_EQ(answer->count, 0);
  EXPECT_EQ(leased_["s1"], 1);
  clock_.advance(5s);
  EXPECT_EQ(answer->count, 1);
  EXPECT_TRUE(answer->status.ok());
  EXPECT_EQ(leased_["s1"], 0);
  clock_.advance(9s);
  answer = call(kLeaseMethod, encode(LeaseRequest{.session_handle = "s1"}), &cancellation);
  clock_.advance(5s);
  EXPECT_EQ(answer->count, 1);
  EXPECT_TRUE(abandoned_.empty());
  clock_.advance(10s);
  EXPECT_EQ(abandoned_, std::vector<std::string>{"s1"});
}

TEST_F(TaskServiceTest, AClientThatGoesAwayIsNoticed) {
  Cancellation cancellation;
  const auto answer = call(kLeaseMethod, encode(LeaseRequest{.session_handle = "s1"}), &cancellation);
  cancellation.cancel(cancelled("gone"));
  EXPECT_EQ(answer->count, 1);
  EXPECT_TRUE(abandoned_.empty());
  clock_.advance(1s);
  EXPECT_EQ(abandoned_, std::vector<std::string>{"s1"});
}

TEST_F(TaskServiceTest, OneThatHasGoneAlreadyIsNoticedToo) {
  Cancellation cancellation;
  cancellation.cancel(cancelled("gone"));
  EXPECT_EQ(call(kLeaseMethod, encode(LeaseRequest{.session_handle = "s1"}), &cancellation)->count, 1);
  clock_.advance(1s);
  EXPECT_EQ(abandoned_, std::vector<std::string>{"s1"});
}

TEST_F(TaskServiceTest, AClientThatNeverLeasesIsNoticed) {
  for (const char* session : {"s1", "s2"}) {
    others_.answer = encode(CreateSessionReply{.session_handle = session}).value_or_throw();
    const auto answer = call(kCreateLeasedSessionMethod, {});
    CreateSessionReply reply;
    ASSERT_TRUE(answer->status.ok());
    ASSERT_TRUE(decode(answer->bytes, reply).ok());
    EXPECT_EQ(reply.session_handle, session);
    EXPECT_EQ(others_.methods.back(), "/tensorflow.MasterService/CreateSession");
  }
  clock_.advance(9s);
  Cancellation cancellation;
  const auto lease = call(kLeaseMethod, encode(LeaseRequest{.session_handle = "s2"}), &cancellation);
  EXPECT_TRUE(abandoned_.empty());
  clock_.advance(1s);
  EXPECT_EQ(abandoned_, std::vector<std::string>{"s1"});
  clock_.advance(4s);
  EXPECT_EQ(lease->count, 1);
  EXPECT_EQ(abandoned_, std::vector<std::string>{"s1"});
}

// TensorFlow's clients promise nothing.
TEST_F(TaskServiceTest, SessionsOfOthersAreLeftAlone) {
  others_.answer = encode(CreateSessionReply{.session_handle = "s1"}).value_or_throw();
  EXPECT_TRUE(call("/tensorflow.MasterService/CreateSession", {})->status.ok());
  others_.status = invalid_argument("no session");
  EXPECT_EQ(call(kCreateLeasedSessionMethod, {})->status, others_.status);
  clock_.advance(24h);
  EXPECT_TRUE(abandoned_.empty());
}

TEST_F(TaskServiceTest, StoppingAnswersWhatIsHeld) {
  Cancellation cancellation;
  const auto answer = call(kLeaseMethod, encode(LeaseRequest{.session_handle = "s1"}), &cancellation);
  service_->stop();
  EXPECT_EQ(answer->count, 1);
  EXPECT_EQ(answer->status.code(), Code::kUnavailable);
  EXPECT_EQ(call(kLeaseMethod, encode(LeaseRequest{.session_handle = "s1"}), &cancellation)->status.code(),
            Code::kUnavailable);
  cancellation.cancel(cancelled("late"));
  clock_.advance(1min);
  EXPECT_EQ(answer->count, 1);
  EXPECT_TRUE(abandoned_.empty());
}

}  // namespace tutti::task_service_test
