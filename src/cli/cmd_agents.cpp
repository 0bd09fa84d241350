// Commands that show what running node agents report.
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
#include "base/terminal_text.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/setting_options.h"
#include "observe/cluster/web_program.h"
#include "observe/top/top.h"
#include "observe/view/view.h"
#include "observe/why/why.h"
#include "os/clock/clock.h"
#include "os/socket/status_socket.h"
#include "os/terminal/terminal.h"

namespace tranche::cli {
namespace {

struct StatusOptions : ClusterOptions {
  bool alive = false;
  int deadline_seconds = 5;
};

// For a liveness probe: the agent hangs only if its socket exists and it does not answer. Without a socket it has not
// started yet, or has exited, which is not the probe's concern.
int alive(const StatusOptions& options) {
  const auto answer = os::ask(options.socket, "alive", std::chrono::seconds(options.deadline_seconds));
  if (answer || answer.error().kind != Kind::kTimeout) return 0;
  return failed("status", "the node agent hangs: " + to_string(answer.error()));
}

Result<std::string> ask(StatusOptions& options, const Process& process) {
  const auto deadline = std::chrono::seconds(options.deadline_seconds);
  if (options.asked.node.empty()) return ask_node(options, deadline);
  options.asked.deadline = deadline;
  TRY(auto statuses, ask_agents(options, process));
  if (!statuses.front().document.empty()) return std::move(statuses.front().document);
  return fail(Kind::kUnavailable, statuses.front().problem);
}

int status(StatusOptions& options, const Process& process) {
  if (options.alive) return alive(options);
  const auto answer = ask(options, process);
  if (!answer) return failed("status", to_string(answer.error()) + observe::remedy_for(answer.error()));
  if (options.json) {
    fmt::print("{}\n", *answer);
    return 0;
  }
  const auto text = view::render(*answer, "", {.colour = process.terminal});
  if (!text) return failed("status", to_string(text.error()));
  fmt::print("{}", fitted(*text, process.width));
  return 0;
}

}  // namespace

void add_status(CLI::App& app, Process& process) {
  auto options = std::make_shared<StatusOptions>();
  auto* command = app.add_subcommand("status", "what this node has and who holds it, from the running node agent");
  command->add_option("--socket", options->socket, "the node agent's status socket");
  command->add_option("--node", options->asked.node,
                      "the agent of this node, through the API server; it reports less than on the node");
  add_agents_options(*command, options->asked, "with --node: ");
  command->add_option("--deadline", options->deadline_seconds, "seconds to wait for the answer");
  command->add_flag("--json", options->json, "the whole status document (docs/reference/status.md)");
  command->add_flag(
      "--alive", options->alive,
      "print nothing; exit 1 only where the node agent is there and does not answer: for liveness probes");
  command->footer(
      "Examples:\n  tranche status               on the node, or in the agent's pod\n"
      "  tranche status --node n1     from outside");
  command->callback([options, &process] { process.exit_code = status(*options, process); });
}

namespace {

struct WhyOptions : ClusterOptions {
  std::string name;
};

// The explanation of that name from each agent of the cluster. It has fewer facts than on the node: the agent's page
// does not name processes.
Result<std::vector<why::Explanation>> ask_cluster(WhyOptions& options, const Process& process) {
  TRY(const auto statuses, ask_agents(options, process));
  std::vector<why::Explanation> all;
  for (const auto& status : statuses) {
    if (status.document.empty())
      fmt::print(stderr, "tranche why: node {} is not known: {}\n", visible_text(status.node),
                 visible_text(status.problem));
    auto found = why::explain(status.document, options.name, os::wall_now());
    if (!found) continue;
    for (auto& each : *found) {
      each.node = status.node;
      all.push_back(std::move(each));
    }
  }
  if (all.empty())
    return fail(
        Kind::kNotFound,
        fmt::format("none of {} node agents reports a pod, GPU or slot {}. A pod without a share is not known to "
                    "any: `kubectl describe pod` shows why it is Pending or was refused",
                    statuses.size(), in_quotes(options.name)));
  return all;
}

Result<std::vector<why::Explanation>> ask(WhyOptions& options, const Process& process) {
  if (options.cluster) return ask_cluster(options, process);
  TRY(const auto answer, ask_node(options));
  return why::explain(answer, options.name, os::wall_now());
}

int why_command(WhyOptions& options, const Process& process) {
  const auto found = ask(options, process);
  if (!found) return failed("why", to_string(found.error()));
  fmt::print("{}", options.json ? why::to_json(*found) + "\n" : why::render(*found, process.terminal, process.width));
  return 0;
}

}  // namespace

void add_why(CLI::App& app, Process& process) {
  auto options = std::make_shared<WhyOptions>();
  auto* command = app.add_subcommand(
      "why", "why a pod, a GPU or a slot is in its state, and what to do, from the running node agent");
  command
      ->add_option(
          "name", options->name,
          "pod (NAME, NAMESPACE/NAME or NAMESPACE/NAME/CONTAINER), GPU (index, UUID or its beginning), or slot id")
      ->required();
  command->add_option("--socket", options->socket, "the node agent's status socket");
  add_cluster_options(*command, *options, process);
  command->add_flag("--json", options->json, "the same as JSON");
  command->footer(
      "Examples:\n  tranche why team-a/train     a pod\n  tranche why 2                GPU 2 of this node\n"
      "  tranche why --cluster train  wherever it is");
  command->callback([options, &process] { process.exit_code = why_command(*options, process); });
}

namespace {

// The terminal of `tranche top`. Uses control sequences that all common terminals support, and no terminal database,
// because the image has none (docs/internals/decisions/0017-terminal-view.md).

struct TopOptions : ClusterOptions {
  bool once = false;
  double interval_seconds = 2;
  std::string sort = "memory";
  std::string filter;
};

constexpr const char* kEnter = "\x1b[?1049h\x1b[?25l";  // the alternate screen, no cursor
constexpr const char* kLeave = "\x1b[?25h\x1b[?1049l";

volatile std::sig_atomic_t interrupted = 0;
void on_resize(int) {}  // the signal ends the wait for keys
void on_end(int) {
  interrupted = 1;
}

void write_all(std::string_view text) {
  (void)std::fwrite(text.data(), 1, text.size(), stdout);
  (void)std::fflush(stdout);
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
    ::cfmakeraw(&raw);
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

Result<top::Node> ask(TopOptions& options, const Process& process) {
  if (options.cluster) {
    TRY(const auto agents, ask_agents(options, process));
    return top::cluster_of(agents);
  }
  TRY(const auto answer, ask_node(options));
  return top::read_node(answer);
}

int live(TopOptions& options, const Process& process, top::Choice choice) {
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
  while (interrupted == 0) {
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

int top_command(TopOptions& options, const Process& process) {
  top::Choice choice;
  choice.filter = options.filter;
  choice.sort = enum_of<top::Sort>(options.sort).value_or(choice.sort);
  const bool terminal = process.width > 0 && ::isatty(STDIN_FILENO) != 0;
  if (terminal && !options.json && !options.once) return live(options, process, choice);
  const auto node = ask(options, process);
  if (!node) return failed("top", to_string(node.error()) + observe::remedy_for(node.error()));
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
  auto options = std::make_shared<TopOptions>();
  auto* command = app.add_subcommand("top", "live view of this node's GPUs and tenants, from the running node agent");
  command->add_option("--socket", options->socket, "the node agent's status socket");
  auto* interval =
      command->add_option("--interval", options->interval_seconds, "seconds between two readings; 10 with --cluster")
          ->check(CLI::Range(0.2, 3600.0));
  command->add_option("--sort", options->sort, "order of the tenants")
      ->check(CLI::IsMember({"memory", "limit", "processes", "name", "gpu"}));
  command->add_option("--filter", options->filter, "show only tenants with this text in namespace/pod/container");
  add_cluster_options(*command, *options, process);
  command->add_flag("--once", options->once, "print one reading as text, and exit; the default without a terminal");
  command->add_flag("--json", options->json, "print one reading as JSON, and exit");
  command->footer(
      "Examples:\n  tranche top --sort limit                   nearest to their limits first\n"
      "  tranche top --cluster --filter team-a/     all tenants of a namespace");
  command->callback([options, interval, &process] {
    constexpr double kOfCluster = 10;
    if (options->cluster && interval->count() == 0) options->interval_seconds = kOfCluster;
    process.exit_code = top_command(*options, process);
  });
}

void add_web(CLI::App& app, Process& process) {
  auto options = std::make_shared<observe::WebOptions>();
  auto seconds = std::make_shared<double>(10);
  auto* command = app.add_subcommand(
      "web",
      "a page of the cluster on this machine: nodes and GPUs as a map, what is free, what would fit, where a pod is");
  command->add_option("--port", options->port, "port of 127.0.0.1; 0: any free one");
  add_agents_options(*command, options->asked, "");
  command->add_option("--interval", *seconds, "seconds between two readings of the cluster")
      ->check(CLI::Range(1.0, 3600.0));
  command->add_flag("--json", options->json, "print one reading as JSON, and exit");
  command->footer("Example:\n  tranche web --port 0 --context production");
  command->callback([options, seconds, &process] {
    options->interval = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(*seconds));
    options->environment = process.environment;
    process.exit_code = observe::run_web(*options);
  });
}

}  // namespace tranche::cli
