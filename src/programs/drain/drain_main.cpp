// tranche-drain: a preStop hook of earlier versions, which existing pods still name. It runs the user's own hook, as it
// did then, and nothing else. It is mounted into images without a C library: so it is static.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <string_view>

int main(int argc, char** argv) {
  for (int at = 1; at < argc; ++at) {
    const std::string_view word = argv[at];
    if (word == "--help" || word == "-h") {
      ::puts(
          "tranche-drain [-- COMMAND...]\n"
          "  No longer needed, and does nothing except run COMMAND: remove it from the container's preStop hook.\n"
          "  tranche-keeper protects the other clients of the GPU. Options of earlier versions are ignored.");
      return 0;
    }
    if (word == "--version") {
      ::puts("tranche-drain " TRANCHE_VERSION);
      return 0;
    }
    if (word != "--") continue;
    if (at + 1 == argc) return 0;
    ::execvp(argv[at + 1], argv + at + 1);
    const int error = errno;
    ::fprintf(stderr, "tranche-drain: cannot run %s: %s\n", argv[at + 1], ::strerrordesc_np(error));
    return error == ENOENT ? 127 : 126;  // the shell's exit statuses
  }
  return 0;
}
