// What messages cost on their way into bytes and out of them.
//
//   EncodeRunGraph       a request with two small tensors and two keys (budget 1 us)
//   DecodeRunGraph       the same, in one piece (budget 1 us)
//   EncodeRecvTensor/N   an answer with N bytes: not copied, so constant
//   DecodeRecvTensor/N   the same bytes from the pieces that encoding gave: not copied
//   CopiedRecvTensor/N   from one misaligned piece: one copy

#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <vector>

#include "tutti/distributed/codec.h"

namespace tutti {
namespace {

RunGraphRequest small_request() {
  RunGraphRequest request;
  request.session_handle = "0123456789abcdef";
  request.graph_handle = "0000000000000001";
  request.create_worker_session_called = true;
  request.store_errors_in_response_body = true;
  request.step_id = 1LL << 55;
  request.request_id = 1LL << 60;
  const std::string device = "/job:worker/replica:0/task:0/device:CPU:0";
  request.sends = {{device + ";0123456789abcdef;" + device + ";x:0;0:0", Tensor(DType::kFloat, Shape{2, 4})},
                   {device + ";0123456789abcdef;" + device + ";y:0;0:0", Tensor::scalar(1.0f)}};
  request.recv_keys = {device + ";0123456789abcdef;" + device + ";loss:0;0:0",
                       device + ";0123456789abcdef;" + device + ";step:0;0:0"};
  return request;
}

void EncodeRunGraph(benchmark::State& state) {
  const RunGraphRequest request = small_request();
  for (auto _ : state) {
    Result<Payload> bytes = encode(request);
    benchmark::DoNotOptimize(bytes);
  }
}
BENCHMARK(EncodeRunGraph);

void DecodeRunGraph(benchmark::State& state) {
  const Payload bytes = encode(small_request()).value_or_throw();
  RunGraphRequest request;
  for (auto _ : state) throw_if_error(decode(bytes, request));
  if (request.sends.size() != 2 || request.recv_keys.size() != 2) state.SkipWithError("wrong message");
}
BENCHMARK(DecodeRunGraph);

RecvTensorReply reply_of(std::int64_t bytes) { return {Tensor(DType::kFloat, Shape{bytes / 4}), false, 1}; }

void EncodeRecvTensor(benchmark::State& state) {
  const RecvTensorReply reply = reply_of(state.range(0));
  for (auto _ : state) {
    Result<Payload> bytes = encode(reply);
    benchmark::DoNotOptimize(bytes);
  }
}
BENCHMARK(EncodeRecvTensor)->Arg(64)->Arg(1 << 10)->Arg(1 << 24);

void decode_all(benchmark::State& state, const Payload& bytes) {
  RecvTensorReply reply;
  for (auto _ : state) throw_if_error(decode(bytes, reply));
  if (static_cast<std::int64_t>(reply.tensor.bytes()) != state.range(0)) state.SkipWithError("wrong tensor");
}

void DecodeRecvTensor(benchmark::State& state) { decode_all(state, encode(reply_of(state.range(0))).value_or_throw()); }
BENCHMARK(DecodeRecvTensor)->Arg(64)->Arg(1 << 10)->Arg(1 << 24);

void CopiedRecvTensor(benchmark::State& state) {
  const std::string bytes = encode(reply_of(state.range(0))).value_or_throw().flatten();
  const std::size_t header = bytes.size() - static_cast<std::size_t>(state.range(0));
  // The elements come to lie one byte past an aligned place.
  const auto store = std::make_shared<std::vector<char>>(bytes.size() + 16);
  const std::size_t at = (reinterpret_cast<std::uintptr_t>(store->data()) + header) % 8;
  char* begin = store->data() + (9 - at) % 8;
  std::memcpy(begin, bytes.data(), bytes.size());
  Payload payload;
  payload.append(std::as_bytes(std::span(begin, bytes.size())), store);
  decode_all(state, payload);
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(CopiedRecvTensor)->Arg(1 << 10)->Arg(1 << 24);

}  // namespace
}  // namespace tutti
