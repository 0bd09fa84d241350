// The terminal of `tranche top`. Uses control sequences that all common terminals support, and no terminal database,
// because the image has none (docs/internals/decisions/0017-terminal-view.md).
#include <fmt/format.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>

#include "base/enum_names.h"
#include "cli/cluster_options.h"
#include "cli/commands.h"
#include "observe/top/top.h"
#include "os/terminal/terminal.h"

namespace tranche::cli {
namespace {

struct Options {
  std::string socket = "/run/tranche/node.sock";
  bool json = false;
  bool once = false;
  double interval_seconds = 2;
  ClusterOptions cluster;
  std::string sort = "memory";
  std::string filter;
};

constexpr const char* kEnter = "\x1b[?1049h\x1b[?25l";  // the alternate screen, no cursor
constexpr const char* kLeave = "\x1b[?25h\x1b[?1049l";

volatile std::sig_atomic_t ended = 0;
void on_resize(int) {}  // the signal ends the wait for keys
void on_end(int) {
  ended = 1;
}

void write_all(std::string_view text) {
  while (!text.empty()) {
    const auto written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// The destructor restores the terminal, also after SIGINT, SIGTERM and SIGHUP.
class Terminal {
 public:
  Terminal() {
    ::tcgetattr(STDIN_FILENO, &before_);
    enter();
    struct sigaction action{};
    action.sa_handler = on_resize;
    ::sigaction(SIGWINCH, &action, nullptr);
    action.sa_handler = on_end;
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(number, &action, nullptr);
  }
  ~Terminal() { leave(); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // Like Ctrl-Z: returns the terminal to the shell, and `fg` resumes.
  void suspend() {
    leave();
    ::raise(SIGSTOP);
    enter();
  }

 private:
  void enter() {
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    write_all(kEnter);
  }
  void leave() {
    write_all(kLeave);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  termios before_{};
};

void show(const std::vector<std::string>& lines) {
  std::string out = "\x1b[H";
  for (std::size_t i = 0; i < lines.size(); ++i) out += (i == 0 ? "" : "\r\n") + lines[i] + "\x1b[K";
  write_all(out + "\x1b[J");
}

// Bytes that were read together → keys; false: the view ends.
bool press_all(top::Choice& choice, Terminal& terminal, std::string_view bytes) {
  constexpr std::pair<std::string_view, top::Key> kSequences[] = {
      {"\x1b[A", top::Key::kUp},      {"\x1b[B", top::Key::kDown},    {"\x1bOA", top::Key::kUp},
      {"\x1bOB", top::Key::kDown},    {"\x1b[5~", top::Key::kPageUp}, {"\x1b[6~", top::Key::kPageDown},
      {"\x1b[H", top::Key::kHome},    {"\x1bOH", top::Key::kHome},    {"\x1b[1~", top::Key::kHome},
      {"\x1b[F", top::Key::kEnd},     {"\x1bOF", top::Key::kEnd},     {"\x1b[4~", top::Key::kEnd},
      {"\t", top::Key::kTab},         {"\r", top::Key::kEnter},       {"\n", top::Key::kEnter},
      {"\x7f", top::Key::kBackspace}, {"\b", top::Key::kBackspace}};
  while (!bytes.empty()) {
    const auto* found =
        std::ranges::find_if(kSequences, [&](const auto& each) { return bytes.starts_with(each.first); });
    if (found != std::end(kSequences)) {
      bytes.remove_prefix(found->first.size());
      top::press(choice, found->second, 0);
      continue;
    }
    const char c = bytes.front();
    bytes.remove_prefix(1);
    constexpr char kCtrlC = 3, kCtrlZ = 26;
    if (c == kCtrlC) return false;
    if (c == kCtrlZ) terminal.suspend();
    if (c == '\x1b') {
      if (!bytes.empty()) return true;  // an unsupported sequence
      top::press(choice, top::Key::kEscape, 0);
    }
    if (c >= ' ' && c <= '~' && !top::press(choice, top::Key::kText, c)) return false;
  }
  return true;
}

Result<top::Node> ask(Options& options, const Process& process) {
  if (options.cluster.cluster) {
    TRY(const auto agents, ask_agents(options.cluster, process));
    return top::cluster_of(agents);
  }
  TRY(const auto answer, ask_node(options.socket));
  return top::read_node(answer);
}

int live(Options& options, const Process& process, top::Choice choice) {
  using Clock = std::chrono::steady_clock;
  top::Node node;
  Clock::time_point asked;
  const auto look = [&] {
    asked = Clock::now();
    if (auto next = ask(options, process)) {
      node = *std::move(next);
    } else {
      node.ready = false;
      const std::string why = to_string(next.error());
      node.reason = why.substr(0, why.find('\n'));  // without the remedy
    }
  };
  look();  // a credential program may ask the person, before the terminal is ours
  Terminal terminal;
  const auto interval =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.interval_seconds));
  while (ended == 0) {
    if (!choice.paused && Clock::now() - asked >= interval) look();
    const auto [width, height] = os::terminal_size().value_or(os::TerminalSize{});
    const top::Screen screen{.width = width, .height = height, .colour = process.terminal};
    choice = top::within(node, choice, screen);
    show(top::draw(node, choice, screen));
    pollfd keys{STDIN_FILENO, POLLIN, 0};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(asked + interval - Clock::now()).count();
    if (::poll(&keys, 1, choice.paused ? 60'000 : static_cast<int>(std::max<std::int64_t>(left, 1))) <= 0) continue;
    char bytes[64];
    const auto read = ::read(STDIN_FILENO, bytes, sizeof bytes);
    if (read <= 0 || !press_all(choice, terminal, {bytes, static_cast<std::size_t>(read)})) break;
  }
  return 0;
}

int top_command(Options& options, const Process& process) {
  top::Choice choice;
  choice.filter = options.filter;
  choice.sort = enum_of<top::Sort>(options.sort).value_or(choice.sort);
  const bool terminal = process.width > 0 && ::isatty(STDIN_FILENO) != 0;
  if (terminal && !options.json && !options.once) return live(options, process, choice);
  const auto node = ask(options, process);
  if (!node) {
    fmt::print(stderr, "tranche top: {}{}\n", to_string(node.error()), observe::remedy_for(node.error()));
    return 1;
  }
  if (options.json) {
    fmt::print("{}\n", top::to_json(*node, choice));
    return 0;
  }
  constexpr int kWidthOfFiles = 120;
  const top::Screen screen{
      .width = process.width > 0 ? process.width : kWidthOfFiles, .height = 0, .colour = process.terminal};
  for (const auto& line : top::draw(*node, choice, screen)) fmt::print("{}\n", line);
  return 0;
}

}  // namespace

void add_top(CLI::App& app, Process& process) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("top", "live view of this node's GPUs and tenants, from the running node agent");
  command->add_option("--socket", options->socket, "the node agent's status socket")->capture_default_str();
  auto* interval =
      command->add_option("--interval", options->interval_seconds, "seconds between two readings; 10 with --cluster")
          ->check(CLI::Range(0.2, 3600.0))
          ->capture_default_str();
  command->add_option("--sort", options->sort, "order of the tenants")
      ->check(CLI::IsMember({"memory", "limit", "processes", "name", "gpu"}))
      ->capture_default_str();
  command->add_option("--filter", options->filter, "show only tenants with this text in namespace/pod/container");
  add_cluster_options(*command, options->cluster, process);
  command->add_flag("--once", options->once, "print one reading as text, and exit; the default without a terminal");
  command->add_flag("--json", options->json, "print one reading as JSON, and exit");
  command->footer(
      "Examples:\n  tranche top --sort limit                   nearest to their limits first\n"
      "  tranche top --cluster --filter team-a/     all tenants of a namespace");
  command->callback([options, interval, &process] {
    constexpr double kOfCluster = 10;
    if (options->cluster.cluster && interval->count() == 0) options->interval_seconds = kOfCluster;
    process.exit_code = top_command(*options, process);
  });
}

}  // namespace tranche::cli
