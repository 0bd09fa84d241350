#pragma once
// A text of up to megabytes in blocks that its copies share: a page that is kept and sent to several readers is in
// memory once. It only grows, and it is made without copies of what it already has. Copies may be on several threads;
// one object is of one thread. Pure.
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tranche {

class LongText {
 public:
  // The size of the blocks of a long text: each is memory of its own, which the system has back with the last copy
  // (os/memory/memory.h, kOwnBlock).
  static constexpr std::size_t kBlock = std::size_t{128} << 10;

  // NOLINTBEGIN(google-explicit-constructor): a text of any length is one
  LongText() = default;
  LongText(std::string text);
  LongText(const char* text) : LongText(std::string(text)) {}
  // NOLINTEND(google-explicit-constructor)

  LongText& operator+=(std::string_view text);
  LongText& operator+=(const std::string& text) { return *this += std::string_view(text); }
  LongText& operator+=(const char* text) { return *this += std::string_view(text); }
  LongText& operator+=(const LongText& text);

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const std::vector<std::shared_ptr<std::string>>& blocks() const { return blocks_; }  // none is empty
  std::string str() const;

 private:
  std::vector<std::shared_ptr<std::string>> blocks_;  // one that a copy has too does not grow
  std::size_t size_ = 0;
};

}  // namespace tranche
