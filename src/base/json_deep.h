#pragma once
// Private to base/json_text and base/json_list.
#include <string_view>

namespace tranche {

// For any text: whether more brackets are open at once, outside strings, than in any document of ours or of Kubernetes.
bool is_deep(std::string_view text);

}  // namespace tranche
