#pragma once
// JSON of a long list, without the memory of all of it. Pure.
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace tranche {

// json_of() (json_text.h) without the elements of the list at `key`, each of which `element` gets when it has been read
// and which is forgotten then. What was given is of no use when the document turns out to be none.
nlohmann::json json_of_list(std::string_view text, std::string_view key,
                            const std::function<void(const nlohmann::json&)>& element);

}  // namespace tranche
