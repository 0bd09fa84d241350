// The part of ConfigSource that has several inputs: named configurations, the node's label, the recorded configuration.
#include "config/live/config_source.h"
#include "os/files/files.h"
#include "os/log/log.h"

namespace tranche::config {
namespace {

using namespace std::chrono_literals;

// A file may be written in several steps, and kubelet replaces symbolic links one after the other.
constexpr Duration kSettling = 50ms;

Result<ChosenConfig> read_chosen(const std::string& path) {
  TRY(const auto text, os::read_file(path, std::size_t{4} << 20));
  auto chosen = parse_chosen(text);
  if (!chosen) return std::unexpected(Error{Kind::kInvalid, chosen.error().what, path});
  return chosen;
}

}  // namespace

Status ConfigSource::begin(os::Loop& loop, kube::KubeLink* link) {
  loop_ = &loop;
  look_timer_ = std::make_unique<os::Timer>(loop);
  if (!waits()) {
    write_down();
    return {};
  }
  if (!places_.written.empty()) {
    const auto place = os::parts_of(places_.written);
    const auto dir = os::Dir::create(place.directory);  // the writing program may start later
    if (!dir) return std::unexpected(dir.error());
    TRY_STATUS(watch_dir(place.directory, place.name));
    read_written();
  } else {
    if (link == nullptr) return fail(Kind::kInvalid, "named configurations need the way to the API server");
    read_last();
    if (!places_.dir.empty()) TRY_STATUS(watch_dir(places_.dir, ""));
    cluster_ = std::make_unique<ClusterConfigs>(
        loop, *link, ClusterConfigsAsked{places_.node_name, places_.label, places_.config_map}, [this] { decide(); });
    patient_ = true;
    patience_timer_ = std::make_unique<os::Timer>(loop);
    patience_timer_->start(places_.patience, [this] {
      patient_ = false;
      if (!view_.in_force) decide();
    });
    decide();
  }
  if (view_.in_force) return {};
  beginning_ = true;
  loop.run();
  beginning_ = false;
  return {};
}

NamedConfigs ConfigSource::configs() const {
  return places_.dir.empty() ? cluster_->configs() : read_config_dir(places_.dir);
}

void ConfigSource::decide() {
  if (!cluster_) return;  // called from its constructor
  const auto found = configs();
  const auto label = cluster_->label();
  if (patient_ && (found.pending || cluster_->label_pending())) return;
  if (!label.why) last_label_ = label.value;
  auto decision =
      config::decide(found, label, {places_.default_name, places_.fallbacks}, last_label_, view_.in_force || last_);
  if (!decision.choice) return refuse(std::move(decision.problems));
  const std::string& name = decision.choice->name;
  std::string text, source;
  if (!name.empty()) {
    source = found.sources.at(name);
    const auto& content = found.texts.at(name);
    if (!content) {
      decision.problems.push_back(error_in(source, "cannot be read: " + to_string(content.error()),
                                           "make it readable and at most 1 MiB large, or choose another one"));
      return refuse(std::move(decision.problems));
    }
    text = *content;
  }
  load_newest(text, source, [this, text, decision](ConfigView next) {
    next.problems.insert(next.problems.begin(), decision.problems.begin(), decision.problems.end());
    if (!next.in_force) return refuse(std::move(next.problems));
    next.name = decision.choice->name;
    next.chosen_by = to_string(decision.choice->by);
    put(std::move(next), text);
  });
}

void ConfigSource::read_last() {
  if (places_.write_down.empty()) return;
  auto last = read_chosen(places_.write_down);
  if (!last) {
    if (last.error().kind != Kind::kNotFound) log::warning("config.last_unreadable", {{"why", last.error()}});
    return;
  }
  if (enum_of<ChosenBy>(last->chosen_by)) last_label_ = last->label;
  last_ = *std::move(last);
}

void ConfigSource::read_written() {
  const auto chosen = read_chosen(places_.written);
  if (!chosen)
    return refuse({error_in(places_.written, "cannot be used: " + to_string(chosen.error()),
                            "the node agent writes it: start `tranche node` with the same --run-dir")});
  load_newest(chosen->text, chosen->source, [this, chosen = *chosen](ConfigView next) {
    if (!next.in_force) return refuse(std::move(next.problems));
    next.name = chosen.name;
    next.chosen_by = chosen.chosen_by;
    last_label_ = chosen.label;
    put(std::move(next), chosen.text);
  });
}

void ConfigSource::write_down() {
  if (places_.write_down.empty() || loop_ == nullptr || !view_.in_force) return;
  ChosenConfig now{view_.name, view_.chosen_by, last_label_.value_or(""), view_.path, text_};
  if (written_ == now) return;
  const auto place = os::parts_of(places_.write_down);
  const auto dir = os::Dir::create(place.directory);
  const Status done = dir ? dir->write_atomically(place.name, render_chosen(now)) : std::unexpected(dir.error());
  if (!done) log::warning("config.not_written_down", {{"why", done.error()}});
  written_ = std::move(now);
}

Status ConfigSource::watch_dir(const std::string& dir, const std::string& only) {
  auto watch = os::DirWatch::open(*loop_, dir, [this, only](const std::string& name) {
    if (!name.empty() && !only.empty() && name != only) return;
    lost_ = lost_ || name.empty();
    look_soon();
  });
  if (!watch) return std::unexpected(within(watch.error(), "the configuration cannot be followed"));
  watch_ = *std::move(watch);
  return {};
}

void ConfigSource::look_soon() {
  if (!look_timer_->running()) look_timer_->start(kSettling, [this] { reload(); });
}

void ConfigSource::look_again() {
  lost_ = false;
  const auto written = os::parts_of(places_.written);
  const auto watched = places_.dir.empty() ? watch_dir(written.directory, written.name) : watch_dir(places_.dir, "");
  if (watched) return;
  lost_ = true;
  log::warning("config.unwatched", {{"why", watched.error()}, {"until", "SIGHUP"}});
}

}  // namespace tranche::config
