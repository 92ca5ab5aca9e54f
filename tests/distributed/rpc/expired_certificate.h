// A certificate of a good authority whose time is over.
#pragma once

#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cstdio>
#include <memory>
#include <string>

namespace tutti::test {

// Writes `to`: the certificate in `from`, for the same key, that the authority with this key has signed for a day that
// ended yesterday. False: a file cannot be read or written.
inline bool write_expired_certificate(const std::string& from, const std::string& authority_key,
                                      const std::string& to) {
  using File = std::unique_ptr<std::FILE, decltype([](std::FILE* file) { std::fclose(file); })>;
  using Certificate = std::unique_ptr<X509, decltype([](X509* one) { X509_free(one); })>;
  using Key = std::unique_ptr<EVP_PKEY, decltype([](EVP_PKEY* one) { EVP_PKEY_free(one); })>;
  const File certificate_file(std::fopen(from.c_str(), "r"));
  const File key_file(std::fopen(authority_key.c_str(), "r"));
  const File out(std::fopen(to.c_str(), "w"));
  if (!certificate_file || !key_file || !out) return false;
  const Certificate certificate(PEM_read_X509(certificate_file.get(), nullptr, nullptr, nullptr));
  const Key key(PEM_read_PrivateKey(key_file.get(), nullptr, nullptr, nullptr));
  constexpr int kDay = 86400;
  return certificate && key && X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -2 * kDay) != nullptr &&
         X509_gmtime_adj(X509_getm_notAfter(certificate.get()), -kDay) != nullptr &&
         X509_sign(certificate.get(), key.get(), EVP_sha256()) != 0 &&
         PEM_write_X509(out.get(), certificate.get()) == 1;
}

}  // namespace tutti::test
