// Lookup tables that are filled from text files.
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/tables.h"
#include "tutti/ops/op_table.h"

namespace tutti {

void register_table_file_ops(OpTable& ops) {
  for (const bool resource : {false, true}) {
    ops.add({.name = str_cat("InitializeTableFromTextFile", resource ? "V2" : ""),
             .signature = str_cat("table_handle: ", resource ? "resource" : "Ref(string)", ", filename: string -> "),
             .attrs = "key_index: int >= -2; value_index: int >= -2; vocab_size: int >= -1 = -1; "
                      "delimiter: string = '\t'; offset: int = 0",
             .shape = shape::none,
             .no_gradient = true,
             .traits = kStateful,
             .kernels = {TUTTI_CPU(cpu::table_initialize_from_file_kernel())}});
  }
}

}  // namespace tutti
