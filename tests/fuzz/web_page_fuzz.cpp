// Any text as a status document and as the query of an address: a page in which neither is markup.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "observe/web/web.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto half = text.find('\n');  // the query comes first
  const auto status = half == std::string_view::npos ? std::string_view() : text.substr(half + 1);
  tranche::web::Shown shown;
  shown.nodes.push_back(tranche::web::make_node("n", status));
  shown.fits = tranche::web::fits_of(shown.nodes);
  const std::string page = tranche::web::page(shown, text.substr(0, half));
  if (page.find("<script") != std::string::npos || page.find("<img") != std::string::npos) std::abort();
  (void)tranche::web::to_json(shown);
  return 0;
}
