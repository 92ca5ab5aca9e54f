// String kernels: joining, cutting, searching, hashing, and strings from and to numbers.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// string_basic.cc
KernelFactory string_join_kernel();
KernelFactory string_case_kernel(bool upper);
KernelFactory string_length_kernel();
KernelFactory substr_kernel();
Status string_strip(KernelContext& ctx);
KernelFactory reduce_join_kernel();

// string_regex.cc: RE2. The static forms have the pattern as an attribute.
KernelFactory regex_full_match_kernel();
KernelFactory static_regex_full_match_kernel();
KernelFactory regex_replace_kernel();
KernelFactory static_regex_replace_kernel();

// string_bucket.cc
KernelFactory hash_bucket_fast_kernel();
KernelFactory hash_bucket_strong_kernel();
KernelFactory hash_bucket_kernel();

// string_split.cc
KernelFactory string_split_kernel();
KernelFactory string_split_v2_kernel();

// string_number.cc
KernelFactory as_string_kernel();
Status string_to_number(KernelContext& ctx);
KernelFactory string_format_kernel();

// string_bytes.cc
KernelFactory encode_base64_kernel();
Status decode_base64(KernelContext& ctx);
KernelFactory decode_raw_kernel();

}  // namespace tutti::cpu
