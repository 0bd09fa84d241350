#pragma once
// Which slots are held, by what kubelet says (PodResources) and by what was answered since. In doubt they are: kubelet
// lists a grant a little after our answer, and for a moment after its own start it lists nothing. So a slot is free
// when two answers in a row do not name it, kConfirm apart, or kConfirmNone where kubelet names nobody at all. Pure.
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"

namespace tranche::change {

// What one container holds of one resource.
struct Held {
  std::string resource;
  std::vector<std::string> slots;  // sorted
  friend bool operator==(const Held&, const Held&) = default;
};

class HeldSlots {
 public:
  static constexpr Duration kConfirm = std::chrono::seconds(2);
  static constexpr Duration kConfirmNone = std::chrono::seconds(10);
  static constexpr Duration kListedAfter =
      std::chrono::seconds(5);  // a grant that comes to something is listed by then

  void given(Held held, MonoTime now);
  // kubelet's answer to a question asked at `asked`; every vendor's devices may be in it.
  void listed(const std::vector<Held>& all, MonoTime asked);
  void not_answered(std::string why) { unknown_ = std::move(why); }

  // Why nobody knows what is held; "" = it is known.
  const std::string& unknown() const { return unknown_; }
  std::vector<Held> held() const;
  // Was held, and is free by now beyond doubt: nobody was given it since.
  const std::vector<Held>& freed() const { return freed_; }
  // Something may be free: another answer of kubelet's would tell.
  bool in_doubt() const;

 private:
  struct Entry {
    Held held;
    std::optional<MonoTime> given;    // and not listed since
    std::optional<MonoTime> missing;  // asked first, and not listed
  };
  std::vector<Entry> entries_;
  std::vector<Held> freed_;  // no two of them share a slot, so they are no more than slots
  std::string unknown_ = "kubelet has not been asked yet";
};

}  // namespace tranche::change
