#include "tutti/distributed/internal/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>

#include "tutti/core/strings.h"

namespace tutti {
namespace {

bool is_ipv6(const std::string& host) {
  in6_addr ignored;
  return inet_pton(AF_INET6, host.c_str(), &ignored) == 1;
}

bool is_name(const std::string& host) {
  return !host.empty() && host.size() <= 255 && std::all_of(host.begin(), host.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '-' || c == '_';
  });
}

}  // namespace

Result<Address> Address::parse(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return invalid_argument("\"", printable(text, 100), "\" is not host:port: ", why);
  };
  const auto colon = text.rfind(':');
  if (colon == text.npos) return bad("the port is missing");
  Address address;
  address.host = text.substr(0, colon);
  std::int64_t port = 0;
  const std::string_view digits = text.substr(colon + 1);
  const bool number = !digits.empty() && std::isdigit(static_cast<unsigned char>(digits[0]));
  if (!number || !parse_int64(digits, &port) || port > 65535) return bad("the port must be a number from 0 to 65535");
  address.port = static_cast<int>(port);
  if (address.host.starts_with('[') && address.host.ends_with(']')) {
    address.host = address.host.substr(1, address.host.size() - 2);
    return is_ipv6(address.host) ? Result<Address>(address) : bad("no IPv6 address before the port");
  }
  if (!is_name(address.host)) return bad("no host's name or address before the port");
  return address;
}

std::string Address::to_string() const {
  return host.find(':') == host.npos ? str_cat(host, ":", port) : str_cat("[", host, "]:", port);
}

bool Address::is_loopback() const {
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6;
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return host == "localhost";
}

Result<std::string> target_address(const std::string& target) {
  constexpr std::string_view kScheme = "grpc://";
  if (!target.starts_with(kScheme)) {
    return not_found("no kind of session for the target \"", printable(target, 100), "\": it must be grpc://host:port");
  }
  const auto address = Address::parse(std::string_view(target).substr(kScheme.size()));
  if (!address.ok()) return address.status().with_context(str_cat("target ", printable(target, 100)));
  return address->to_string();
}

}  // namespace tutti
