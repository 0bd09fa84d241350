#include "grants/change/held_slots.h"

#include <algorithm>
#include <utility>

namespace tranche::change {
namespace {

bool overlap(const Held& a, const Held& b) {
  return a.resource == b.resource && std::ranges::any_of(a.slots, [&](const std::string& slot) {
           return std::ranges::binary_search(b.slots, slot);
         });
}

}  // namespace

// kubelet gives a slot to one container at a time: who had it before is gone.
void HeldSlots::given(Held held, MonoTime now) {
  std::ranges::sort(held.slots);
  std::erase_if(entries_, [&](const Entry& entry) { return overlap(entry.held, held); });
  std::erase_if(freed_, [&](const Held& freed) { return overlap(freed, held); });
  entries_.push_back({std::move(held), now, {}});
}

void HeldSlots::listed(const std::vector<Held>& all, MonoTime asked) {
  unknown_.clear();
  const auto before = std::exchange(entries_, {});
  for (auto held : all) {
    std::ranges::sort(held.slots);
    std::erase_if(freed_, [&](const Held& freed) { return overlap(freed, held); });
    entries_.push_back({std::move(held), {}, {}});
  }
  const auto patience = all.empty() ? kConfirmNone : kConfirm;
  const auto named = entries_.size();
  for (auto entry : before) {
    const auto end = entries_.begin() + static_cast<std::ptrdiff_t>(named);
    const auto same = std::find_if(entries_.begin(), end, [&](const Entry& e) { return overlap(e.held, entry.held); });
    const bool newer = entry.given && asked <= *entry.given;  // this answer could not name it yet
    if (same != end && !newer) continue;
    if (!entry.given || asked - *entry.given >= kListedAfter) {
      if (entry.missing && asked - *entry.missing >= patience) {
        std::erase_if(freed_, [&](const Held& freed) { return overlap(freed, entry.held); });
        freed_.push_back(std::move(entry.held));
        continue;
      }
      if (!entry.missing) entry.missing = asked;
    }
    if (same != end)
      *same = std::move(entry);
    else
      entries_.push_back(std::move(entry));
  }
}

std::vector<Held> HeldSlots::held() const {
  std::vector<Held> held;
  for (const auto& entry : entries_) held.push_back(entry.held);
  return held;
}

bool HeldSlots::in_doubt() const {
  return std::ranges::any_of(entries_, [](const Entry& entry) { return entry.missing || entry.given; });
}

}  // namespace tranche::change
