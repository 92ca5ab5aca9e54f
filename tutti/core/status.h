// Status and Result<T>: how everything below the public edge reports failure.
//
// Codes are gRPC's canonical codes, so a status crosses the wire unchanged.
// A message begins with the failing thing and gives the values:
//   worker:1 MatMul "dense/kernel": inner dimensions 784 and 512 differ
#pragma once

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "tutti/core/strings.h"

namespace tutti {

enum class Code {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

// "InvalidArgument", as TensorFlow and gRPC name the code.
std::string_view code_name(Code code);

// A code and a message. The success value is one null pointer: cheap to return and to test.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message);

  bool ok() const { return rep_ == nullptr; }
  Code code() const { return rep_ ? rep_->code : Code::kOk; }
  const std::string& message() const;
  // "InvalidArgument: the message", or "OK".
  std::string to_string() const;

  // The same code with `context` and ": " put before the message. No-op on success.
  Status with_context(std::string_view context) const;

  // Keeps the first error: takes `other` only while this is still OK.
  void update(Status other) {
    if (ok()) *this = std::move(other);
  }

  friend bool operator==(const Status& a, const Status& b) {
    return a.code() == b.code() && a.message() == b.message();
  }

 private:
  struct Rep {
    Code code;
    std::string message;
  };
  // Immutable once made, hence shared between copies.
  std::shared_ptr<const Rep> rep_;
};

// Builders: `return invalid_argument("MatMul: inner dimensions ", k0, " and ", k1, " differ");`
#define TUTTI_STATUS_BUILDER_(function, code_value)              \
  template <typename... Parts>                                   \
  Status function(const Parts&... parts) {                       \
    return Status(Code::code_value, ::tutti::str_cat(parts...)); \
  }
TUTTI_STATUS_BUILDER_(cancelled, kCancelled)
TUTTI_STATUS_BUILDER_(invalid_argument, kInvalidArgument)
TUTTI_STATUS_BUILDER_(deadline_exceeded, kDeadlineExceeded)
TUTTI_STATUS_BUILDER_(not_found, kNotFound)
TUTTI_STATUS_BUILDER_(already_exists, kAlreadyExists)
TUTTI_STATUS_BUILDER_(permission_denied, kPermissionDenied)
TUTTI_STATUS_BUILDER_(resource_exhausted, kResourceExhausted)
TUTTI_STATUS_BUILDER_(failed_precondition, kFailedPrecondition)
TUTTI_STATUS_BUILDER_(aborted, kAborted)
TUTTI_STATUS_BUILDER_(out_of_range, kOutOfRange)
TUTTI_STATUS_BUILDER_(unimplemented, kUnimplemented)
TUTTI_STATUS_BUILDER_(internal_error, kInternal)
TUTTI_STATUS_BUILDER_(unavailable, kUnavailable)
TUTTI_STATUS_BUILDER_(data_loss, kDataLoss)
#undef TUTTI_STATUS_BUILDER_

// The one exception type of the public edge; nothing below it throws.
class Error : public std::runtime_error {
 public:
  explicit Error(Status status) : std::runtime_error(status.to_string()), status_(std::move(status)) {}
  const Status& status() const { return status_; }
  Code code() const { return status_.code(); }

 private:
  Status status_;
};

[[noreturn]] void throw_error(Status status);

// Turns a failed status into an Error. For code at the public edge only.
inline void throw_if_error(Status status) {
  if (!status.ok()) throw_error(std::move(status));
}

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);

// A broken invariant of our own: prints and aborts. Never for what a user can cause.
#define TUTTI_CHECK(condition, ...)                                                                           \
  do {                                                                                                        \
    if (__builtin_expect(!(condition), 0)) {                                                                  \
      ::tutti::check_failed(__FILE__, __LINE__, #condition, ::tutti::str_cat("" __VA_OPT__(, ) __VA_ARGS__)); \
    }                                                                                                         \
  } while (false)

// A value or the status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: implicit, so that `return value;` works
  Result(Status status) : status_(std::move(status)) {  // NOLINT: implicit likewise
    TUTTI_CHECK(!status_.ok(), "Result made of an OK status");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  // REQUIRES: ok()
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

  // The value, or an Error thrown. For code at the public edge only.
  T value_or_throw() && {
    throw_if_error(status_);
    return std::move(*value_);
  }

 private:
  Status status_;
  std::optional<T> value_;
};

#define TUTTI_RETURN_IF_ERROR(expression)         \
  do {                                            \
    ::tutti::Status tutti_status_ = (expression); \
    if (!tutti_status_.ok()) [[unlikely]]         \
      return tutti_status_;                       \
  } while (false)

#define TUTTI_CONCAT_INNER_(a, b) a##b
#define TUTTI_CONCAT_(a, b) TUTTI_CONCAT_INNER_(a, b)
#define TUTTI_ASSIGN_OR_RETURN(lhs, expression)                  \
  auto TUTTI_CONCAT_(tutti_result_, __LINE__) = (expression);    \
  if (!TUTTI_CONCAT_(tutti_result_, __LINE__).ok()) [[unlikely]] \
    return TUTTI_CONCAT_(tutti_result_, __LINE__).status();      \
  lhs = *std::move(TUTTI_CONCAT_(tutti_result_, __LINE__))

}  // namespace tutti
