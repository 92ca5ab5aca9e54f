// The methods of the two services as they are called on the wire.
#pragma once

#include <string_view>

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

// Between Tutti's own.
inline constexpr std::string_view kRecvTensors = "/tutti.TaskService/RecvTensors";

}  // namespace tutti::methods
