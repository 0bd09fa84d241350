#include "doctor/check/run_program.h"

#include <memory>
#include <optional>

#include "os/loop/loop.h"
#include "os/process/process.h"

namespace tranche::check {

Result<std::string> run_program(const std::vector<std::string>& argv, Duration deadline) {
  TRY(const std::unique_ptr<host::Loop> loop, host::Loop::open());
  host::Command command;
  command.argv = argv;
  command.env = {{"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"}, {"LC_ALL", "C"}};
  command.kill_on_drop = true;
  std::string output;
  std::optional<host::ExitNote> note;
  TRY(const std::unique_ptr<host::Process> process,
      host::Process::start(
          *loop, command, [&output](const std::string& line) { output += (output.empty() ? "" : "\n") + line; },
          [&](host::ExitNote ended) {
            note = ended;
            loop->stop();
          }));
  loop->after(deadline, [&loop] { loop->stop(); });
  loop->run();
  if (!note) return fail(Kind::kTimeout, "it has not ended in time", argv.front());
  if (note->signalled || note->code != 0)
    return fail(Kind::kUnavailable, "it " + to_string(*note) + ": " + output, argv.front());
  return output;
}

}  // namespace tranche::check
