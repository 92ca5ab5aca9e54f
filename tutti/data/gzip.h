// Reading gzip-compressed bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "tutti/core/status.h"

namespace tutti {

// Whether `bytes` begin as a gzip file does.
bool is_gzip(std::string_view bytes);

// The first `limit` bytes of what `bytes` hold, or all of it when it is less; memory grows with what is really
// there. Several members count as one, as for gunzip. kDataLoss when the stream is damaged or ends early.
Result<std::string> gunzip(std::string_view bytes, std::size_t limit);

}  // namespace tutti
