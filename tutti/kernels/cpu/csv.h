// Lines of comma-separated values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

struct CsvFormat {
  char delimiter = ',';
  bool quotes = true;                 // fields may be quoted: "a, ""b"""
  std::vector<std::int64_t> columns;  // those to keep, rising; empty: all
};

// The fields of one record. kInvalidArgument for quotes and line ends where they do not belong. A record without
// characters has no fields.
Status split_csv(std::string_view record, const CsvFormat& format, std::vector<std::string>* fields);

// Inputs: records of any shape, then one default per column: one element, or none where a field is required. Attributes
// OUT_TYPE, field_delim, use_quote_delim, na_value, select_cols.
KernelFactory decode_csv_kernel();

// Inputs: input_bytes, fixed_length. Attributes out_type, little_endian. Strings are cut, or filled up with zeros.
KernelFactory decode_padded_raw_kernel();

}  // namespace tutti::cpu
