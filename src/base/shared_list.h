#pragma once
// A value that copies share and that does not change: for what a snapshot and several parts of a program hold at once.
// It is replaced as a whole. Copies may be on several threads. Pure.
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace tranche {

template <class T>
class Shared {
 public:
  using value_type = typename T::value_type;
  using const_iterator = typename T::const_iterator;
  using iterator = const_iterator;

  // NOLINTBEGIN(google-explicit-constructor): from and to the value that it stands for
  Shared() = default;
  Shared(T value) : value_(value.empty() ? nullptr : std::make_shared<T>(std::move(value))) {}
  Shared(std::initializer_list<value_type> values) : Shared(T(values)) {}

  operator const T&() const { return **this; }
  // NOLINTEND(google-explicit-constructor)
  const T& operator*() const {
    static const T kNone;
    return value_ ? *value_ : kNone;
  }
  const T* operator->() const { return &**this; }
  // To be changed: a copy that this one has for itself.
  T& own() { return *(value_ = std::make_shared<T>(**this)); }

  const_iterator begin() const { return (**this).begin(); }
  const_iterator end() const { return (**this).end(); }
  std::size_t size() const { return (**this).size(); }
  bool empty() const { return (**this).empty(); }
  const auto& operator[](std::size_t at) const { return (**this)[at]; }
  friend bool operator==(const Shared& a, const Shared& b) { return a.value_ == b.value_ || *a == *b; }

 private:
  std::shared_ptr<T> value_;  // nullptr: empty
};

template <class T>
using SharedList = Shared<std::vector<T>>;

}  // namespace tranche
