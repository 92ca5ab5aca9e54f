// Reads messages and writes them again, for check_wire.py. In: lines "NAME SIZE", each followed by that many bytes.
// Out, for each: "ok SIZE" and the bytes as we write them, or "error MESSAGE".
#include <cstdio>
#include <iostream>
#include <string>

#include "tutti/distributed/codec.h"

using namespace tutti;

namespace {

template <typename Message>
Result<std::string> rewritten(std::string bytes) {
  Message message;
  TUTTI_RETURN_IF_ERROR(decode(Payload(std::move(bytes)), message));
  TUTTI_ASSIGN_OR_RETURN(Payload payload, encode(message));
  return payload.flatten();
}

struct Kind {
  const char* name;
  Result<std::string> (*rewrite)(std::string bytes);
};

constexpr Kind kKinds[] = {
    {"CreateSessionRequest", rewritten<CreateSessionRequest>},
    {"CreateSessionResponse", rewritten<CreateSessionReply>},
    {"ExtendSessionRequest", rewritten<ExtendSessionRequest>},
    {"ExtendSessionResponse", rewritten<ExtendSessionReply>},
    {"RunStepRequest", rewritten<RunStepRequest>},
    {"RunStepResponse", rewritten<RunStepReply>},
    {"PartialRunSetupRequest", rewritten<PartialRunSetupRequest>},
    {"PartialRunSetupResponse", rewritten<PartialRunSetupReply>},
    {"CloseSessionRequest", rewritten<CloseSessionRequest>},
    {"CloseSessionResponse", rewritten<EmptyMessage>},
    {"ListDevicesRequest", rewritten<ListDevicesRequest>},
    {"ListDevicesResponse", rewritten<ListDevicesReply>},
    {"ResetRequest", rewritten<ResetRequest>},
    {"MakeCallableRequest", rewritten<MakeCallableRequest>},
    {"MakeCallableResponse", rewritten<MakeCallableReply>},
    {"RunCallableRequest", rewritten<RunCallableRequest>},
    {"RunCallableResponse", rewritten<RunCallableReply>},
    {"ReleaseCallableRequest", rewritten<ReleaseCallableRequest>},
    {"GetStatusResponse", rewritten<GetStatusReply>},
    {"CreateWorkerSessionRequest", rewritten<CreateWorkerSessionRequest>},
    {"DeleteWorkerSessionRequest", rewritten<DeleteWorkerSessionRequest>},
    {"RegisterGraphRequest", rewritten<RegisterGraphRequest>},
    {"RegisterGraphResponse", rewritten<RegisterGraphReply>},
    {"DeregisterGraphRequest", rewritten<DeregisterGraphRequest>},
    {"RunGraphRequest", rewritten<RunGraphRequest>},
    {"RunGraphResponse", rewritten<RunGraphReply>},
    {"CleanupGraphRequest", rewritten<CleanupGraphRequest>},
    {"CleanupAllRequest", rewritten<CleanupAllRequest>},
    {"RecvTensorRequest", rewritten<RecvTensorRequest>},
    {"RecvTensorResponse", rewritten<RecvTensorReply>},
};

Result<std::string> rewrite(const std::string& name, std::string bytes) {
  for (const Kind& kind : kKinds) {
    if (name == kind.name) return kind.rewrite(std::move(bytes));
  }
  return not_found("no message ", name);
}

}  // namespace

int main() {
  std::string name;
  std::size_t size = 0;
  while (std::cin >> name >> size) {
    std::cin.get();
    std::string bytes(size, '\0');
    std::cin.read(bytes.data(), static_cast<std::streamsize>(size));
    const Result<std::string> out = rewrite(name, std::move(bytes));
    if (out.ok()) {
      std::cout << "ok " << out->size() << "\n" << *out;
    } else {
      std::cout << "error " << printable(out.status().to_string(), 2000) << "\n";
    }
    std::cout.flush();
  }
  return 0;
}
