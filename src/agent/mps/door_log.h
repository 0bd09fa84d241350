#pragma once
// What tenants try at their doors, for the log: told at once, and then at most once a minute for each grant and kind,
// with how often it happened meanwhile, so that nobody can fill the node's disk. Loop thread only.
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "base/time.h"
#include "mps/gate.h"

namespace tranche::agent {

class DoorLog {
 public:
  void trouble(const std::string& pool, const std::string& grant, const mps::Passage& passage, std::uint32_t user,
               const std::string& why, MonoTime now);  // `why`: of a refusal
  void forget(const std::string& grant) {
    std::erase_if(told_, [&](const auto& entry) { return entry.first.first == grant; });
  }

 private:
  struct Told {
    MonoTime at{};
    std::uint64_t since = 0;  // times that were not told
  };
  std::map<std::pair<std::string, mps::GateEnd>, Told> told_;
};

}  // namespace tranche::agent
