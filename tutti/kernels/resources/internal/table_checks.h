// What the kinds of tables check alike.
#pragma once

#include "tutti/kernels/resources/lookup_table.h"

namespace tutti::internal {

// kInvalidArgument for types that no table has.
Status check_table_types(const TableOptions& options);

}  // namespace tutti::internal
