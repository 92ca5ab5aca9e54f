// Registration of collective ops. Part of register_all_ops.
#pragma once

namespace tutti {

class OpTable;

void register_collective_ops(OpTable& ops);  // CollectiveReduce and its kin, Nccl*

}  // namespace tutti
