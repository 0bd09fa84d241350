// Any text as a status document and as a kubelet state: a view or an Error, and a view can be drawn.
#include <cstdint>
#include <string_view>

#include "observe/view/view.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto half = text.find('\n');
  const auto status = text.substr(0, half);
  const auto kubelet = half == std::string_view::npos ? std::string_view() : text.substr(half + 1);
  if (const auto view = tranche::view::make_view(status, kubelet)) {
    (void)tranche::view::render(*view, {.colour = true});
  }
  return 0;
}
