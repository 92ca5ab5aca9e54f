// Device names: "/job:worker/replica:0/task:1/device:CPU:0", whole or in part.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tutti/core/status.h"

namespace tutti {

// The parts that a name gives. Grammar: part+ of /job:NAME, /replica:N, /task:N, /device:TYPE[:N],
// /cpu:N, /gpu:N; "*" or a missing part leaves it open; a later part overrides an earlier one.
struct DeviceName {
  std::optional<std::string> job;
  std::optional<int> replica;
  std::optional<int> task;
  std::optional<std::string> type;
  std::optional<int> id;

  static Result<DeviceName> parse(std::string_view text);
  // "CPU:0", as accepted where a device of the own task is meant.
  static Result<DeviceName> parse_local(std::string_view text);

  // Canonical; a type without id prints as "/device:TYPE:*". Empty when nothing is given.
  std::string to_string() const;
  bool operator==(const DeviceName&) const = default;

  bool empty() const { return !job && !replica && !task && !type && !id; }
  // Everything given: names one device.
  bool complete() const { return job && replica && task && type && id; }
  // Every part that this gives is the same in `device`.
  bool matches(const DeviceName& device) const;
  // For each part, at least one side is open or both agree: how device filters match.
  bool compatible_with(const DeviceName& other) const;
  bool same_task(const DeviceName& other) const;

  // Adds what `inner` gives; its parts win. For nested scopes.
  void override_with(const DeviceName& inner);
  // Adds what `other` gives; job, replica and task must not contradict. With `soft`, a contradicting
  // type clears type and id and a contradicting id clears id; else they are errors too.
  Status merge(const DeviceName& other, bool soft);
};

}  // namespace tutti
