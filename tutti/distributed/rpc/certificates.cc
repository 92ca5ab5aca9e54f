#include "tutti/distributed/rpc/certificates.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "tutti/core/device_name.h"
#include "tutti/core/file_system.h"
#include "tutti/distributed/rpc/internal/task_identity.h"

namespace tutti {
namespace {

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Deleter<X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Deleter<X509_EXTENSION_free>>;
using Memory = std::unique_ptr<BIO, Deleter<BIO_free_all>>;
using Number = std::unique_ptr<BIGNUM, Deleter<BN_free>>;

constexpr int kMostDays = 36500;
constexpr long kDaySeconds = 86400;

struct Validity {
  std::time_t from;
  int days;
};

// A certificate with its key.
struct Identity {
  Key key;
  Certificate certificate;
};

struct Issued {
  std::string file;  // without ".pem" and ".key"
  std::string name;  // for people
  std::string alternatives;
};

Status openssl_error(std::string_view what) {
  char text[256] = "unknown";
  if (const unsigned long code = ERR_get_error(); code != 0) ERR_error_string_n(code, text, sizeof(text));
  ERR_clear_error();
  return internal_error("certificates: ", what, ": ", text);
}

bool is_address(const std::string& host) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 || inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

bool is_host_name(const std::string& host) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_*";
  return !host.empty() && host.size() <= 253 && host.find_first_not_of(kAllowed) == std::string::npos;
}

// "URI:tutti://job/ps/task/1,DNS:localhost,IP:127.0.0.1". Every part was checked to have no comma.
Result<std::string> alternative_names(const std::string& uri, const std::vector<std::string>& hosts) {
  std::string names = str_cat("URI:", uri);
  for (const std::string& host : hosts) {
    const bool address = is_address(host);
    if (!address && !is_host_name(host)) {
      return invalid_argument("certificates: \"", printable(host), "\" is neither a host's name nor an IP address");
    }
    names += str_cat(address ? ",IP:" : ",DNS:", host);
  }
  return names;
}

Status add_extension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  if (extension == nullptr || X509_add_ext(certificate, extension.get(), -1) != 1) return openssl_error(value);
  return {};
}

Status set_serial(X509* certificate) {
  const Number number(BN_new());
  if (number == nullptr || BN_rand(number.get(), 127, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) != 1 ||
      BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) == nullptr) {
    return openssl_error("serial number");
  }
  return {};
}

Status set_name(X509_NAME* name, const std::string& text) {
  const std::string cut = text.substr(0, 64);  // as X.509 has it
  const auto* bytes = reinterpret_cast<const unsigned char*>(cut.data());
  const int size = static_cast<int>(cut.size());
  if (X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, bytes, size, -1, 0) != 1) return openssl_error("name");
  return {};
}

// Not yet signed. `issuer` null: issued by itself.
Result<Identity> draft(const std::string& name, const Validity& validity, X509* issuer) {
  Identity identity{Key(EVP_EC_gen("P-256")), Certificate(X509_new())};
  X509* certificate = identity.certificate.get();
  if (identity.key == nullptr || certificate == nullptr) return openssl_error("key");
  TUTTI_RETURN_IF_ERROR(set_serial(certificate));
  TUTTI_RETURN_IF_ERROR(set_name(X509_get_subject_name(certificate), name));
  std::time_t from = validity.from;
  X509_NAME* issued_by = X509_get_subject_name(issuer != nullptr ? issuer : certificate);
  const bool set = X509_set_version(certificate, X509_VERSION_3) == 1 &&
                   X509_set_issuer_name(certificate, issued_by) == 1 &&
                   X509_time_adj_ex(X509_getm_notBefore(certificate), 0, 0, &from) != nullptr &&
                   X509_time_adj_ex(X509_getm_notAfter(certificate), validity.days, 0, &from) != nullptr &&
                   X509_set_pubkey(certificate, identity.key.get()) == 1;
  if (!set) return openssl_error("certificate");
  return identity;
}

Status sign(X509* certificate, EVP_PKEY* key) {
  if (X509_sign(certificate, key, EVP_sha256()) == 0) return openssl_error("signature");
  return {};
}

Result<Identity> make_authority(const Validity& validity) {
  TUTTI_ASSIGN_OR_RETURN(Identity authority, draft("Tutti cluster authority", validity, nullptr));
  X509* certificate = authority.certificate.get();
  TUTTI_RETURN_IF_ERROR(add_extension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0"));
  TUTTI_RETURN_IF_ERROR(add_extension(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign"));
  TUTTI_RETURN_IF_ERROR(add_extension(certificate, certificate, NID_subject_key_identifier, "hash"));
  TUTTI_RETURN_IF_ERROR(sign(certificate, authority.key.get()));
  return authority;
}

Result<Identity> issue(const Issued& wanted, const Validity& validity, const Identity& authority) {
  X509* issuer = authority.certificate.get();
  TUTTI_ASSIGN_OR_RETURN(Identity identity, draft(wanted.name, validity, issuer));
  X509* certificate = identity.certificate.get();
  TUTTI_RETURN_IF_ERROR(add_extension(certificate, issuer, NID_basic_constraints, "critical,CA:FALSE"));
  TUTTI_RETURN_IF_ERROR(add_extension(certificate, issuer, NID_key_usage, "critical,digitalSignature"));
  TUTTI_RETURN_IF_ERROR(add_extension(certificate, issuer, NID_ext_key_usage, "serverAuth,clientAuth"));
  TUTTI_RETURN_IF_ERROR(add_extension(certificate, issuer, NID_subject_alt_name, wanted.alternatives));
  TUTTI_RETURN_IF_ERROR(sign(certificate, authority.key.get()));
  return identity;
}

// `mode` from the first moment on; never over an existing file.
Status write_new(const std::string& path, std::string_view text, mode_t mode) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) {
    if (errno == EEXIST) return already_exists("certificates: ", path, " exists and is not replaced");
    return Status(Code::kUnknown, str_cat("certificates: ", path, ": ", std::strerror(errno)));
  }
  const ssize_t written = write(fd, text.data(), text.size());
  const int error = errno;
  if (close(fd) == 0 && written == static_cast<ssize_t>(text.size())) return {};
  return Status(Code::kUnknown, str_cat("certificates: ", path, ": ", std::strerror(written < 0 ? error : EIO)));
}

std::string_view contents(BIO* memory) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(memory, &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

Status write_identity(const std::string& stem, const Identity& identity) {
  const Memory key(BIO_new(BIO_s_mem()));
  const Memory certificate(BIO_new(BIO_s_mem()));
  if (key == nullptr || certificate == nullptr ||
      PEM_write_bio_PrivateKey(key.get(), identity.key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1 ||
      PEM_write_bio_X509(certificate.get(), identity.certificate.get()) != 1) {
    return openssl_error("PEM");
  }
  TUTTI_RETURN_IF_ERROR(write_new(stem + ".key", contents(key.get()), 0600));
  return write_new(stem + ".pem", contents(certificate.get()), 0644);
}

// Everything that can be wrong with the arguments, before a file is made.
Result<std::vector<Issued>> plan(const std::string& directory, const std::vector<std::string>& tasks,
                                 const std::vector<std::string>& hosts) {
  std::vector<Issued> wanted;
  for (const std::string& task : tasks) {
    TUTTI_ASSIGN_OR_RETURN(const std::string uri, rpc_internal::task_to_uri(task));
    TUTTI_ASSIGN_OR_RETURN(const DeviceName name, DeviceName::parse(task));
    TUTTI_ASSIGN_OR_RETURN(std::string alternatives, alternative_names(uri, hosts));
    wanted.push_back(
        {str_cat(*name.job, "-", *name.task), str_cat(*name.job, " ", *name.task), std::move(alternatives)});
  }
  std::vector<std::string> stems{"ca"};
  for (const Issued& one : wanted) stems.push_back(one.file);
  for (const std::string& stem : stems) {
    for (const char* ending : {".pem", ".key"}) {
      const std::string path = str_cat(directory, "/", stem, ending);
      if (local_file_system().exists(path))
        return already_exists("certificates: ", path, " exists and is not replaced");
    }
  }
  return wanted;
}

}  // namespace

Status make_cluster_certificates(const std::string& directory, const std::vector<std::string>& tasks,
                                 const std::vector<std::string>& hosts, int days, std::time_t from) {
  if (days < 1 || days > kMostDays) {
    return invalid_argument("certificates: ", days, " days is not within 1 to ", kMostDays);
  }
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Issued> wanted, plan(directory, tasks, hosts));
  TUTTI_RETURN_IF_ERROR(local_file_system().make_directories(directory));
  // A day earlier than now: the clocks of a cluster's hosts differ.
  const Validity validity{from != 0 ? from : std::time(nullptr) - kDaySeconds, from != 0 ? days : days + 1};
  TUTTI_ASSIGN_OR_RETURN(const Identity authority, make_authority(validity));
  TUTTI_RETURN_IF_ERROR(write_identity(directory + "/ca", authority));
  for (const Issued& one : wanted) {
    TUTTI_ASSIGN_OR_RETURN(const Identity identity, issue(one, validity, authority));
    TUTTI_RETURN_IF_ERROR(write_identity(str_cat(directory, "/", one.file), identity));
  }
  return {};
}

}  // namespace tutti
