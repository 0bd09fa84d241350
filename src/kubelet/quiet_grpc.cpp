// gRPC's threads for callbacks ask its queue for at most a second at a time, pause for 100 ms, and ask again: some five
// wake-ups a second in a program that has nothing to do, half of what it uses at rest. The queue is woken by every
// event and by its end, so they wait without a limit instead. The linker puts this in the place of gRPC's function
// (CMakeLists.txt); nothing else here calls it.
#include <grpc/grpc.h>
#include <grpc/support/time.h>

extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names
grpc_event __real_grpc_completion_queue_next(grpc_completion_queue* queue, gpr_timespec deadline, void* reserved);

grpc_event __wrap_grpc_completion_queue_next(grpc_completion_queue* queue, gpr_timespec deadline, void* reserved) {
  return __real_grpc_completion_queue_next(queue, gpr_inf_future(deadline.clock_type), reserved);
}
// NOLINTEND(bugprone-reserved-identifier)
}
