// Resources that operations wait in.
#pragma once

namespace tutti {

// Implemented by a Resource beside what else it is.
class WaitingRoom {
 public:
  virtual ~WaitingRoom() = default;
  // It was taken out of its slot, so that nobody can reach it any more: who waits in it, or comes to, ends with
  // kAborted.
  virtual void abandon() = 0;
};

}  // namespace tutti
