#include "mps/control/v3.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "base/text.h"

namespace tranche::mps::v3 {
namespace {

constexpr std::size_t kLongestName = 64;
constexpr int kPidMax = 4194304;

// Fields may be quoted; a quoted field may hold commas, and a quote in it is doubled.
std::optional<std::vector<std::string>> fields_of(std::string_view line) {
  std::vector<std::string> fields{""};
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += '"';
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  if (quoted) return std::nullopt;
  for (auto& field : fields) field = std::string(trimmed(field));
  return fields;
}

std::string column_name(std::string_view text) {
  std::string name(text);
  for (char& c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == ' ' || c == '_') c = '-';  // the manual writes all three
  }
  return name;
}

class Row {
 public:
  Row(const std::map<std::string, std::size_t>& columns, std::vector<std::string> fields)
      : columns_(columns), fields_(std::move(fields)) {}
  const std::string& at(const char* column) const { return fields_[columns_.find(column)->second]; }
  std::optional<int> pid() const {
    const auto number = parse_unsigned(at("pid"));
    if (!number || *number > kPidMax) return std::nullopt;
    return static_cast<int>(*number);
  }

 private:
  const std::map<std::string, std::size_t>& columns_;
  std::vector<std::string> fields_;
};

std::unexpected<Error> unreadable(const char* command, std::string_view text, std::string_view expected) {
  return fail(Kind::kInvalid, "the reply " + in_quotes(text) + " is not " + std::string(expected), command);
}

template <class Value, class Read>
Result<std::vector<Value>> parse_table(const char* command, std::string_view csv,
                                       std::initializer_list<const char*> needed, Read read) {
  std::vector<Value> values;
  std::map<std::string, std::size_t> columns;
  std::size_t width = 0;
  for (const auto line : lines_of(csv)) {
    if (trimmed(line).empty()) continue;
    auto fields = fields_of(line);
    if (!fields) return unreadable(command, line, "a line of CSV");
    if (columns.empty()) {
      width = fields->size();
      for (std::size_t i = 0; i < width; ++i) columns.emplace(column_name((*fields)[i]), i);
      for (const char* column : needed)
        if (!columns.contains(column)) return unreadable(command, line, std::string("a heading with ") + column);
      continue;
    }
    if (fields->size() != width) return unreadable(command, line, "a row of as many fields as the heading");
    std::optional<Value> value = read(Row(columns, *std::move(fields)));
    if (!value) return unreadable(command, line, "a row that can be read");
    values.push_back(*std::move(value));
  }
  return values;
}

bool says_nothing(std::string_view text) {
  return text.empty() || text == "-" || text == "N/A" || text == "none" || text == "unlimited";
}

// "4G", "512M", "1024K", or bytes.
std::optional<Bytes> size_of(std::string_view text) {
  int shift = 0;
  if (text.ends_with('K')) shift = 10;
  if (text.ends_with('M')) shift = 20;
  if (text.ends_with('G')) shift = 30;
  if (shift != 0) text.remove_suffix(1);
  const auto number = parse_unsigned(text);
  if (!number || *number == 0 || *number > std::numeric_limits<std::uint64_t>::max() >> shift) return std::nullopt;
  return Bytes{*number << shift};
}

std::string option(const char* name, const std::string& value) {
  return std::string("--") + name + "=" + value;
}

Arguments with_limits(Arguments words, const Limits& limits) {
  if (limits.memory) words.push_back(option("pinned-memory-limit", std::to_string(limits.memory->in_mib()) + "M"));
  if (limits.threads)
    words.push_back(
        option("active-thread-percentage", std::to_string(whole_percent(*limits.threads).hundredths / 100)));
  return words;
}

}  // namespace

Percent whole_percent(Percent threads) {
  return Percent::whole(std::max<std::uint32_t>(1, threads.hundredths / 100));
}

Result<std::string> encoded_name(std::string_view name) {
  std::string encoded(name);
  for (char& c : encoded) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (c != '-' && !plain) return fail(Kind::kInvalid, "the name " + in_quotes(name) + " cannot be an MPS name");
    if (c == '-') c = '_';
  }
  if (encoded.empty() || encoded.size() > kLongestName || encoded == "default")
    return fail(Kind::kInvalid, "the name " + in_quotes(name) + " cannot be an MPS name");
  return encoded;
}

Arguments create_server(const std::string& name, const std::vector<std::string>& uuids) {
  Arguments words{"server", "create", name, option("uid", "0")};
  if (!uuids.empty()) words.push_back(option("allowed-devices", join(uuids, ",")));
  return words;
}
Arguments set_server(const std::string& name, const Limits& limits) {
  return with_limits({"server", "set", name}, limits);
}
Arguments list_servers() {
  return {"server", "list", "--format=csv"};
}
Arguments create_namespace(const std::string& server, const std::string& name) {
  return {"namespace", "create", name, option("server", server)};
}
Arguments set_namespace(const std::string& server, const std::string& name, const Limits& limits) {
  return with_limits({"namespace", "set", name, option("server", server)}, limits);
}
Arguments delete_namespace(const std::string& server, const std::string& name) {
  return {"namespace", "delete", name, option("server", server)};
}
Arguments list_namespaces(const std::string& server) {
  return {"namespace", "list", option("server", server), "--format=csv"};
}
Arguments list_clients() {
  return {"client", "list", "--all", "--format=csv"};
}
Arguments quit() {
  return {"--quit"};
}

Result<std::vector<Server>> parse_servers(std::string_view csv) {
  return parse_table<Server>("server list", csv, {"name", "pid", "status"},
                             [](const Row& row) -> std::optional<Server> {
                               const auto pid = row.pid();
                               if (!pid || row.at("name").empty()) return std::nullopt;
                               return Server{row.at("name"), *pid, row.at("status")};
                             });
}

Result<std::vector<Namespace>> parse_namespaces(std::string_view csv) {
  return parse_table<Namespace>("namespace list", csv,
                                {"name", "server", "pinned-memory-limit", "active-thread-percentage", "pipe-directory"},
                                [](const Row& row) -> std::optional<Namespace> {
                                  Namespace out{row.at("name"), row.at("server"), {}, {}, row.at("pipe-directory")};
                                  if (out.name.empty() || out.server.empty()) return std::nullopt;
                                  if (const auto& text = row.at("pinned-memory-limit"); !says_nothing(text)) {
                                    out.memory = size_of(text);
                                    if (!out.memory) return std::nullopt;
                                  }
                                  if (const auto& text = row.at("active-thread-percentage"); !says_nothing(text)) {
                                    const auto percent = parse_percent(text);
                                    if (!percent || *percent == Percent{} || *percent > Percent::whole(100))
                                      return std::nullopt;
                                    out.threads = *percent;
                                  }
                                  return out;
                                });
}

Result<std::vector<Client>> parse_clients(std::string_view csv) {
  return parse_table<Client>("client list", csv, {"pid", "server", "namespace"},
                             [](const Row& row) -> std::optional<Client> {
                               const auto pid = row.pid();
                               // 0: the daemon does not see the host's process ids
                               if (!pid || *pid == 0) return std::nullopt;
                               return Client{*pid, row.at("server"), row.at("namespace")};
                             });
}

std::string disagreement(const Limits& expected, const Namespace& read) {
  if (expected.memory && (!read.memory || read.memory->in_mib() != expected.memory->in_mib()))
    return fmt::format("the memory limit of namespace {} was set to {}M and reads back as {}", read.name,
                       expected.memory->in_mib(),
                       read.memory ? std::to_string(read.memory->in_mib()) + "M" : "nothing");
  if (!expected.threads) return {};
  const auto wanted = whole_percent(*expected.threads);
  if (read.threads == wanted) return {};
  return fmt::format("the thread percentage of namespace {} was set to {} and reads back as {}", read.name,
                     to_string(wanted), read.threads ? to_string(*read.threads) : "nothing");
}

}  // namespace tranche::mps::v3
