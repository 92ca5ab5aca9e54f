// The fields of a message, described once and used three ways: to measure, to write and to read.
//
// A description is a function template `fields(f, message)` that calls, for every field in the order of numbers,
//   f.field(1, "graph_handle", message.graph_handle);
// FieldSizer and FieldWriter visit them in order; FieldReader calls the description once for each field that it meets
// in the bytes, and the one call with that number reads it. Values equal to their default are not written. Reading:
// unknown fields are skipped, the last of several values counts, messages are merged. `converted` is for a value that
// lies in its message in another form, see WireForm.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/core/status.h"
#include "tutti/core/tensor.h"
#include "tutti/distributed/internal/tensor_wire.h"
#include "tutti/distributed/internal/wire.h"

namespace tutti {

template <typename T, typename Message>
concept Is = std::same_as<std::remove_const_t<T>, Message>;

// static std::string write(const T& value);
// static Status read(WireReader bytes, T& value);
template <typename T>
struct WireForm;

// Sums what FieldWriter would write.
class FieldSizer {
 public:
  std::uint64_t size() const { return size_; }

  template <std::integral T>
  void field(std::uint32_t number, std::string_view, T value) {
    if (value != 0) size_ += tag(number) + varint_size(static_cast<std::uint64_t>(value));
  }
  void field(std::uint32_t number, std::string_view, const std::string& value) {
    if (!value.empty()) delimited(number, value.size());
  }
  void field(std::uint32_t number, std::string_view, const std::vector<std::string>& values) {
    for (const std::string& value : values) delimited(number, value.size());
  }
  void field(std::uint32_t number, std::string_view, const std::vector<std::int64_t>& values) {
    for (std::int64_t value : values) size_ += tag(number) + varint_size(static_cast<std::uint64_t>(value));
  }
  void field(std::uint32_t number, std::string_view name, std::chrono::milliseconds value) {
    field(number, name, value.count());
  }
  void fixed64(std::uint32_t number, std::string_view, std::uint64_t value) {
    if (value != 0) size_ += tag(number) + 8;
  }
  void flag(std::uint32_t number, std::string_view name, bool value, std::uint64_t if_set) {
    field(number, name, value ? if_set : 0);
  }
  void status(std::uint32_t code, std::uint32_t message, const Status& value);
  void tensor(std::uint32_t number, std::string_view, const Tensor& value) {
    if (value.has_value()) delimited(number, tensor_wire_size(value));
  }
  void tensors(std::uint32_t number, std::string_view, const std::vector<Tensor>& values) {
    for (const Tensor& value : values) delimited(number, value.has_value() ? tensor_wire_size(value) : 0);
  }
  template <typename T>
  void converted(std::uint32_t number, std::string_view, const T& value) {
    const std::string bytes = WireForm<T>::write(value);
    if (!bytes.empty()) delimited(number, bytes.size());
  }
  template <typename Fields>
  void message(std::uint32_t number, std::string_view, std::string_view, const Fields& fields) {
    FieldSizer inner;
    fields(inner);
    if (inner.size() > 0) delimited(number, inner.size());
  }
  template <typename T, typename Fields>
  void repeated(std::uint32_t number, std::string_view, std::string_view, const std::vector<T>& values,
                const Fields& fields) {
    for (const T& value : values) {
      FieldSizer inner;
      fields(inner, value);
      delimited(number, inner.size());
    }
  }

 private:
  static std::uint64_t tag(std::uint32_t number) { return varint_size(number << 3); }
  void delimited(std::uint32_t number, std::uint64_t bytes) { size_ += tag(number) + varint_size(bytes) + bytes; }

  std::uint64_t size_ = 0;
};

// Writes, and keeps the first thing that cannot be.
class FieldWriter {
 public:
  WireWriter& out() { return out_; }
  const Status& result() const { return result_; }

  template <std::integral T>
  void field(std::uint32_t number, std::string_view, T value) {
    if (value == 0) return;
    out_.tag(number, WireType::kVarint);
    out_.varint(static_cast<std::uint64_t>(value));
  }
  void field(std::uint32_t number, std::string_view, const std::string& value) {
    if (!value.empty()) bytes(number, value);
  }
  void field(std::uint32_t number, std::string_view, const std::vector<std::string>& values) {
    for (const std::string& value : values) bytes(number, value);
  }
  void field(std::uint32_t number, std::string_view, const std::vector<std::int64_t>& values) {
    for (std::int64_t value : values) {
      out_.tag(number, WireType::kVarint);
      out_.varint(static_cast<std::uint64_t>(value));
    }
  }
  void field(std::uint32_t number, std::string_view name, std::chrono::milliseconds value) {
    field(number, name, value.count());
  }
  void fixed64(std::uint32_t number, std::string_view, std::uint64_t value) {
    if (value == 0) return;
    out_.tag(number, WireType::kFixed64);
    out_.fixed64(value);
  }
  void flag(std::uint32_t number, std::string_view name, bool value, std::uint64_t if_set) {
    field(number, name, value ? if_set : 0);
  }
  void status(std::uint32_t code, std::uint32_t message, const Status& value);
  void tensor(std::uint32_t number, std::string_view name, const Tensor& value) {
    if (value.has_value()) one_tensor(number, name, value);
  }
  void tensors(std::uint32_t number, std::string_view name, const std::vector<Tensor>& values) {
    for (const Tensor& value : values) one_tensor(number, name, value);
  }
  template <typename T>
  void converted(std::uint32_t number, std::string_view, const T& value) {
    const std::string text = WireForm<T>::write(value);
    if (!text.empty()) bytes(number, text);
  }
  template <typename Fields>
  void message(std::uint32_t number, std::string_view, std::string_view, const Fields& fields) {
    FieldSizer inner;
    fields(inner);
    if (inner.size() == 0) return;
    header(number, inner.size());
    fields(*this);
  }
  template <typename T, typename Fields>
  void repeated(std::uint32_t number, std::string_view, std::string_view, const std::vector<T>& values,
                const Fields& fields) {
    for (const T& value : values) {
      FieldSizer inner;
      fields(inner, value);
      header(number, inner.size());
      fields(*this, value);
    }
  }

 private:
  void header(std::uint32_t number, std::uint64_t size) {
    out_.tag(number, WireType::kBytes);
    out_.varint(size);
  }
  void bytes(std::uint32_t number, std::string_view value) {
    header(number, value.size());
    out_.bytes(value);
  }
  void one_tensor(std::uint32_t number, std::string_view name, const Tensor& value);

  WireWriter out_;
  Status result_;
};

// Reads one message; see the top. Errors are kept, begin with the message's and the field's name, and end the reading.
class FieldReader {
 public:
  FieldReader(WireReader in, std::string_view message, ExpansionBudget& budget)
      : in_(in), message_(message), budget_(budget) {}

  // Reads everything.
  template <typename Fields>
  Status read(const Fields& fields) {
    while (next()) {
      fields(*this);
      if (!taken_) skip();
    }
    if (error_.ok() && status_ != nullptr) finish_status();
    return std::move(error_);
  }

  template <std::integral T>
  void field(std::uint32_t number, std::string_view name, T& value) {
    std::uint64_t wide = 0;
    if (number != number_ || !take(name, WireType::kVarint) || !varint(name, &wide)) return;
    if constexpr (std::same_as<T, bool>) {
      value = wide != 0;
    } else {
      value = static_cast<T>(wide);
    }
  }
  void field(std::uint32_t number, std::string_view name, std::string& value) {
    if (number == number_) text(name, value);
  }
  void field(std::uint32_t number, std::string_view name, std::vector<std::string>& values) {
    if (number == number_) text(name, append(values));
  }
  // One by one, as we write them.
  void field(std::uint32_t number, std::string_view name, std::vector<std::int64_t>& values) {
    std::uint64_t wide = 0;
    if (number != number_ || !take(name, WireType::kVarint) || !varint(name, &wide)) return;
    append(values) = static_cast<std::int64_t>(wide);
  }
  // Negative ones are none.
  void field(std::uint32_t number, std::string_view name, std::chrono::milliseconds& value) {
    if (number != number_) return;
    std::int64_t count = 0;
    field(number, name, count);
    value = std::chrono::milliseconds(count > 0 ? count : 0);
  }
  void fixed64(std::uint32_t number, std::string_view name, std::uint64_t& value) {
    if (number != number_ || !take(name, WireType::kFixed64)) return;
    if (!in_.fixed64(&value)) fail(name, "is cut short");
  }
  void flag(std::uint32_t number, std::string_view name, bool& value, std::uint64_t) { field(number, name, value); }
  void status(std::uint32_t code, std::uint32_t message, Status& value) {
    status_ = &value;
    field(code, "status_code", status_code_);
    field(message, "status_error_message", status_message_);
  }
  void tensor(std::uint32_t number, std::string_view name, Tensor& value) {
    if (number == number_) one_tensor(name, value);
  }
  void tensors(std::uint32_t number, std::string_view name, std::vector<Tensor>& values) {
    if (number == number_) one_tensor(name, append(values));
  }
  template <typename T>
  void converted(std::uint32_t number, std::string_view name, T& value) {
    WireReader bytes;
    if (number == number_ && delimited(name, &bytes)) check(name, WireForm<T>::read(bytes, value));
  }
  template <typename Fields>
  void message(std::uint32_t number, std::string_view name, std::string_view type, const Fields& fields) {
    WireReader bytes;
    if (number != number_ || !delimited(name, &bytes)) return;
    check(name, FieldReader(bytes, type, budget_).read(fields));
  }
  template <typename T, typename Fields>
  void repeated(std::uint32_t number, std::string_view name, std::string_view type, std::vector<T>& values,
                const Fields& fields) {
    if (number != number_) return;
    message(number, name, type, [&fields, &value = append(values)](auto& inner) { fields(inner, value); });
  }

 private:
  // A new last element, which may take more memory than the message has bytes for it. The first few cost one
  // allocation together.
  template <typename T>
  T& append(std::vector<T>& values) {
    budget_.bytes_left -= static_cast<std::int64_t>(sizeof(T));
    if (budget_.bytes_left < 0) [[unlikely]]
      error_.update(resource_exhausted(message_, ": its lists are too long"));
    if (values.capacity() == 0) values.reserve(4);
    return values.emplace_back();
  }
  // Takes the next tag. False at the end and after an error.
  bool next();
  void skip();
  // Marks the field as read; false, and fails, unless it has the wire type.
  bool take(std::string_view name, WireType type) {
    taken_ = true;
    if (type_ == type) [[likely]]
      return true;
    fail(name, "has the wrong wire type");
    return false;
  }
  bool varint(std::string_view name, std::uint64_t* value) {
    if (in_.varint(value)) [[likely]]
      return true;
    fail(name, "is cut short");
    return false;
  }
  bool delimited(std::string_view name, WireReader* bytes) {
    if (!take(name, WireType::kBytes)) return false;
    if (in_.delimited(bytes)) [[likely]]
      return true;
    fail(name, "is longer than the message");
    return false;
  }
  void text(std::string_view name, std::string& value);
  void one_tensor(std::string_view name, Tensor& value);
  void finish_status();
  void fail(std::string_view name, std::string_view what);
  void check(std::string_view name, const Status& status);

  WireReader in_;
  std::string_view message_;
  ExpansionBudget& budget_;
  std::uint32_t number_ = 0;
  WireType type_ = WireType::kVarint;
  bool taken_ = false;
  Status error_;
  Status* status_ = nullptr;  // where code and text go when all is read
  std::int32_t status_code_ = 0;
  std::string status_message_;
};

template <typename Fields>
Result<Payload> encode_fields(const Fields& fields) {
  FieldSizer sizer;
  fields(sizer);
  FieldWriter writer;
  // Most of a large message is shared, not written here.
  constexpr std::uint64_t kMaxReserved = 1024;
  writer.out().reserve(static_cast<std::size_t>(std::min(sizer.size(), kMaxReserved)));
  fields(writer);
  if (!writer.result().ok()) return writer.result();
  return std::move(writer.out()).finish();
}

template <typename Fields>
Status decode_fields(const Payload& bytes, std::string_view message, const Fields& fields) {
  ExpansionBudget budget;
  return FieldReader(WireReader(bytes), message, budget).read(fields);
}

}  // namespace tutti
