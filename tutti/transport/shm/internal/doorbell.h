// What wakes threads that wait in epoll: eventfds. Ringing one is cheaper than sending a byte over a socket, nothing
// has to be taken out of it, and the system does not take it for a sign that whoever rings is about to sleep, for which
// it would put the sleeper on the same core.
#pragma once

#include "tutti/core/status.h"
#include "tutti/transport/shm/internal/files.h"

namespace tutti::shm {

Result<UniqueFd> make_doorbell();
// Edge-triggered waits end, however often it was rung before. Never waits, as long as its number stays small or it is
// not made to block; a process that shares it could see to both, and is one of the same user, which could stop us too.
void ring_doorbell(int fd);
// kDataLoss unless it is one of make_doorbell's; kUnavailable where /proc does not say.
Status check_doorbell(int fd);

}  // namespace tutti::shm
