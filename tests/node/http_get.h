#pragma once
// What the programs' pages answer.
#include <string>

namespace tranche::e2e {

// "127.0.0.1:41233" → everything that it answers to GET path, or a few words about why there is no answer.
std::string http_get(const std::string& address, const std::string& path);

// The address in a program's log line http.listening; "" while there is none.
std::string address_in(const std::string& log);

}  // namespace tranche::e2e
