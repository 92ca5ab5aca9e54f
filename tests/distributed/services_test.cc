#include "tutti/distributed/services.h"

#include <gtest/gtest.h>

#include "tests/distributed/message_samples.h"
#include "tutti/distributed/codec.h"

namespace tutti::services_test {

using namespace testing;

// What reached the other side, and what it answers.
struct Record {
  std::string called;
  Status answer;
  Cancellation* cancellation = nullptr;

  template <typename Reply>
  void reply(std::string name, const CallOptions& options, const ReplyDone<Reply>& done, Reply value = {}) {
    called = std::move(name);
    cancellation = options.cancellation;
    if (answer.ok()) return done(std::move(value));
    done(answer);
  }
};

class FakeMaster : public MasterInterface {
 public:
  explicit FakeMaster(Record& record) : record_(record) {}
  void create_session(CreateSessionRequest r, const CallOptions& o, ReplyDone<CreateSessionReply> d) override {
    record_.reply(str_cat("create_session ", r.target), o, d, {"created", 1});
  }
  void extend_session(ExtendSessionRequest r, const CallOptions& o, ReplyDone<ExtendSessionReply> d) override {
    record_.reply(str_cat("extend_session ", r.session_handle), o, d, {2});
  }
  void partial_run_setup(PartialRunSetupRequest r, const CallOptions& o, ReplyDone<PartialRunSetupReply> d) override {
    record_.reply(str_cat("partial_run_setup ", r.request_id), o, d, {"7"});
  }
  void run_step(RunStepRequest r, const CallOptions& o, ReplyDone<RunStepReply> d) override {
    record_.reply("run_step", o, d, {std::move(r.feeds), {}, body});
  }
  void close_session(CloseSessionRequest r, const CallOptions& o, ReplyDone<EmptyMessage> d) override {
    record_.reply(str_cat("close_session ", r.session_handle), o, d);
  }
  void list_devices(ListDevicesRequest r, const CallOptions& o, ReplyDone<ListDevicesReply> d) override {
    record_.reply(str_cat("list_devices ", r.session_handle), o, d, {sample_devices(), {}});
  }
  void reset(ResetRequest r, const CallOptions& o, ReplyDone<EmptyMessage> d) override {
    record_.reply(str_cat("reset ", r.containers.size()), o, d);
  }
  void make_callable(MakeCallableRequest r, const CallOptions& o, ReplyDone<MakeCallableReply> d) override {
    record_.reply(str_cat("make_callable ", r.signature.feeds.size()), o, d, {5});
  }
  void run_callable(RunCallableRequest r, const CallOptions& o, ReplyDone<RunCallableReply> d) override {
    record_.reply(str_cat("run_callable ", r.handle), o, d, {std::move(r.feeds), {}});
  }
  void release_callable(ReleaseCallableRequest r, const CallOptions& o, ReplyDone<EmptyMessage> d) override {
    record_.reply(str_cat("release_callable ", r.handle), o, d);
  }

  Status body;

 private:
  Record& record_;
};

class FakeWorker : public WorkerInterface {
 public:
  explicit FakeWorker(Record& record) : record_(record) {}
  void get_status(const CallOptions& o, ReplyDone<GetStatusReply> d) override {
    record_.reply("get_status", o, d, {sample_devices()});
  }
  void create_worker_session(CreateWorkerSessionRequest r, const CallOptions& o, ReplyDone<EmptyMessage> d) override {
    record_.reply(str_cat("create_worker_session ", r.job, r.task), o, d);
  }
  void delete_worker_session(DeleteWorkerSessionRequest r, const CallOptions& o, ReplyDone<EmptyMessage> d) override {
    record_.reply(str_cat("delete_worker_session ", r.session_handle), o, d);
  }
  void register_graph(RegisterGraphRequest r, const CallOptions& o, ReplyDone<RegisterGraphReply> d) override {
    record_.reply(str_cat("register_graph ", r.session_handle), o, d, {"g1"});
  }
  void deregister_graph(DeregisterGraphRequest r, const CallOptions& o, ReplyDone<EmptyMessage> d) override {
    record_.reply(str_cat("deregister_graph ", r.graph_handle), o, d);
  }
  void run_graph(RunGraphRequest r, const CallOptions& o, ReplyDone<RunGraphReply> d) override {
    record_.reply(str_cat("run_graph ", r.step_id), o, d, {std::move(r.sends), {}, {}});
  }
  void cleanup_graph(CleanupGraphRequest r, const CallOptions& o, ReplyDone<EmptyMessage> d) override {
    record_.reply(str_cat("cleanup_graph ", r.step_id), o, d);
  }
  void cleanup_all(CleanupAllRequest r, const CallOptions& o, ReplyDone<EmptyMessage> d) override {
    record_.reply(str_cat("cleanup_all ", r.containers.size()), o, d);
  }
  void recv_tensor(RecvTensorRequest r, const CallOptions& o, ReplyDone<RecvTensorReply> d) override {
    record_.reply(str_cat("recv_tensor ", r.rendezvous_key), o, d, {Tensor::scalar(3.0f), false, 1});
  }

 private:
  Record& record_;
};

// Straight to a handler; or, when set, always `garbage` back.
class LoopChannel : public Channel {
 public:
  explicit LoopChannel(CallHandler& handler) : handler_(handler) {}
  void call(std::string_view method, Payload request, const CallOptions& options, Done done) override {
    if (!garbage.empty()) return done({}, Payload(garbage));
    IncomingCall call;
    call.method = method;
    call.request = std::move(request);
    call.peer_task = peer_task;
    call.cancellation = options.cancellation;
    handler_.handle(std::move(call), std::move(done));
  }
  std::string describe() const override { return "loop to nowhere"; }

  std::string garbage;
  std::string peer_task;

 private:
  CallHandler& handler_;
};

class Services : public ::testing::Test {
 protected:
  // The answer to raw bytes.
  std::pair<Status, Payload> raw(std::string_view method, std::string bytes) {
    std::pair<Status, Payload> answer{internal_error("no answer"), {}};
    channel_->call(method, Payload(std::move(bytes)), {}, [&answer](Status status, Payload payload) {
      answer = {std::move(status), std::move(payload)};
    });
    return answer;
  }
  // The answer of remote_worker or remote_master to `call(done)`.
  template <typename Reply>
  static Result<Reply> wait(const std::function<void(ReplyDone<Reply>)>& call) {
    int calls = 0;
    Result<Reply> answer = internal_error("no answer");
    call([&](Result<Reply> result) {
      ++calls;
      answer = std::move(result);
    });
    EXPECT_EQ(calls, 1);
    return answer;
  }

  Record record_;
  FakeMaster master_{record_};
  FakeWorker worker_{record_};
  std::unique_ptr<CallHandler> services_ = make_task_services(master_, worker_);
  std::shared_ptr<LoopChannel> channel_ = std::make_shared<LoopChannel>(*services_);
  std::shared_ptr<WorkerInterface> remote_worker_ = make_remote_worker(channel_);
  std::shared_ptr<MasterInterface> remote_master_ = make_remote_master(channel_);
};

TEST_F(Services, EveryMethodOfAWorkerArrives) {
  WorkerInterface& w = *remote_worker_;
  const auto ok = [](const auto& result) { EXPECT_TRUE(result.ok()) << result.status().to_string(); };
  w.get_status({}, [&](Result<GetStatusReply> r) { EXPECT_EQ(r->devices, sample_devices()); });
  EXPECT_EQ(record_.called, "get_status");
  w.create_worker_session({.job = "ps", .task = 3}, {}, ok);
  EXPECT_EQ(record_.called, "create_worker_session ps3");
  w.delete_worker_session({"h"}, {}, ok);
  EXPECT_EQ(record_.called, "delete_worker_session h");
  w.register_graph({.session_handle = "h"}, {},
                   [&](Result<RegisterGraphReply> r) { EXPECT_EQ(r->graph_handle, "g1"); });
  EXPECT_EQ(record_.called, "register_graph h");
  w.deregister_graph({.graph_handle = "g"}, {}, ok);
  EXPECT_EQ(record_.called, "deregister_graph g");
  w.run_graph({.step_id = 9, .sends = sample_tensors()}, {},
              [&](Result<RunGraphReply> r) { EXPECT_EQ(r->recvs.size(), sample_tensors().size()); });
  EXPECT_EQ(record_.called, "run_graph 9");
  w.cleanup_graph({10}, {}, ok);
  EXPECT_EQ(record_.called, "cleanup_graph 10");
  w.cleanup_all({{"a", "b"}}, {}, ok);
  EXPECT_EQ(record_.called, "cleanup_all 2");
  w.recv_tensor({1, "key", 2}, {}, [&](Result<RecvTensorReply> r) { EXPECT_EQ(r->tensor.scalar<float>(), 3); });
  EXPECT_EQ(record_.called, "recv_tensor key");
}

TEST_F(Services, NobodyMakesSessionsInAnothersName) {
  const std::string master = "/job:worker/replica:0/task:0";
  channel_->peer_task = "/job:worker/replica:0/task:1";
  remote_worker_->create_worker_session({.job = "ps", .master_task = master}, {}, [](const Result<EmptyMessage>& r) {
    EXPECT_EQ(r.status().code(), Code::kUnauthenticated);
  });
  EXPECT_EQ(record_.called, "");
  for (const std::string& proved : {std::string(), master}) {
    channel_->peer_task = proved;
    remote_worker_->create_worker_session({.job = "ps", .master_task = master}, {},
                                          [](const Result<EmptyMessage>& r) { EXPECT_TRUE(r.ok()); });
  }
}

TEST_F(Services, EveryMethodOfAMasterArrives) {
  MasterInterface& m = *remote_master_;
  const auto ok = [](const auto& result) { EXPECT_TRUE(result.ok()) << result.status().to_string(); };
  m.create_session({.target = "t"}, {}, [&](Result<CreateSessionReply> r) { EXPECT_EQ(r->session_handle, "created"); });
  EXPECT_EQ(record_.called, "create_session t");
  m.extend_session({.session_handle = "h"}, {},
                   [&](Result<ExtendSessionReply> r) { EXPECT_EQ(r->new_graph_version, 2); });
  EXPECT_EQ(record_.called, "extend_session h");
  m.partial_run_setup({.request_id = 4}, {},
                      [&](Result<PartialRunSetupReply> r) { EXPECT_EQ(r->partial_run_handle, "7"); });
  EXPECT_EQ(record_.called, "partial_run_setup 4");
  m.run_step({.feeds = sample_tensors()}, {}, [&](Result<RunStepReply> r) { EXPECT_EQ(r->tensors[0].first, "x:0"); });
  EXPECT_EQ(record_.called, "run_step");
  m.close_session({"h"}, {}, ok);
  EXPECT_EQ(record_.called, "close_session h");
  m.list_devices({"h"}, {}, [&](Result<ListDevicesReply> r) { EXPECT_EQ(r->local, sample_devices()); });
  EXPECT_EQ(record_.called, "list_devices h");
  m.reset({{"c"}, {}}, {}, ok);
  EXPECT_EQ(record_.called, "reset 1");
  m.make_callable({.signature = sample_signature()}, {}, [&](Result<MakeCallableReply> r) { EXPECT_EQ(r->handle, 5); });
  EXPECT_EQ(record_.called, "make_callable 2");
  m.run_callable({.handle = 5, .feeds = sample_values()}, {},
                 [&](Result<RunCallableReply> r) { EXPECT_EQ(r->fetches.size(), sample_values().size()); });
  EXPECT_EQ(record_.called, "run_callable 5");
  m.release_callable({.handle = 5}, {}, ok);
  EXPECT_EQ(record_.called, "release_callable 5");
}

TEST_F(Services, CancellationReachesTheHandler) {
  Cancellation cancellation;
  remote_worker_->cleanup_graph({1}, {.cancellation = &cancellation}, [](const Result<EmptyMessage>&) {});
  EXPECT_EQ(record_.cancellation, &cancellation);
}

TEST_F(Services, AFailedStepIsInTheBodyWhenAskedFor) {
  record_.answer = out_of_range("end");
  const auto run = [this](bool in_body) {
    return wait<RunGraphReply>([&](ReplyDone<RunGraphReply> done) {
      remote_worker_->run_graph({.store_errors_in_response_body = in_body}, {}, std::move(done));
    });
  };
  const Result<RunGraphReply> in_body = run(true);
  ASSERT_TRUE(in_body.ok());
  EXPECT_EQ(in_body->status, out_of_range("end"));
  EXPECT_EQ(run(false).status(), out_of_range("end"));
}

TEST_F(Services, AStatusInTheReplyFollowsTheSameRule) {
  master_.body = aborted("lost");
  const auto run = [this](bool in_body) {
    return wait<RunStepReply>([&](ReplyDone<RunStepReply> done) {
      remote_master_->run_step({.store_errors_in_response_body = in_body}, {}, std::move(done));
    });
  };
  const Result<RunStepReply> in_body = run(true);
  ASSERT_TRUE(in_body.ok());
  EXPECT_EQ(in_body->status, aborted("lost"));
  EXPECT_EQ(run(false).status(), aborted("lost"));
}

TEST_F(Services, LongMessagesAreCut) {
  record_.answer = aborted(std::string(3071, 'x') + "\xc3\xa9" + std::string(100, 'y'));
  EXPECT_EQ(raw("/tensorflow.WorkerService/CleanupGraph", "").first,
            aborted(std::string(3071, 'x') + " ... [truncated]"));
  record_.answer = aborted(std::string(3072, 'x'));
  EXPECT_EQ(raw("/tensorflow.WorkerService/CleanupGraph", "").first, record_.answer);
}

TEST_F(Services, WhatNeedsNothingIsAnsweredWithNothing) {
  for (const char* name : {"Logging", "MarkRecvFinished"}) {
    const auto [status, payload] = raw(str_cat("/tensorflow.WorkerService/", name), "\x08\x01");
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(payload.size(), 0u);
  }
  EXPECT_EQ(record_.called, "");
}

TEST_F(Services, OtherMethodsAreUnimplemented) {
  for (const char* name : {"Tracing", "RecvBuf", "CompleteGroup", "CompleteInstance", "GetStepSequence"}) {
    const std::string method = str_cat("/tensorflow.WorkerService/", name);
    EXPECT_EQ(raw(method, "").first, unimplemented(method, ": no such method here"));
  }
  EXPECT_EQ(raw("/tensorflow.grpc.MasterService/RunStep", "").first.code(), Code::kUnimplemented);
  EXPECT_EQ(record_.called, "");
}

TEST_F(Services, BadBytesAreTheCallersMistake) {
  EXPECT_EQ(raw("/tensorflow.WorkerService/RunGraph", "\x10").first,
            invalid_argument("/tensorflow.WorkerService/RunGraph: RunGraphRequest.step_id is cut short"));
  EXPECT_EQ(record_.called, "");
}

TEST_F(Services, GarbageFromAPeerNamesThePeer) {
  channel_->garbage = "\x0a";
  const Result<RecvTensorReply> reply = wait<RecvTensorReply>(
      [&](ReplyDone<RecvTensorReply> done) { remote_worker_->recv_tensor({}, {}, std::move(done)); });
  EXPECT_EQ(reply.status(), invalid_argument("/tensorflow.WorkerService/RecvTensor to loop to nowhere: "
                                             "RecvTensorReply.tensor is longer than the message"));
}

}  // namespace tutti::services_test
