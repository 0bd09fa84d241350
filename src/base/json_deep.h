#pragma once
// Private to base/json_text and base/json_list.
#include <string_view>

namespace tranche {

// Of any text: more brackets open at once, outside of strings, than any document of ours or Kubernetes' has.
bool is_deep(std::string_view text);

}  // namespace tranche
