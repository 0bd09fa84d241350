#pragma once
// Why a pod, a GPU or a slot is in its state: a chain of causes, each with its remedy, and what happened to it lately.
// Made from the node agent's status document (docs/reference/status.md). It explains what that agent reports, and asks
// neither the API server nor the driver. The document comes from another process: strict about types,
// forgiving about absences. Any thread. Pure; fuzzed.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace tranche::why {

struct Cause {
  std::string what;
  std::string remedy = {};  // "" where there is nothing to do
  bool is_fault = false;    // false: it is as it should be
};

struct Event {
  std::uint64_t ago_ms = 0;
  std::string what;
};

struct Explanation {
  std::string node = {};     // which of several; "" = the one that was asked
  std::string kind = {};     // "pod", "claim", "device", "slot"
  std::string subject = {};  // "team/train", "GPU 0 (GPU-…)", a slot's id
  std::string state = {};    // in a few words
  std::vector<Cause> causes = {};
  std::vector<Event> events = {};  // newest first; those that the agent still keeps
};

// `name` is a pod ("train", "team/train", "team/train/main"), a device (index, UUID, the beginning of a UUID, pool) or
// the id of a slot, or a claim (name, UID). Several of that name are all explained. kNotFound names the nearest and
// what there is; kInvalid: the text is not a status document.
Result<std::vector<Explanation>> explain(std::string_view status_json, std::string_view name, WallTime now);

// What to do about an unhealthy GPU: `cause` and `reason` are those of the status document. "": nothing.
std::string remedy_of(std::string_view cause, std::string_view reason);

// For a terminal, without control characters of others. `width` 0: as wide as it comes.
std::string render(const std::vector<Explanation>& all, bool colour, int width);
std::string to_json(const std::vector<Explanation>& all);

}  // namespace tranche::why
