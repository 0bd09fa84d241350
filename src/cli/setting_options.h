#pragma once
// Command-line options from the table of settings (config/settings.h), so that spellings and help stand in one place.
#include "config/resolve.h"

namespace CLI {
class App;
}

namespace tranche::cli {

// `given` must live until parsing is over; it receives what the command line said.
void add_settings(CLI::App& command, config::Program program, config::GivenFlags& given);

}  // namespace tranche::cli
