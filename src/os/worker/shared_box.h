#pragma once
// The newest of a sequence of values that do not change: one thread puts them, others read them. A reader has the value
// of one moment for as long as it likes. Thread-safe.
#include <memory>
#include <mutex>

namespace tranche::os {

template <class T>
class SharedBox {
 public:
  std::shared_ptr<const T> get() const {  // never null
    const std::lock_guard lock(mutex_);
    return value_;
  }
  void put(std::shared_ptr<const T> value) {  // the former one ends outside the lock
    const std::lock_guard lock(mutex_);
    value_.swap(value);
  }

 private:
  mutable std::mutex mutex_;  // not std::atomic<shared_ptr>: ThreadSanitizer reports this standard library's
  std::shared_ptr<const T> value_ = std::make_shared<T>();
};

}  // namespace tranche::os
