#include "tutti/distributed/codec.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <random>

#include "proto/master.pb.h"
#include "proto/tutti_task.pb.h"
#include "proto/worker.pb.h"
#include "tests/distributed/message_samples.h"
#include "tests/support/variant_budgets.h"
#include "tests/support/variant_values.h"
#include "tutti/distributed/internal/tensor_wire.h"
#include "tutti/graph/tensor_bytes.h"
#include "tutti/graph/tensor_codec.h"

namespace tutti::codec_test {

namespace tf = tensorflow;
using namespace testing;

template <typename Message>
std::string bytes_of(const Message& message) {
  Result<Payload> payload = encode(message);
  EXPECT_TRUE(payload.ok()) << payload.status().to_string();
  return payload.ok() ? payload->flatten() : std::string();
}

template <typename Message>
Message decoded(const Payload& bytes) {
  Message message;
  const Status status = decode(bytes, message);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return message;
}

template <typename Message>
Status decode_error(std::string bytes) {
  Message message;
  return decode(Payload(std::move(bytes)), message);
}

// The same bytes, cut at random.
Payload in_pieces(const std::string& bytes, std::mt19937& random, std::size_t max_piece) {
  Payload payload;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t size = 1 + random() % max_piece;
    payload.append(bytes.substr(at, size));
    at += size;
  }
  return payload;
}

std::string deterministic(const google::protobuf::MessageLite& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return bytes;
}

// --- Agreement with protobuf, byte for byte ---

template <typename Proto>
void expect_same_bytes(const std::string& ours) {
  Proto proto;
  ASSERT_TRUE(proto.ParseFromString(ours)) << Proto::descriptor()->name();
  proto.DiscardUnknownFields();
  EXPECT_EQ(deterministic(proto), ours) << proto.ShortDebugString();
}

template <typename Message>
struct ProtoOf;
#define PROTO_OF(Message, Proto) \
  template <>                    \
  struct ProtoOf<Message> {      \
    using type = tf::Proto;      \
  };
PROTO_OF(CreateSessionRequest, CreateSessionRequest)
PROTO_OF(CreateSessionReply, CreateSessionResponse)
PROTO_OF(ExtendSessionRequest, ExtendSessionRequest)
PROTO_OF(ExtendSessionReply, ExtendSessionResponse)
PROTO_OF(RunStepRequest, RunStepRequest)
PROTO_OF(RunStepReply, RunStepResponse)
PROTO_OF(PartialRunSetupRequest, PartialRunSetupRequest)
PROTO_OF(PartialRunSetupReply, PartialRunSetupResponse)
PROTO_OF(CloseSessionRequest, CloseSessionRequest)
PROTO_OF(ListDevicesRequest, ListDevicesRequest)
PROTO_OF(ListDevicesReply, ListDevicesResponse)
PROTO_OF(ResetRequest, ResetRequest)
PROTO_OF(MakeCallableRequest, MakeCallableRequest)
PROTO_OF(MakeCallableReply, MakeCallableResponse)
PROTO_OF(RunCallableRequest, RunCallableRequest)
PROTO_OF(RunCallableReply, RunCallableResponse)
PROTO_OF(ReleaseCallableRequest, ReleaseCallableRequest)
PROTO_OF(GetStatusReply, GetStatusResponse)
PROTO_OF(CreateWorkerSessionRequest, CreateWorkerSessionRequest)
PROTO_OF(DeleteWorkerSessionRequest, DeleteWorkerSessionRequest)
PROTO_OF(RegisterGraphRequest, RegisterGraphRequest)
PROTO_OF(RegisterGraphReply, RegisterGraphResponse)
PROTO_OF(DeregisterGraphRequest, DeregisterGraphRequest)
PROTO_OF(RunGraphRequest, RunGraphRequest)
PROTO_OF(RunGraphReply, RunGraphResponse)
PROTO_OF(CleanupGraphRequest, CleanupGraphRequest)
PROTO_OF(CleanupAllRequest, CleanupAllRequest)
PROTO_OF(RecvTensorRequest, RecvTensorRequest)
PROTO_OF(RecvTensorReply, RecvTensorResponse)
PROTO_OF(EmptyMessage, GetStatusRequest)
#undef PROTO_OF
template <>
struct ProtoOf<RecvTensorsRequest> {
  using type = RecvTensorsRequestProto;
};
template <>
struct ProtoOf<RecvTensorsReply> {
  using type = RecvTensorsReplyProto;
};

TEST(Codec, WritesProtobufsBytes) {
  each_sample([]<typename Message>(const Message& message) {
    expect_same_bytes<typename ProtoOf<Message>::type>(bytes_of(message));
  });
}

TEST(Codec, DefaultsAreNoBytes) {
  EXPECT_EQ(bytes_of(RunGraphRequest{}), "");
  EXPECT_EQ(bytes_of(RunStepReply{}), "");
  EXPECT_EQ(bytes_of(CreateSessionRequest{}), "");
  EXPECT_EQ(bytes_of(RegisterGraphRequest{}), "");
  EXPECT_TRUE(decoded<RegisterGraphRequest>({}).optimize);
  EXPECT_TRUE(decoded<CreateSessionRequest>({}).config.optimize);
}

TEST(Codec, WhatOurClientsAddToCreateSessionIsSkippedByTensorFlow) {
  CreateSessionRequest request{.graph_def = {}, .config = {}, .target = "grpc://h:1"};
  const std::string plain = bytes_of(request);
  request.fail_fast = true;
  const std::string bytes = bytes_of(request);
  EXPECT_TRUE(decoded<CreateSessionRequest>(Payload(bytes)).fail_fast);
  EXPECT_FALSE(decoded<CreateSessionRequest>(Payload(plain)).fail_fast);
  tf::CreateSessionRequest proto;
  ASSERT_TRUE(proto.ParseFromString(bytes));
  proto.DiscardUnknownFields();
  EXPECT_EQ(proto.SerializeAsString(), plain);
}

TEST(Codec, EveryMessageSurvivesAnyCut) {
  std::mt19937 random(1);
  each_sample([&random]<typename Message>(const Message& message) {
    const std::string bytes = bytes_of(message);
    for (std::size_t max_piece :
         {std::size_t{1}, std::size_t{3}, std::size_t{17}, std::size_t{400}, bytes.size() + 1}) {
      EXPECT_EQ(bytes_of(decoded<Message>(in_pieces(bytes, random, max_piece))), bytes);
    }
  });
}

TEST(Codec, ProtobufReadsTheValues) {
  tf::RunGraphRequest proto;
  each_sample([&proto]<typename Message>(const Message& message) {
    if constexpr (std::is_same_v<Message, RunGraphRequest>) {
      ASSERT_TRUE(proto.ParseFromString(bytes_of(message)));
    }
  });
  EXPECT_EQ(proto.graph_handle(), "graph");
  EXPECT_EQ(proto.session_handle(), "handle");
  EXPECT_EQ(proto.step_id(), 1LL << 56);
  EXPECT_EQ(proto.request_id(), INT64_MAX);
  EXPECT_TRUE(proto.exec_opts().record_timeline());
  EXPECT_TRUE(proto.exec_opts().record_partition_graphs());
  const NamedTensors expected = sample_tensors();
  ASSERT_EQ(proto.send_size(), static_cast<int>(expected.size()));
  for (int i = 0; i < proto.send_size(); ++i) {
    EXPECT_EQ(proto.send(i).name(), expected[i].first);
    EXPECT_TRUE(bitwise_equal(decode_tensor(proto.send(i).tensor()).value_or_throw(), expected[i].second)) << i;
  }
}

TEST(Codec, ReadsWhatProtobufWritesWithFieldsOfOthers) {
  tf::CreateSessionRequest proto;
  proto.mutable_graph_def()->mutable_versions()->set_producer(9);
  proto.set_target("grpc://h:1");
  tf::ConfigProto& config = *proto.mutable_config();
  (*config.mutable_device_count())["CPU"] = 4;
  config.set_intra_op_parallelism_threads(3);
  config.add_device_filters("/job:ps");
  config.add_session_inter_op_thread_pool()->set_num_threads(2);
  config.mutable_graph_options()->mutable_optimizer_options()->set_opt_level(tf::OptimizerOptions::L0);
  config.mutable_experimental()->set_executor_type("x");
  config.set_operation_timeout_in_ms(-5);
  tf::JobDef& job = *config.mutable_cluster_def()->add_job();
  job.set_name("ps");
  (*job.mutable_tasks())[0] = "h:0";
  std::string bytes = proto.SerializeAsString();
  bytes += std::string(
      "\xf8\x3f\x01\xf9\x3f"
      "12345678"
      "\xfd\x3f"
      "1234"
      "\xfa\x3f\x02"
      "ab",
      24);  // field 1023
  const auto request = decoded<CreateSessionRequest>(Payload(bytes));
  EXPECT_EQ(request.graph_def, proto.graph_def().SerializeAsString());
  EXPECT_EQ(request.target, "grpc://h:1");
  EXPECT_EQ(request.config.device_filters, std::vector<std::string>{"/job:ps"});
  EXPECT_TRUE(request.config.per_session_threads);
  EXPECT_FALSE(request.config.optimize);
  EXPECT_EQ(request.config.operation_timeout.count(), 0);
  EXPECT_EQ(request.config.cluster, (ClusterTasks{{"ps", {{0, "h:0"}}}}));
}

TEST(Codec, FieldsComeInAnyOrderAndTheLastValueCounts) {
  // request_id, step_id, step_id again, graph_handle
  const auto request = decoded<RunGraphRequest>(Payload(std::string("\x58\x07\x10\x01\x10\x02\x0a\x01g")));
  EXPECT_EQ(request.request_id, 7);
  EXPECT_EQ(request.step_id, 2);
  EXPECT_EQ(request.graph_handle, "g");
  // The text of a status before its code.
  const auto reply = decoded<RunGraphReply>(Payload(std::string("\x32\x03why\x28\x0a")));
  EXPECT_EQ(reply.status, aborted("why"));
  EXPECT_EQ(decoded<RunGraphReply>(Payload(std::string("\x28\x63"))).status.code(), Code::kUnknown);
}

// --- Tensors ---

Tensor patterned(DType dtype, const Shape& shape) {
  Tensor tensor(dtype, shape);
  if (dtype == DType::kString) {
    int i = 0;
    for (std::string& value : tensor.flat<std::string>()) value = std::string(static_cast<std::size_t>(i++ * 37), 's');
  } else if (dtype == DType::kResource) {
    for (ResourceHandle& value : tensor.flat<ResourceHandle>()) value = {"/cpu:0", "", "w"};
  } else if (dtype != DType::kVariant) {
    auto* bytes = static_cast<std::uint8_t*>(tensor.raw());
    for (std::size_t i = 0; i < tensor.bytes(); ++i) {
      bytes[i] = static_cast<std::uint8_t>(dtype == DType::kBool ? i % 2 : i * 7 + 1);
    }
  }
  return tensor;
}

TEST(Codec, TensorsOfEveryTypeAndShape) {
  std::mt19937 random(2);
  for (int number = 1; number <= kMaxDType; ++number) {
    if (!is_valid_dtype(number)) continue;
    const auto dtype = static_cast<DType>(number);
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{3}, Shape{2, 0, 5}, Shape{2, 3, 4}, Shape{1000}}) {
      const Tensor tensor = patterned(dtype, shape);
      const RecvTensorReply reply{tensor, false, 0};
      const std::string bytes = bytes_of(reply);
      tf::RecvTensorResponse proto;
      ASSERT_TRUE(encode_tensor(tensor, proto.mutable_tensor()).ok());
      EXPECT_EQ(bytes, proto.SerializeAsString()) << tensor.to_string();
      EXPECT_TRUE(bitwise_equal(decoded<RecvTensorReply>(Payload(bytes)).tensor, tensor)) << tensor.to_string();
      EXPECT_TRUE(bitwise_equal(decoded<RecvTensorReply>(in_pieces(bytes, random, 100)).tensor, tensor));
    }
  }
}

TEST(Codec, TypedValuesAreRead) {
  tf::RecvTensorResponse proto;
  proto.mutable_tensor()->set_dtype(tf::DT_FLOAT);
  proto.mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(4);
  proto.mutable_tensor()->add_float_val(1);
  proto.mutable_tensor()->add_float_val(2);
  EXPECT_TRUE(bitwise_equal(decoded<RecvTensorReply>(Payload(proto.SerializeAsString())).tensor,
                            Tensor::vector<float>({1, 2, 2, 2})));
  proto.mutable_tensor()->mutable_tensor_shape()->mutable_dim(0)->set_size(1LL << 40);
  EXPECT_EQ(decode_error<RecvTensorReply>(proto.SerializeAsString()).code(), Code::kResourceExhausted);
}

class Thing : public VariantObject {
 public:
  std::string type_name() const override { return "Thing"; }
  std::string debug_string() const override { return "thing"; }
};

std::string text_of(const Payload& bytes) { return whole_text(decoded<RecvTensorReply>(bytes).tensor); }

TEST(Codec, VariantsOfEveryKind) {
  std::mt19937 random(6);
  for (const Tensor& sample : variant_samples()) {
    const std::string bytes = bytes_of(RecvTensorReply{sample, false, 0});
    tf::RecvTensorResponse proto;
    ASSERT_TRUE(encode_tensor(sample, proto.mutable_tensor()).ok());
    EXPECT_EQ(bytes, proto.SerializeAsString());
    EXPECT_EQ(text_of(Payload(bytes)), whole_text(sample));
    for (const std::size_t piece : {3, 100}) EXPECT_EQ(text_of(in_pieces(bytes, random, piece)), whole_text(sample));
  }
}

// TensorFlow packs the variants, and their numbers not at all.
TEST(Codec, VariantsAsTensorFlowSendsThem) {
  std::mt19937 random(7);
  for (const Tensor& sample : variant_samples()) {
    tf::RecvTensorResponse proto;
    ASSERT_TRUE(
        proto.mutable_tensor()->ParseFromString(tensor_to_bytes(sample, StringElements::kField).value_or_throw()));
    const std::string bytes = proto.SerializeAsString();
    EXPECT_EQ(text_of(Payload(bytes)), whole_text(sample));
    EXPECT_EQ(text_of(in_pieces(bytes, random, 50)), whole_text(sample));
  }
}

TEST(Codec, TheLastVariantRepeats) {
  tf::RecvTensorResponse proto;
  ASSERT_TRUE(encode_tensor(optional_of({}), proto.mutable_tensor()).ok());
  proto.mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(3);
  const Tensor three = decoded<RecvTensorReply>(Payload(proto.SerializeAsString())).tensor;
  for (const Variant& element : three.flat<Variant>()) EXPECT_NE(element.get<Optional>(), nullptr);
  proto.mutable_tensor()->mutable_tensor_shape()->mutable_dim(0)->set_size(1LL << 40);
  EXPECT_EQ(decode_error<RecvTensorReply>(proto.SerializeAsString()).code(), Code::kResourceExhausted);
}

TEST(Codec, TensorsInVariantsLieOverTheMessage) {
  const Tensor large = patterned(DType::kFloat, {100'000});
  const Payload sent = encode(RecvTensorReply{list_of(DType::kFloat, {-1}, {large}), false, 0}).value_or_throw();
  const Tensor received = decoded<RecvTensorReply>(sent).tensor;
  const Tensor item = received.scalar<Variant>().get<TensorList>()->item(0);
  EXPECT_EQ(item.raw(), large.raw());
  EXPECT_FALSE(item.unique());
}

TEST(Codec, DamagedVariants) {
  std::mt19937 random(8);
  const std::string bytes = bytes_of(RecvTensorReply{variant_samples()[8], false, 0});
  for (std::size_t i = 3; i < bytes.size(); ++i) {
    EXPECT_EQ(decode_error<RecvTensorReply>(bytes.substr(0, i)).code(), Code::kInvalidArgument) << i;
    for (int round = 0; round < 20; ++round) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(random());
      (void)decode_error<RecvTensorReply>(changed);
    }
  }
  tf::RecvTensorResponse proto;
  proto.mutable_tensor()->set_dtype(tf::DT_VARIANT);
  proto.mutable_tensor()->add_variant_val()->set_type_name("tensorflow::DatasetVariantWrapper");
  const Status unknown = decode_error<RecvTensorReply>(proto.SerializeAsString());
  EXPECT_EQ(unknown.code(), Code::kUnimplemented);
  EXPECT_NE(unknown.message().find("DatasetVariantWrapper"), std::string::npos);
}

// An optional in an optional, `depth` times; packed or not.
std::string nested_optionals(int depth, bool packed) {
  const auto length = [](std::size_t bytes) {
    std::string text;
    for (; bytes >= 0x80; bytes >>= 7) text.push_back(static_cast<char>(bytes | 0x80));
    return text + static_cast<char>(bytes);
  };
  std::string tensor = "\x08\x15";
  for (int i = 0; i < depth; ++i) {
    const std::string variant = "\x0a\x1atensorflow::data::Optional\x12\x01\x01\x1a" + length(tensor.size()) + tensor;
    const std::string element = length(variant.size()) + variant;
    tensor = packed ? "\x08\x15\x22" + length(element.size()) + element : "\x08\x15\x7a" + element;
  }
  return "\x0a" + length(tensor.size()) + tensor;
}

TEST(Codec, TheDepthOfVariantsIsLimited) {
  for (const bool packed : {false, true}) {
    EXPECT_TRUE(decode_error<RecvTensorReply>(nested_optionals(40, packed)).ok());
    for (const int depth : {41, 2000}) {
      const Status status = decode_error<RecvTensorReply>(nested_optionals(depth, packed));
      EXPECT_EQ(status.code(), Code::kInvalidArgument);
      EXPECT_NE(status.message().find("deep in one another"), std::string::npos) << status.to_string();
    }
  }
}

// Four bytes each, which become a tensor each.
TEST(Codec, TheNumberOfTensorsInVariantsIsLimited) {
  tf::TensorProto proto;
  proto.set_dtype(tf::DT_VARIANT);
  tf::VariantTensorDataProto* variant = proto.add_variant_val();
  variant->set_type_name("tensorflow::data::Optional");
  variant->set_metadata("\1");
  for (int i = 0; i < 100; ++i) variant->add_tensors()->set_dtype(tf::DT_FLOAT);
  const Payload bytes(proto.SerializeAsString());
  ExpansionBudget enough{.bytes_left = 30'000};
  EXPECT_TRUE(read_tensor(WireReader(bytes), enough).ok());
  EXPECT_EQ(enough.variants_around, 0);
  ExpansionBudget few{.bytes_left = 20'000};
  EXPECT_EQ(read_tensor(WireReader(bytes), few).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(few.variants_around, 0);
}

// A byte each, which becomes an item.
TEST(Codec, TheNumberOfItemsThatWereNeverSetIsLimited) {
  WireWriter out;
  ASSERT_TRUE(write_tensor(list_of(DType::kFloat, PartialShape(), std::vector<Tensor>(1000)), out).ok());
  const Payload bytes = std::move(out).finish();
  ExpansionBudget enough{.bytes_left = 16 + 1000 * std::int64_t{sizeof(Tensor) + 8}};
  EXPECT_TRUE(read_tensor(WireReader(bytes), enough).ok());
  ExpansionBudget few{.bytes_left = 1000 * std::int64_t{sizeof(Tensor)}};
  EXPECT_EQ(read_tensor(WireReader(bytes), few).status().code(), Code::kResourceExhausted);
}

TEST(Codec, VariantsThatMayBeWrittenCanBeRead) {
  for (const Tensor& sample : variants_to_count()) {
    WireWriter out;
    ASSERT_TRUE(write_tensor(sample, out).ok());
    const Payload bytes = std::move(out).finish();
    ExpansionBudget budget{.bytes_left = smallest_budget(sample)};
    const Result<Tensor> back = read_tensor(WireReader(bytes), budget);
    ASSERT_TRUE(back.ok()) << back.status().to_string();
    EXPECT_EQ(whole_text(*back), whole_text(sample));
  }
}

TEST(Codec, WhatHasNoBytesIsRefused) {
  const RecvTensorReply reply{Tensor::scalar(Variant(std::make_shared<Thing>())), false, 0};
  EXPECT_EQ(encode(reply).status().code(), Code::kUnimplemented);
  EXPECT_EQ(encode(RecvTensorReply{}).status().code(), Code::kInvalidArgument);
  RunGraphRequest request;
  request.sends.emplace_back("empty", Tensor());
  EXPECT_EQ(encode(request).status(), invalid_argument("RunGraphRequest: \"empty\" has no tensor"));
  EXPECT_EQ(encode(RunCallableRequest{.session_handle = "h", .feeds = {Tensor()}}).status().code(),
            Code::kInvalidArgument);
}

TEST(Codec, ADeadValueNeedsNoTensor) {
  const auto reply = decoded<RecvTensorReply>(encode(RecvTensorReply{{}, true, 5}).value_or_throw());
  EXPECT_TRUE(reply.is_dead);
  EXPECT_EQ(reply.send_start_micros, 5);
  EXPECT_TRUE(bitwise_equal(reply.tensor, Tensor(DType::kFloat, Shape{0})));
}

// --- No copies ---

TEST(Codec, LargeTensorsAreNotCopied) {
  Tensor tensor = patterned(DType::kFloat, Shape{1000});
  const void* memory = tensor.raw();
  RunGraphRequest request;
  request.sends = {{"a", Tensor::scalar(1.0f)}, {"b", tensor}, {"c", Tensor::scalar(2.0f)}};
  RunGraphRequest copy;
  {
    const Payload payload = encode(request).value_or_throw();
    ASSERT_EQ(payload.pieces().size(), 3u);
    EXPECT_EQ(payload.pieces()[1].bytes.data(), memory);
    EXPECT_EQ(payload.pieces()[0].owner, payload.pieces()[2].owner);
    copy = decoded<RunGraphRequest>(payload);
  }
  request = {};
  tensor.reset();
  Tensor& received = copy.sends[1].second;
  EXPECT_EQ(received.raw(), memory);
  EXPECT_FALSE(received.unique()) << "a kernel could write into the sender's memory";
  EXPECT_TRUE(bitwise_equal(received, patterned(DType::kFloat, Shape{1000})));
  EXPECT_TRUE(copy.sends[0].second.unique()) << "small ones have memory of their own";
  EXPECT_TRUE(copy.sends[0].second.buffer() != copy.sends[2].second.buffer());
}

TEST(Codec, LargeStringsAreNotCopiedOnTheWayOut) {
  const Tensor tensor = Tensor::vector<std::string>({"small", std::string(5000, 'x')});
  const Payload payload = encode(RecvTensorReply{tensor, false, 0}).value_or_throw();
  ASSERT_EQ(payload.pieces().size(), 2u);
  EXPECT_EQ(static_cast<const void*>(payload.pieces()[1].bytes.data()), tensor.data<std::string>()[1].data());
}

TEST(Codec, MisalignedElementsAreCopied) {
  const Tensor tensor = patterned(DType::kFloat, Shape{1000});
  const std::string bytes = bytes_of(RecvTensorReply{tensor, false, 0});
  for (std::size_t shift = 0; shift < 8; ++shift) {
    const auto store = std::make_shared<std::vector<std::uint64_t>>(bytes.size() / 8 + 2);
    auto* begin = reinterpret_cast<std::byte*>(store->data()) + shift;
    std::memcpy(begin, bytes.data(), bytes.size());
    Payload payload;
    payload.append(std::span<const std::byte>(begin, bytes.size()), store);
    const auto reply = decoded<RecvTensorReply>(payload);
    EXPECT_TRUE(bitwise_equal(reply.tensor, tensor));
    const auto offset = static_cast<const std::byte*>(reply.tensor.raw()) - begin;
    const bool borrowed = offset >= 0 && offset < static_cast<std::ptrdiff_t>(bytes.size());
    EXPECT_EQ(borrowed, (shift + bytes.size() - tensor.bytes()) % 4 == 0) << shift;
  }
}

// A peer could make an index wrong after a kernel has found it right.
TEST(Codec, WhatAPeerCouldStillChangeIsCopied) {
  const auto borrows = [](DType dtype, std::int64_t elements) {
    const Tensor tensor = patterned(dtype, Shape{elements});
    const Payload sent = encode(RecvTensorReply{tensor, false, 0}).value_or_throw();
    Payload lent;
    for (const Payload::Piece& piece : sent.pieces()) lent.append(piece.bytes, piece.owner, /*lent=*/true);
    const auto reply = decoded<RecvTensorReply>(lent);
    EXPECT_TRUE(bitwise_equal(reply.tensor, tensor));
    EXPECT_EQ(decoded<RecvTensorReply>(sent).tensor.raw(), tensor.raw());
    return reply.tensor.raw() == tensor.raw();
  };
  EXPECT_TRUE(borrows(DType::kFloat, 100'000));
  EXPECT_TRUE(borrows(DType::kBfloat16, 100'000));
  EXPECT_TRUE(borrows(DType::kComplex64, 100'000));
  EXPECT_FALSE(borrows(DType::kFloat, 1000));
  for (const DType dtype : {DType::kInt32, DType::kInt64, DType::kUint8, DType::kBool, DType::kQint8}) {
    EXPECT_FALSE(borrows(dtype, 100'000)) << dtype_name(dtype);
  }
}

TEST(Codec, ASmallPartDoesNotKeepALargeMessage) {
  RunGraphReply reply;
  reply.recvs = {{"small", patterned(DType::kFloat, Shape{100})}, {"large", patterned(DType::kFloat, Shape{100000})}};
  const Payload payload(bytes_of(reply));
  const auto copy = decoded<RunGraphReply>(payload);
  EXPECT_TRUE(copy.recvs[0].second.unique());
}

TEST(Codec, BytesThatAreNoBoolsAreCopiedAndCorrected) {
  Tensor tensor(DType::kBool, Shape{512});
  static_cast<std::uint8_t*>(tensor.raw())[500] = 7;
  const Payload payload = encode(RecvTensorReply{tensor, false, 0}).value_or_throw();
  const auto reply = decoded<RecvTensorReply>(payload);
  EXPECT_NE(reply.tensor.raw(), tensor.raw());
  EXPECT_EQ(static_cast<const std::uint8_t*>(reply.tensor.raw())[500], 1);
}

TEST(Codec, TensorsOverTwoGigabytes) {
  const std::size_t size = (std::size_t{3} << 30) + 5;
  void* memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  {
    const Tensor tensor(DType::kUint8, Shape{static_cast<std::int64_t>(size)}, std::make_shared<Buffer>(memory, size));
    const Payload payload = encode(RecvTensorReply{tensor, true, 42}).value_or_throw();
    EXPECT_GT(payload.size(), size);
    const auto reply = decoded<RecvTensorReply>(payload);
    EXPECT_EQ(reply.tensor.raw(), memory);
    EXPECT_EQ(reply.tensor.shape(), tensor.shape());
    EXPECT_EQ(reply.send_start_micros, 42);
  }
  munmap(memory, size);
}

TEST(Codec, ListsOverTwoGigabytesAreRefused) {
  // Many times the same string, each a piece over the same memory.
  const auto store = std::make_shared<const std::string>(1 << 24, 'x');
  const std::size_t count = 130;
  const std::string item_header("\x42\x80\x80\x80\x08", 5);
  const std::uint64_t tensor_size = 2 + count * (store->size() + item_header.size());
  std::string header("\x0a", 1);
  for (std::uint64_t rest = tensor_size; rest != 0; rest >>= 7) {
    header.push_back(static_cast<char>((rest & 0x7f) | (rest >= 0x80 ? 0x80 : 0)));
  }
  Payload payload(header + std::string("\x08\x07"));
  for (std::size_t i = 0; i < count; ++i) {
    payload.append(item_header);
    payload.append(std::as_bytes(std::span(*store)), store);
  }
  RecvTensorReply reply;
  const Status status = decode(payload, reply);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("2147483647"), std::string::npos) << status.to_string();
}

// --- What is malformed ---

TEST(Codec, ErrorsNameMessageAndField) {
  const auto text = [](const Status& status) { return status.to_string(); };
  EXPECT_EQ(text(decode_error<RunGraphRequest>("\x10\xff")), "InvalidArgument: RunGraphRequest.step_id is cut short");
  EXPECT_EQ(text(decode_error<RunGraphRequest>("\x12\x01x")),
            "InvalidArgument: RunGraphRequest.step_id has the wrong wire type");
  EXPECT_EQ(text(decode_error<RunGraphRequest>("\x0a\x05x")),
            "InvalidArgument: RunGraphRequest.graph_handle is longer than the message");
  EXPECT_EQ(text(decode_error<RunGraphRequest>("\x1a\x02\x10\x01")),
            "InvalidArgument: RunGraphRequest.send: NamedTensorProto.tensor has the wrong wire type");
  EXPECT_EQ(text(decode_error<RunGraphRequest>("\x1a\x03\x0a\x01k")),
            "InvalidArgument: RunGraphRequest: \"k\" has no tensor");
  EXPECT_EQ(
      text(decode_error<RecvTensorReply>(std::string("\x0a\x07\x08\x01\x12\x00\x22\x01x", 9))),
      "InvalidArgument: RecvTensorReply.tensor: TensorProto.tensor_content has 1 bytes, float [] needs 1 times 4");
  EXPECT_EQ(text(decode_error<RecvTensorReply>(std::string("\x0a\x02\x08\x63", 4))),
            "InvalidArgument: RecvTensorReply.tensor: TensorProto.dtype: unknown type 99");
  EXPECT_EQ(text(decode_error<RunStepRequest>(std::string("\x00\x01", 2))),
            "InvalidArgument: RunStepRequest: the tag after field 0 is malformed");
  EXPECT_EQ(decode_error<RunStepRequest>("\x9b\x06").code(), Code::kInvalidArgument) << "a group";
}

TEST(Codec, RandomDamageNeverCrashes) {
  std::mt19937 random(3);
  each_sample([&random]<typename Message>(const Message& message) {
    const std::string good = bytes_of(message);
    for (int round = 0; round < 300; ++round) {
      std::string bytes = good;
      for (std::size_t hits = 1 + random() % 4; hits > 0 && !bytes.empty(); --hits) {
        const std::size_t at = random() % bytes.size();
        switch (random() % 3) {
          case 0:
            bytes[at] = static_cast<char>(random());
            break;
          case 1:
            bytes.erase(at, 1 + random() % 3);
            break;
          default:
            bytes.insert(at, 1, static_cast<char>(random()));
        }
      }
      Message damaged;
      if (decode(in_pieces(bytes, random, 64), damaged).ok()) {
        EXPECT_TRUE(encode(damaged).ok());
      }
    }
    for (std::size_t size = 0; size < good.size(); size += 1 + good.size() / 200) {
      Message cut;
      (void)decode(Payload(good.substr(0, size)), cut);
    }
  });
}

// --- Parts ---

TEST(Codec, StepStatsKeepTimesOpsAndDevices) {
  RunStepReply reply;
  reply.report = sample_report();
  const StepStats back = decoded<RunStepReply>(encode(reply).value_or_throw()).report.step_stats;
  const StepStats& expected = reply.report.step_stats;
  EXPECT_EQ(back.start_micros, expected.start_micros);
  ASSERT_EQ(back.nodes.size(), expected.nodes.size());
  for (std::size_t i = 0; i < back.nodes.size(); ++i) {
    EXPECT_EQ(back.nodes[i].name, expected.nodes[i].name);
    EXPECT_EQ(back.nodes[i].op, expected.nodes[i].op);
    EXPECT_EQ(back.nodes[i].device, expected.nodes[i].device);
    EXPECT_EQ(back.nodes[i].start_nanos, expected.nodes[i].start_nanos);
    EXPECT_EQ(back.nodes[i].end_nanos, expected.nodes[i].end_nanos);
    EXPECT_EQ(back.nodes[i].thread, expected.nodes[i].thread);
  }
  tf::RunStepResponse proto;
  ASSERT_TRUE(proto.ParseFromString(bytes_of(reply)));
  const tf::NodeExecStats& node = proto.metadata().step_stats().dev_stats(0).node_stats(1);
  EXPECT_EQ(node.all_start_micros(), 1'700'000'000'000'003);
  EXPECT_EQ(node.op_start_rel_micros(), 0);
  EXPECT_EQ(node.op_end_rel_micros(), 6);
  EXPECT_EQ(node.all_end_rel_micros(), 6);
  EXPECT_EQ(node.timeline_label(), "b = Add()");
}

TEST(Codec, StepStatsOfHostileTimesDoNotOverflow) {
  tf::RunGraphResponse proto;
  tf::DeviceStepStats& device = *proto.mutable_step_stats()->add_dev_stats();
  for (std::int64_t time : {INT64_MIN, INT64_MAX, std::int64_t{-1}}) {
    tf::NodeExecStats& node = *device.add_node_stats();
    node.set_all_start_micros(time);
    node.set_all_end_rel_micros(time);
    device.add_node_stats()->set_all_start_nanos(time);
  }
  const auto reply = decoded<RunGraphReply>(Payload(proto.SerializeAsString()));
  EXPECT_EQ(reply.report.step_stats.nodes.size(), 6u);
  EXPECT_TRUE(encode(reply).ok());
}

TEST(Codec, ErrorTextsBecomeUtf8) {
  const RunStepReply reply{.tensors = {}, .report = {}, .status = aborted("a\xff\xc3z\xe2\x82\xac\xed\xa0\x80\xf0")};
  tf::RunStepResponse proto;
  ASSERT_TRUE(proto.ParseFromString(bytes_of(reply)));
  EXPECT_EQ(proto.status_error_message(), "a??z\xe2\x82\xac????");
}

}  // namespace tutti::codec_test
