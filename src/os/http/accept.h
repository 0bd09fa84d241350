#pragma once
// Private to os/http: which of two forms of a page a request asks for, from its Accept header (RFC 9110, 12.5.1).
// Input from the network; pure.
#include <string_view>

namespace tranche::host {

// From 0 (not acceptable) to 1, for a content type such as "text/plain; version=0.0.4; charset=utf-8". A range with a
// version matches a type of that version only; other parameters are not looked at. "" accepts everything.
double quality(std::string_view accept, std::string_view content_type);

}  // namespace tranche::host
