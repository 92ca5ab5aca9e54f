// "host:port" as people write it.
#pragma once

#include <string>
#include <string_view>

#include "tutti/core/status.h"

namespace tutti {

struct Address {
  std::string host;  // without brackets
  int port = 0;

  // "localhost:2222", "10.0.0.1:0", "[::1]:2222". kInvalidArgument, which mentions the port, for anything else.
  static Result<Address> parse(std::string_view text);
  // With brackets where the host is an IPv6 address.
  std::string to_string() const;
  // 127.0.0.0/8, ::1 or "localhost".
  bool is_loopback() const;
};

// The address in "grpc://host:port". kNotFound for another kind of target.
Result<std::string> target_address(const std::string& target);

}  // namespace tutti
