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

  // A part of one block.
  struct Piece {
    std::shared_ptr<const std::string> block;
    std::string_view text;
  };

  // NOLINTBEGIN(google-explicit-constructor): a text of any length is one
  LongText() = default;
  LongText(std::string text);
  LongText(const char* text) : LongText(std::string(text)) {}
  // NOLINTEND(google-explicit-constructor)
  LongText(const LongText& other) : pieces_(other.pieces_), size_(other.size_) {}
  LongText(LongText&&) = default;
  LongText& operator=(const LongText& other) { return *this = LongText(other); }
  LongText& operator=(LongText&&) = default;
  ~LongText() = default;

  LongText& operator+=(std::string_view text);
  LongText& operator+=(const std::string& text) { return *this += std::string_view(text); }
  LongText& operator+=(const char* text) { return *this += std::string_view(text); }
  LongText& operator+=(const LongText& text);

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const std::vector<Piece>& pieces() const { return pieces_; }  // none is empty
  std::string str() const;

 private:
  void extend(std::string_view text);

  std::vector<Piece> pieces_;
  std::size_t size_ = 0;
  std::shared_ptr<std::string> open_;  // the block that has room, of this object only: no copy of it grows there
};

}  // namespace tranche
