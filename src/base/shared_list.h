#pragma once
// A list that copies share and that does not change: for what a snapshot and several parts of a program hold at once.
// It is replaced as a whole. Copies may be on several threads. Pure.
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace tranche {

template <class T>
class SharedList {
 public:
  using value_type = T;
  using const_iterator = typename std::vector<T>::const_iterator;
  using iterator = const_iterator;

  // NOLINTBEGIN(google-explicit-constructor): from and to the list that it stands for
  SharedList() = default;
  SharedList(std::vector<T> values)
      : values_(values.empty() ? nullptr : std::make_shared<const std::vector<T>>(std::move(values))) {}
  SharedList(std::initializer_list<T> values) : SharedList(std::vector<T>(values)) {}

  operator const std::vector<T>&() const { return values(); }
  // NOLINTEND(google-explicit-constructor)
  const_iterator begin() const { return values().begin(); }
  const_iterator end() const { return values().end(); }
  std::size_t size() const { return values().size(); }
  bool empty() const { return values_ == nullptr; }
  const T& operator[](std::size_t at) const { return values()[at]; }
  friend bool operator==(const SharedList& a, const SharedList& b) {
    return a.values_ == b.values_ || a.values() == b.values();
  }

 private:
  const std::vector<T>& values() const {
    static const std::vector<T> kNone;
    return values_ ? *values_ : kNone;
  }

  std::shared_ptr<const std::vector<T>> values_;  // nullptr: none
};

}  // namespace tranche
