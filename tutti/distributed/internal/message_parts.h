// Parts of messages that lie on the wire in another form than in messages.h, and parts that several messages have.
#pragma once

#include <string>
#include <type_traits>

#include "tutti/distributed/internal/fields.h"
#include "tutti/distributed/messages.h"

namespace tutti {

// ClusterDef
template <>
struct WireForm<ClusterTasks> {
  static std::string write(const ClusterTasks& cluster);
  static Status read(WireReader bytes, ClusterTasks& cluster);
};

// tensorflow.StepStats. Nodes come back in groups by device, their times to the microsecond when the writer gave no
// better; the step's id does not travel.
template <>
struct WireForm<StepStats> {
  static std::string write(const StepStats& stats);
  static Status read(WireReader bytes, StepStats& stats);
};

// GraphOptions, of which we know whether anything may be optimised.
template <typename F, typename Bool>
void graph_options_fields(F& f, Bool& optimize) {
  f.message(3, "optimizer_options", "OptimizerOptions", [&optimize](auto& inner) {
    std::int32_t level = optimize ? 0 : -1;
    inner.field(3, "opt_level", level);
    if constexpr (!std::is_const_v<Bool>) optimize = level >= 0;
  });
}

template <typename F>
void fields(F& f, Is<StepOptions> auto& options) {
  constexpr std::uint64_t kFullTrace = 3;
  f.flag(1, "trace_level", options.trace, kFullTrace);
  f.field(2, "timeout_in_ms", options.timeout);
  f.field(5, "output_partition_graphs", options.partition_graphs);
}

template <typename F>
void fields(F& f, Is<DeviceInfo> auto& device) {
  f.field(1, "name", device.name);
  f.field(2, "device_type", device.type);
  f.field(4, "memory_limit", device.memory_limit);
  f.fixed64(6, "incarnation", device.incarnation);
  f.field(7, "physical_device_desc", device.description);
}

// RunMetadata
template <typename F>
void fields(F& f, Is<StepReport> auto& report) {
  f.converted(1, "step_stats", report.step_stats);
  f.field(3, "partition_graphs", report.partition_graphs);
}

template <typename F>
void device_fields(F& f, std::uint32_t number, std::string_view name, Is<std::vector<DeviceInfo>> auto& devices) {
  f.repeated(number, name, "DeviceAttributes", devices, [](auto& inner, auto& device) { fields(inner, device); });
}

template <typename F>
void tensor_fields(F& f, std::uint32_t number, std::string_view name, Is<NamedTensors> auto& tensors) {
  f.repeated(number, name, "NamedTensorProto", tensors, [](auto& inner, auto& tensor) {
    inner.field(1, "name", tensor.first);
    inner.tensor(2, "tensor", tensor.second);
  });
}

// kInvalidArgument, with its name, for one that came without its tensor or is about to go so.
Status check_present(std::string_view message, const NamedTensors& tensors);

template <typename Message>
Status check_tensors(std::string_view, const Message&) {
  return {};
}
inline Status check_tensors(std::string_view name, const RunStepRequest& m) { return check_present(name, m.feeds); }
inline Status check_tensors(std::string_view name, const RunStepReply& m) { return check_present(name, m.tensors); }
inline Status check_tensors(std::string_view name, const RunGraphRequest& m) { return check_present(name, m.sends); }
inline Status check_tensors(std::string_view name, const RunGraphReply& m) { return check_present(name, m.recvs); }

// The functions of codec.h for a message that `fields` describes.
#define TUTTI_DEFINE_CODEC(Message)                                                                     \
  Result<Payload> encode(const Message& message) {                                                      \
    TUTTI_RETURN_IF_ERROR(check_tensors(#Message, message));                                            \
    return encode_fields([&message](auto& f) { fields(f, message); });                                  \
  }                                                                                                     \
  Status decode(const Payload& bytes, Message& message) {                                               \
    message = {};                                                                                       \
    TUTTI_RETURN_IF_ERROR(decode_fields(bytes, #Message, [&message](auto& f) { fields(f, message); })); \
    return check_tensors(#Message, message);                                                            \
  }

}  // namespace tutti
