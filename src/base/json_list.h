#pragma once
// Parses JSON with a long list without holding the whole list in memory. Pure.
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace tranche {

// json_of() (json_text.h), but passes each element of the list at `key` to `element` once it is parsed, and then drops
// it. The elements are invalid if the result is discarded.
nlohmann::json json_of_list(std::string_view text, std::string_view key,
                            const std::function<void(const nlohmann::json&)>& element);

}  // namespace tranche
