// A master whose session is leased, so that the master notices when its client is gone.
#pragma once

#include <memory>

#include "tutti/core/clock.h"
#include "tutti/distributed/master_interface.h"

namespace tutti {

// Passes on to `master`. From a session's creation to its closing a lease call is kept open on `channel`; a master that
// does not know leases is left alone. `clock` must outlive it and the calls on `channel`.
std::shared_ptr<MasterInterface> make_leased_master(std::shared_ptr<MasterInterface> master,
                                                    std::shared_ptr<Channel> channel, Clock& clock);

}  // namespace tutti
