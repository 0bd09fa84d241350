#include "base/long_text.h"

#include <algorithm>
#include <utility>

namespace tranche {
namespace {

constexpr std::size_t kSmallest = 1024;  // of a block; the next ones are as large as the text is by then

}  // namespace

LongText::LongText(std::string text) : size_(text.size()) {
  if (!text.empty()) blocks_.push_back(std::make_shared<std::string>(std::move(text)));
}

LongText& LongText::operator+=(std::string_view text) {
  while (!text.empty()) {
    // What a copy shows of its last block must not change.
    if (blocks_.empty() || blocks_.back().use_count() > 1 || blocks_.back()->size() == blocks_.back()->capacity())
      blocks_.emplace_back(std::make_shared<std::string>())->reserve(std::clamp(size_, kSmallest, kBlock));
    auto& block = *blocks_.back();
    const auto part = text.substr(0, block.capacity() - block.size());
    block += part;
    size_ += part.size();
    text.remove_prefix(part.size());
  }
  return *this;
}

LongText& LongText::operator+=(const LongText& text) {
  blocks_.insert(blocks_.end(), text.blocks_.begin(), text.blocks_.end());
  size_ += text.size_;
  return *this;
}

std::string LongText::str() const {
  std::string whole;
  whole.reserve(size_);
  for (const auto& block : blocks_) whole += *block;
  return whole;
}

}  // namespace tranche
