// Families of rows that only register_all_ops calls, beside those in op_table.h.
#pragma once

namespace tutti {

class OpTable;

void register_recurrent_ops(OpTable& ops);  // LSTM and GRU cells and sequences
void register_list_part_ops(OpTable& ops);  // items of tensor lists gathered, scattered, joined

}  // namespace tutti
