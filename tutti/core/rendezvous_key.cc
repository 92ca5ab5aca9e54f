#include "tutti/core/rendezvous_key.h"

#include <charconv>
#include <cstdio>

#include "tutti/core/device_name.h"
#include "tutti/core/strings.h"

namespace tutti {
namespace {

// What comes before the first `separator`, which is taken off `rest` too.
std::string_view take_until(char separator, std::string_view& rest) {
  const std::size_t at = rest.find(separator);
  std::string_view part = rest.substr(0, at);
  rest = at == std::string_view::npos ? std::string_view() : rest.substr(at + 1);
  return part;
}

template <typename Number>
bool read(std::string_view text, int base, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

bool names_device(std::string_view text) {
  const Result<DeviceName> name = DeviceName::parse(text);
  return name.ok() && name->complete();
}

}  // namespace

Result<RendezvousKey> RendezvousKey::parse(std::string_view text) {
  std::string_view rest = text;
  RendezvousKey key;
  const std::string_view from = take_until(';', rest);
  const std::string_view incarnation = take_until(';', rest);
  const std::string_view to = take_until(';', rest);
  const std::string_view name = take_until(';', rest);
  const std::string_view frame = take_until(':', rest);
  if (!names_device(from) || !names_device(to) || name.empty() || !read(incarnation, 16, key.send_incarnation) ||
      !read(frame, 10, key.frame) || !read(rest, 10, key.iteration)) {
    return invalid_argument("\"", printable(text), "\" is not a rendezvous key");
  }
  key.send_device = from;
  key.recv_device = to;
  key.name = name;
  return key;
}

std::string RendezvousKey::prefix() const {
  char hex[17];
  std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(send_incarnation));
  return str_cat(send_device, ";", hex, ";", recv_device, ";", name, ";");
}

std::string RendezvousKey::to_string() const { return prefix() + loop_position(frame, iteration); }

std::string loop_position(std::uint64_t frame, std::int64_t iteration) { return str_cat(frame, ":", iteration); }

std::string_view task_of(std::string_view device) {
  const std::size_t at = device.find("/device:");
  const std::string_view task = at == std::string_view::npos ? device : device.substr(0, at);
  return task.find("/task:") == std::string_view::npos ? std::string_view() : task;
}

}  // namespace tutti
