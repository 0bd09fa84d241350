#pragma once
// What every way to start a process needs before fork and exec. Not for use between the two: these allocate.
#include <string>
#include <vector>

#include "base/result.h"
#include "host/loop/fd.h"

namespace tranche::host {

// Words as execve takes them: a pointer each and a null pointer last, valid as long as `strings` is unchanged.
std::vector<char*> pointers_to(std::vector<std::string>& strings);

// A duplicate, closed on exec, whose number is at least `least`.
Result<Fd> duplicate_from(int fd, int least);

// From here on a descriptor cannot be one of 0…3, where one dup2 would undo another.
inline constexpr int kAboveTargets = 10;

}  // namespace tranche::host
