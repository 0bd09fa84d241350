#pragma once
// A value that copies share, as SharedList is a list: for what a snapshot and several parts of a program hold at once.
// It is replaced as a whole. Copies may be on several threads. Pure.
#include <memory>
#include <utility>

namespace tranche {

template <class T>
class SharedValue {
 public:
  // NOLINTBEGIN(google-explicit-constructor): from and to the value that it stands for
  SharedValue() = default;
  SharedValue(T value) : value_(std::make_shared<T>(std::move(value))) {}
  operator const T&() const { return *value_; }
  // NOLINTEND(google-explicit-constructor)
  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_.get(); }
  // To be changed: a copy that this one has for itself.
  T& own() { return *(value_ = std::make_shared<T>(*value_)); }

 private:
  std::shared_ptr<T> value_ = std::make_shared<T>();
};

}  // namespace tranche
