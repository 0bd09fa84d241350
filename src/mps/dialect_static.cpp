// The static tier: what v2 says, and the partitions.
#include <algorithm>

#include "base/text.h"
#include "mps/control_text.h"
#include "mps/dialect_v2.h"
#include "mps/partitions.h"

namespace tranche::mps {
namespace {

// What follows the last run of a v2 question when that went well.
Exchange afterwards(Exchange first, const std::function<Onward(const Event&)>& next) {
  return {std::move(first.run), [then = std::move(first.then), next](const std::string& reply) -> Onward {
            auto onward = then(reply);
            if (auto* more = std::get_if<Exchange>(&onward)) return afterwards(std::move(*more), next);
            const auto& event = std::get<Event>(onward);
            return std::holds_alternative<QuestionFailed>(event) ? onward : next(event);
          }};
}

Onward list_partitions(QuestionId id, const std::function<Onward(std::vector<PartitionRow>)>& next) {
  return Exchange{{.input = command::as_input({command::list_partitions()})},
                  [id, next](const std::string& reply) -> Onward {
                    auto rows = parse_partitions(reply);
                    if (!rows) return Event(QuestionFailed{id, rows.error()});
                    return next(*std::move(rows));
                  }};
}

Onward change_partitions(const ApplyLimits& action, const PartitionChanges& changes) {
  return Exchange{{.input = command::as_input(changes.commands)},
                  [id = action.id, made = changes.made](const std::string& reply) -> Onward {
                    std::size_t ids = 0;
                    std::string_view other;
                    for (const auto line : lines_of(reply)) {
                      const bool is_id = parse_added_partition(line).has_value();
                      ids += is_id ? 1 : 0;
                      if (!is_id && !trimmed(line).empty() && other.empty()) other = line;
                    }
                    if (ids >= made) return Event(LimitsApplied{id});
                    const auto words = other.empty() ? "nothing" : in_quotes(other);
                    return Event(QuestionFailed{id, Error{Kind::kInvalid,
                                                          "the control daemon made " + std::to_string(ids) + " of " +
                                                              std::to_string(made) + " SM partitions and says " + words,
                                                          "sm_partition add", 0}});
                  }};
}

}  // namespace

std::vector<std::string> StaticDialect::daemon_options(bool multiuser) const {
  auto options = V2Dialect::daemon_options(multiuser);
  options.emplace_back("-S");
  return options;
}

Exchange StaticDialect::apply(const ApplyLimits& action) const {
  return afterwards(V2Dialect::apply(action), [action](const Event& applied) -> Onward {
    if (action.limits.partitions.empty()) return applied;  // nothing to cut: what is there is left alone
    return list_partitions(action.id, [action](const std::vector<PartitionRow>& rows) -> Onward {
      const auto changes = partition_changes(action.limits.partitions, rows);
      if (changes.commands.empty()) return Event(LimitsApplied{action.id});
      // Nothing is removed that the daemon would not make again.
      if (std::ranges::any_of(rows, &PartitionRow::has_clients))
        return Event(QuestionFailed{
            action.id,
            Error{Kind::kUnavailable, "SM partitions are changed only while no client runs on the GPU, and one does",
                  "sm_partition", 0}});
      return change_partitions(action, changes);
    });
  });
}

Exchange StaticDialect::read(const ReadLimits& action) const {
  return afterwards(V2Dialect::read(action), [id = action.id](const Event& read) -> Onward {
    return list_partitions(id, [read](std::vector<PartitionRow> rows) -> Onward {
      auto values = std::get<LimitsRead>(read);
      values.values.partitions = std::move(rows);
      return Event(std::move(values));
    });
  });
}

}  // namespace tranche::mps
