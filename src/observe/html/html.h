#pragma once
// What our pages for people have in common: a document without scripts and without anything from elsewhere, one style
// sheet that its policy names by digest, and foreign text that stays text. Pure.
#include <fmt/format.h>

#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"

namespace tranche::html {

// Text of others as text: valid UTF-8 of bounded length without control characters, and nothing that HTML reads.
std::string text(std::string_view foreign);

class Html {
 public:
  template <class... Values>
  void add(fmt::format_string<Values...> format, Values&&... values) {
    fmt::memory_buffer formatted;
    fmt::format_to(std::back_inserter(formatted), format, std::forward<Values>(values)...);
    raw({formatted.data(), formatted.size()});
  }
  void raw(std::string_view markup) { out_ += markup; }
  // A table in a region of its own, which scrolls by itself where the page is too narrow, also with the keyboard.
  // `columns`: markup of their headings, after "#" for one of numbers. Then rows, then end_table().
  void table(std::string_view name, const std::vector<std::string>& columns);
  void end_table() { out_ += "</table></div>\n"; }
  void list(std::string_view title, const std::vector<std::string>& lines);  // of foreign text; nothing without lines
  LongText take() { return std::move(out_); }

 private:
  LongText out_;
};

// Up to and with <main>. `title` is text already; `reload` is in seconds, 0: not by itself.
void begin(Html& page, std::string_view title, int reload = 0);
void end(Html& page);

// What a browser may do with such a page: show it, with the one style sheet in it (by its SHA-256).
std::string policy();

}  // namespace tranche::html
