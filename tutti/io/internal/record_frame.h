// What lies around a record in a file: its length with a checksum before it, the checksum of its bytes behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tutti/core/status.h"

namespace tutti {

inline constexpr std::size_t kRecordHeaderBytes = 12;
inline constexpr std::size_t kRecordFooterBytes = 4;

// kDataLoss when the length does not match its checksum. REQUIRES: kRecordHeaderBytes bytes.
Result<std::uint64_t> record_length(std::string_view header);

// kDataLoss when the record does not match its checksum. REQUIRES: kRecordFooterBytes bytes.
Status check_record(std::string_view record, std::string_view footer);

}  // namespace tutti
