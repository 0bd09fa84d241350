#include "observe/html/html.h"

#include "base/text.h"
#include "observe/metrics/page.h"

namespace tranche::html {
namespace {

// A test compares the digest with the style.
constexpr std::string_view kDigest = "jnEKxXf9mgB2YF31MBtY1tmrYMKPchQCg3YC7A++syU=";

constexpr std::string_view kStyle =
    R"css(:root{color-scheme:light dark;--back:#fff;--ink:#1b1f24;--dim:#57606a;--line:#d0d7de;--free:#e2e7ec;--bad:#b42318;--good:#1a6b34;--a:#2f6fd0;--b:#0f8a7e;--c:#9a5fc4;--d:#b8652a}
@media(prefers-color-scheme:dark){:root{--back:#14171b;--ink:#e6edf3;--dim:#9aa4ae;--line:#3d444d;--free:#2c333b;--bad:#ff8a80;--good:#67d68a;--a:#6ea8fe;--b:#4fd1c5;--c:#c79bea;--d:#f0a66a}}
html{background:var(--back)}
body{font:15px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--back);margin:0 auto;padding:12px;max-width:1200px}
h1{font-size:1.3em;margin:0}h2{font-size:1.05em;margin:1.4em 0 .3em}p{margin:.3em 0}a{color:inherit}
.dim{color:var(--dim)}.bad{color:var(--bad)}.good{color:var(--good)}
svg{width:100%;height:26px;display:block}
.f{fill:var(--free)}.t0{fill:var(--a)}.t1{fill:var(--b)}.t2{fill:var(--c)}.t3{fill:var(--d)}.x{fill:var(--bad)}
.w{overflow-x:auto}table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.2em .7em .2em 0;border-bottom:1px solid var(--line);vertical-align:top}
th[scope=row]{min-width:9em}td.n,th.n{text-align:right;white-space:nowrap}td.l{min-width:13em}
meter{width:7em}bdi{overflow-wrap:anywhere}
td.m{min-width:5em}td.m svg{height:16px}svg.k{width:.7em;height:.7em;display:inline})css";

}  // namespace

std::string text(std::string_view foreign) {
  constexpr std::size_t kLongest = 1000;
  std::string shown = metrics::label_value(foreign, kLongest);
  if (foreign.size() > kLongest) shown += "…";
  return in_markup(shown);
}

void Html::table(std::string_view name, const std::vector<std::string>& columns) {
  add("<div class=w role=region tabindex=0 aria-label=\"{}\"><table><tr>", name);
  for (const std::string_view column : columns)
    column.starts_with('#') ? add("<th scope=col class=n>{}", column.substr(1)) : add("<th scope=col>{}", column);
  raw("\n");
}

void Html::list(std::string_view title, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  add("<h2>{}</h2>\n<ul>", title);
  for (const auto& line : lines) add("<li><bdi>{}</bdi>", text(line));
  raw("</ul>\n");
}

void begin(Html& page, std::string_view title, int reload) {
  page.raw(
      "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport "
      "content=\"width=device-width,initial-scale=1\">");
  if (reload > 0) page.add("<meta http-equiv=refresh content={}>", reload);
  page.add("<title>{}</title><style>{}</style></head><body>\n<main>", title, kStyle);
}

void end(Html& page) {
  page.raw("</main></body></html>\n");
}

std::string policy() {
  return fmt::format(
      "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      kDigest);
}

}  // namespace tranche::html
