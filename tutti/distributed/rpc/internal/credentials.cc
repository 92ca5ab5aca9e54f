#include "tutti/distributed/rpc/internal/credentials.h"

#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/core/file_system.h"
#include "tutti/distributed/rpc/internal/task_identity.h"

namespace tutti::rpc_internal {
namespace {

struct Files {
  std::string ca;
  std::string certificate;
  std::string key;
};

Result<std::string> read_pem(const std::string& path, std::string_view option) {
  auto text = read_file(local_file_system(), path);
  if (!text.ok()) return text.status().with_context(option);
  if (text->find("-----BEGIN ") == std::string::npos) {
    return invalid_argument(option, ": ", path, " is not a PEM file");
  }
  return text;
}

Result<Files> read_files(const SecurityOptions& security) {
  if (security.ca_file.empty() || security.certificate_file.empty() || security.key_file.empty()) {
    return invalid_argument("security: ca_file \"", security.ca_file, "\", certificate_file \"",
                            security.certificate_file, "\" and key_file \"", security.key_file,
                            "\" are needed together");
  }
  Files files;
  TUTTI_ASSIGN_OR_RETURN(files.ca, read_pem(security.ca_file, "ca_file"));
  TUTTI_ASSIGN_OR_RETURN(files.certificate, read_pem(security.certificate_file, "certificate_file"));
  TUTTI_ASSIGN_OR_RETURN(files.key, read_pem(security.key_file, "key_file"));
  return files;
}

// Accepts a chain that gRPC has verified when it names the right task.
class TaskVerifier final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  explicit TaskVerifier(std::string task) : task_(std::move(task)) {}

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* answer) override {
    std::vector<std::string> uris;
    for (const auto& uri : request->uri_names()) uris.emplace_back(uri.data(), uri.size());
    const auto named = task_of_uris(uris);
    if (!named.ok()) {
      *answer = grpc::Status(grpc::StatusCode::UNAUTHENTICATED, named.status().message());
    } else if (!task_.empty() && *named != task_) {
      *answer = grpc::Status(grpc::StatusCode::UNAUTHENTICATED,
                             str_cat("the certificate names ", *named, " where ", task_, " is expected"));
    }
    return true;  // answered at once
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {}

 private:
  const std::string task_;
};

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return (ntohl(v4.sin_addr.s_addr) >> 24) == 127;
  }
  if (address.sa_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
  return false;
}

// Every address that the name stands for.
bool is_loopback_host(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
  bool loopback = found != nullptr;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next)
    loopback = loopback && is_loopback(*one->ai_addr);
  freeaddrinfo(found);
  return loopback;
}

}  // namespace

bool encrypted(const SecurityOptions& security) {
  return !(security.ca_file.empty() && security.certificate_file.empty() && security.key_file.empty());
}

Result<std::shared_ptr<grpc::ServerCredentials>> server_credentials(const SecurityOptions& security) {
  if (!encrypted(security)) return grpc::InsecureServerCredentials();
  TUTTI_ASSIGN_OR_RETURN(Files files, read_files(security));
  grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = std::move(files.ca);
  options.pem_key_cert_pairs.push_back({std::move(files.key), std::move(files.certificate)});
  return grpc::SslServerCredentials(options);
}

Result<std::shared_ptr<grpc::ChannelCredentials>> channel_credentials(const SecurityOptions& security,
                                                                      const std::string& task) {
  if (!encrypted(security)) return grpc::InsecureChannelCredentials();
  TUTTI_ASSIGN_OR_RETURN(Files files, read_files(security));
  using grpc::experimental::IdentityKeyCertPair;
  std::vector<IdentityKeyCertPair> identity{{std::move(files.key), std::move(files.certificate)}};
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(
      std::make_shared<grpc::experimental::StaticDataCertificateProvider>(files.ca, identity));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_verify_server_certs(true);
  // The certificate names a task, wherever that task runs, so host names are not compared.
  options.set_check_call_host(false);
  options.set_certificate_verifier(grpc::experimental::ExternalCertificateVerifier::Create<TaskVerifier>(task));
  return grpc::experimental::TlsCredentials(options);
}

Result<std::string> peer_task(const grpc::AuthContext& context) {
  std::vector<std::string> uris;
  for (const auto& uri : context.FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME)) {
    uris.emplace_back(uri.data(), uri.size());
  }
  return task_of_uris(uris);
}

Status check_exposure(const std::string& address, const SecurityOptions& security) {
  const std::size_t colon = address.rfind(':');
  std::int64_t port = -1;
  if (colon == std::string::npos || !parse_int64(address.substr(colon + 1), &port) || port < 0 || port > 65535) {
    return invalid_argument("server: \"", printable(address), "\" is no address such as host:port");
  }
  if (security.insecure || (encrypted(security) && !security.join_token.empty())) return {};
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (!host.empty() && is_loopback_host(host)) return {};
  return failed_precondition("server: ", address,
                             " can be reached from a network, where anyone could run graphs: give certificates and a "
                             "join token (`tutti certs`; --ca, --cert, --key, --join-token-file), listen on 127.0.0.1, "
                             "or allow it (--insecure, SecurityOptions::insecure)");
}

}  // namespace tutti::rpc_internal
