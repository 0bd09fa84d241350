// Any texts as a container's /proc, parted by zero bytes: init's status, then status and syscall of each thread.
// Nothing that lacks the proof may read as survival.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/text.h"
#include "termination/survival.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche::stopping;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto parts = tranche::split(text, '\0');
  ProcessTexts init;
  init.status = parts[0];
  for (std::size_t at = 1; at + 1 < parts.size(); at += 2)
    init.threads.push_back({std::string(parts[at]), std::string(parts[at + 1])});
  for (const int signal : {1, 15, 64}) {
    const auto verdict = survives(init, signal, Machine::kX86_64);
    if (verdict.why.empty()) std::abort();
    if (verdict.survives && (init.threads.empty() || text.find("NSpid:") == std::string_view::npos ||
                             text.find("SigCgt:") == std::string_view::npos))
      std::abort();
  }
  if (fate_of(init, &init, false, 0, Machine::kX86_64).why.empty()) std::abort();
  return 0;
}
