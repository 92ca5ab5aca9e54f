// Collective ops in a group of one, whose result is what the one member gave.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Where an op says how large its group is.
enum class GroupSizeFrom { kAttr, kInput1, kInput0, kNumDevices, kNowhere };

// Gives input 0. kUnimplemented, with what to do instead, for a larger group; kInvalidArgument for one under 1.
KernelFactory lone_collective_kernel(GroupSizeFrom from);
// A member that receives from the others: kUnimplemented, or kInternal where there are none.
KernelFactory lone_receive_kernel(GroupSizeFrom from);

}  // namespace tutti::cpu
