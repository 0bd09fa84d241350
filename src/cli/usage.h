#pragma once
// The end of a command line that is not executed: help and version, or a sentence on the error with the nearest flag or
// command. Also prints the problems of a file on standard error.
#include <vector>

#include "base/problem.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace tranche::cli {

// Prints, and returns the exit status: 0 for help and version, `usage_status` for everything else.
int leave(CLI::App& app, const CLI::ParseError& error, int usage_status);

// One line each; whether one of them is an error.
bool print_problems(const std::vector<Problem>& problems);

}  // namespace tranche::cli
