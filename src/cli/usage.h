#pragma once
// The end of a command line that was not followed through: help and version, or a sentence on what cannot be read, with
// the nearest flag or command. And what a file's reader has to say, on standard error.
#include <vector>

#include "base/problem.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace tranche::cli {

// Prints; the exit status: 0 for help and version, `usage_status` for everything else.
int leave(CLI::App& app, const CLI::ParseError& error, int usage_status);

void print_problems(const std::vector<Problem>& problems);  // a line each

}  // namespace tranche::cli
