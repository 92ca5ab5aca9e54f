// The methods of the two services as they are called on the wire.
#pragma once

#include <string_view>

#include "tutti/core/status.h"

namespace tutti::methods {

inline constexpr std::string_view kCreateSession = "/tensorflow.MasterService/CreateSession";
inline constexpr std::string_view kExtendSession = "/tensorflow.MasterService/ExtendSession";
inline constexpr std::string_view kPartialRunSetup = "/tensorflow.MasterService/PartialRunSetup";
inline constexpr std::string_view kRunStep = "/tensorflow.MasterService/RunStep";
inline constexpr std::string_view kCloseSession = "/tensorflow.MasterService/CloseSession";
inline constexpr std::string_view kListDevices = "/tensorflow.MasterService/ListDevices";
inline constexpr std::string_view kReset = "/tensorflow.MasterService/Reset";
inline constexpr std::string_view kMakeCallable = "/tensorflow.MasterService/MakeCallable";
inline constexpr std::string_view kRunCallable = "/tensorflow.MasterService/RunCallable";
inline constexpr std::string_view kReleaseCallable = "/tensorflow.MasterService/ReleaseCallable";

inline constexpr std::string_view kGetStatus = "/tensorflow.WorkerService/GetStatus";
inline constexpr std::string_view kCreateWorkerSession = "/tensorflow.WorkerService/CreateWorkerSession";
inline constexpr std::string_view kDeleteWorkerSession = "/tensorflow.WorkerService/DeleteWorkerSession";
inline constexpr std::string_view kRegisterGraph = "/tensorflow.WorkerService/RegisterGraph";
inline constexpr std::string_view kDeregisterGraph = "/tensorflow.WorkerService/DeregisterGraph";
inline constexpr std::string_view kRunGraph = "/tensorflow.WorkerService/RunGraph";
inline constexpr std::string_view kCleanupGraph = "/tensorflow.WorkerService/CleanupGraph";
inline constexpr std::string_view kCleanupAll = "/tensorflow.WorkerService/CleanupAll";
inline constexpr std::string_view kRecvTensor = "/tensorflow.WorkerService/RecvTensor";
inline constexpr std::string_view kLogging = "/tensorflow.WorkerService/Logging";
inline constexpr std::string_view kMarkRecvFinished = "/tensorflow.WorkerService/MarkRecvFinished";

// Between Tutti's own.
inline constexpr std::string_view kRecvTensors = "/tutti.TaskService/RecvTensors";

// What a task says that does not know a method. Kernels and codecs have kUnimplemented errors too, which come from
// within a method.
inline Status unknown(std::string_view method) { return unimplemented(printable(method), ": no such method here"); }
// TensorFlow's servers say the code only.
inline bool is_unknown(std::string_view method, const Status& status) {
  return status.code() == Code::kUnimplemented && (status.message().empty() || status == unknown(method));
}

}  // namespace tutti::methods
