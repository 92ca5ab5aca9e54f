// The names under which values of a step meet: "SEND_DEVICE;INCARNATION;RECV_DEVICE;NAME;FRAME:ITERATION", as on
// TensorFlow's wire. The incarnation is that of the sender's device, as 16 hex digits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tutti/core/status.h"

namespace tutti {

struct RendezvousKey {
  std::string send_device;
  std::uint64_t send_incarnation = 0;
  std::string recv_device;
  std::string name;
  std::uint64_t frame = 0;
  std::int64_t iteration = 0;

  // kInvalidArgument, with the text, unless it has five parts and names two devices.
  static Result<RendezvousKey> parse(std::string_view text);
  std::string to_string() const;
  // The part that is the same in every iteration of every loop; what follows it is loop_position().
  std::string prefix() const;
};

// "FRAME:ITERATION", the last part of a key; "0:0" outside of loops.
std::string loop_position(std::uint64_t frame, std::int64_t iteration);

// The task's part of a device name: "/job:ps/replica:0/task:1" of "/job:ps/replica:0/task:1/device:CPU:0". A view of
// `device`; empty when it names no task.
std::string_view task_of(std::string_view device);

}  // namespace tutti
