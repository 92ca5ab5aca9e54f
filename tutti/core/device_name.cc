#include "tutti/core/device_name.h"

#include <algorithm>
#include <limits>

namespace tutti {

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Reads a name from the left. Each `take` removes what it accepted and leaves the rest untouched otherwise.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  bool at_end() const { return rest_.empty(); }
  bool at_part_end() const { return rest_.empty() || rest_.front() == '/'; }

  bool take(std::string_view prefix) {
    if (!rest_.starts_with(prefix)) return false;
    rest_.remove_prefix(prefix.size());
    return true;
  }

  // letter (letter|digit|"_")*, or "*" for an open value.
  bool take_word(std::optional<std::string>& value) {
    if (take("*")) {
      value.reset();
      return true;
    }
    if (rest_.empty() || !is_letter(rest_.front())) return false;
    const auto end =
        std::find_if_not(rest_.begin(), rest_.end(), [](char c) { return is_letter(c) || is_digit(c) || c == '_'; });
    const auto length = static_cast<std::size_t>(end - rest_.begin());
    value = std::string(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return true;
  }

  // Digits that fit in an int.
  bool take_number(int& value) {
    const auto end = std::find_if_not(rest_.begin(), rest_.end(), is_digit);
    const auto length = static_cast<std::size_t>(end - rest_.begin());
    std::int64_t number;
    if (!parse_int64(rest_.substr(0, length), &number) || number > std::numeric_limits<int>::max()) return false;
    value = static_cast<int>(number);
    rest_.remove_prefix(length);
    return true;
  }

  // A number, or "*" for an open value.
  bool take_index(std::optional<int>& value) {
    if (take("*")) {
      value.reset();
      return true;
    }
    int number;
    if (!take_number(number)) return false;
    value = number;
    return true;
  }

 private:
  std::string_view rest_;
};

bool take_part(Scanner& scanner, DeviceName& name) {
  if (scanner.take("/job:")) return scanner.take_word(name.job);
  if (scanner.take("/replica:")) return scanner.take_index(name.replica);
  if (scanner.take("/task:")) return scanner.take_index(name.task);
  if (scanner.take("/device:")) {
    if (!scanner.take_word(name.type)) return false;
    name.id.reset();
    return !scanner.take(":") || scanner.take_index(name.id);
  }
  if (scanner.take("/cpu:") || scanner.take("/CPU:")) {
    name.type = "CPU";
    return scanner.take_index(name.id);
  }
  if (scanner.take("/gpu:") || scanner.take("/GPU:")) {
    name.type = "GPU";
    return scanner.take_index(name.id);
  }
  return false;
}

template <typename T>
bool agree(const std::optional<T>& a, const std::optional<T>& b) {
  return !a || !b || *a == *b;
}

template <typename T>
void override_part(std::optional<T>& part, const std::optional<T>& inner) {
  if (inner) part = inner;
}

}  // namespace

Result<DeviceName> DeviceName::parse(std::string_view text) {
  DeviceName name;
  if (text == "/") return name;
  Scanner scanner(text);
  while (!scanner.at_end()) {
    if (!take_part(scanner, name) || !scanner.at_part_end()) {
      return invalid_argument("device name \"", printable(text),
                              "\": want /job:NAME/replica:N/task:N/device:TYPE:N or parts of it");
    }
  }
  return name;
}

Result<DeviceName> DeviceName::parse_local(std::string_view text) {
  DeviceName name;
  Scanner scanner(text);
  int id;
  if (!scanner.take_word(name.type) || !name.type || !scanner.take(":") || !scanner.take_number(id) ||
      !scanner.at_end()) {
    return invalid_argument("local device name \"", printable(text), "\": want TYPE:N");
  }
  name.id = id;
  return name;
}

std::string DeviceName::to_string() const {
  std::string text;
  if (job) text += str_cat("/job:", *job);
  if (replica) text += str_cat("/replica:", *replica);
  if (task) text += str_cat("/task:", *task);
  if (type || id) {
    text += str_cat("/device:", type ? *type : "*", ":");
    text += id ? str_cat(*id) : "*";
  }
  return text;
}

bool DeviceName::matches(const DeviceName& device) const {
  return (!job || job == device.job) && (!replica || replica == device.replica) && (!task || task == device.task) &&
         (!type || type == device.type) && (!id || id == device.id);
}

bool DeviceName::compatible_with(const DeviceName& other) const {
  return agree(job, other.job) && agree(replica, other.replica) && agree(task, other.task) && agree(type, other.type) &&
         agree(id, other.id);
}

bool DeviceName::same_task(const DeviceName& other) const {
  return job && replica && task && job == other.job && replica == other.replica && task == other.task;
}

void DeviceName::override_with(const DeviceName& inner) {
  override_part(job, inner.job);
  override_part(replica, inner.replica);
  override_part(task, inner.task);
  override_part(type, inner.type);
  override_part(id, inner.id);
}

Status DeviceName::merge(const DeviceName& other, bool soft) {
  const bool same_place = agree(job, other.job) && agree(replica, other.replica) && agree(task, other.task);
  const bool same_type = agree(type, other.type);
  const bool same_id = agree(id, other.id);
  if (!same_place || (!soft && !(same_type && same_id))) {
    return invalid_argument("devices \"", *this, "\" and \"", other, "\" contradict each other");
  }
  override_with(other);
  if (!same_type) type.reset();
  if (!same_type || !same_id) id.reset();
  return {};
}

}  // namespace tutti
