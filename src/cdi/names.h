#pragma once
// The grammars of CDI names. Each function returns the error in the text, or "". Pure.
#include <string>
#include <string_view>

namespace tranche::cdi {

std::string fault_of_vendor(std::string_view vendor);
std::string fault_of_class(std::string_view cls);
std::string fault_of_device(std::string_view name);
std::string fault_of_env(std::string_view entry);  // "NAME=value"
std::string fault_of_path(std::string_view path);  // absolute, without ".." and NUL

}  // namespace tranche::cdi
