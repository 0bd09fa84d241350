#include "base/long_text.h"

#include <algorithm>
#include <utility>

namespace tranche {
namespace {

constexpr std::size_t kSmallest = 1024;  // of a block; the next ones are as large as the text is by then

}  // namespace

LongText::LongText(std::string text) : size_(text.size()) {
  if (text.empty()) return;
  auto block = std::make_shared<const std::string>(std::move(text));
  const std::string_view whole = *block;
  pieces_.push_back({std::move(block), whole});
}

LongText& LongText::operator+=(std::string_view text) {
  while (!text.empty()) {
    if (!open_ || open_->size() == open_->capacity()) {
      open_ = std::make_shared<std::string>();
      open_->reserve(std::clamp(size_, kSmallest, kBlock));
    }
    const auto room = std::min(text.size(), open_->capacity() - open_->size());
    extend(text.substr(0, room));
    text.remove_prefix(room);
  }
  return *this;
}

// Within the block's capacity, so what other pieces show of it stays where it is.
void LongText::extend(std::string_view text) {
  const char* const at = open_->data() + open_->size();
  open_->append(text);
  size_ += text.size();
  auto* const last = pieces_.empty() ? nullptr : &pieces_.back();
  if (last != nullptr && last->block == open_ && last->text.data() + last->text.size() == at) {
    last->text = {last->text.data(), last->text.size() + text.size()};
  } else {
    pieces_.push_back({open_, {at, text.size()}});
  }
}

LongText& LongText::operator+=(const LongText& text) {
  pieces_.insert(pieces_.end(), text.pieces_.begin(), text.pieces_.end());
  size_ += text.size_;
  return *this;
}

std::string LongText::str() const {
  std::string whole;
  whole.reserve(size_);
  for (const auto& piece : pieces_) whole += piece.text;
  return whole;
}

}  // namespace tranche
