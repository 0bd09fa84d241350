#pragma once
// Look-ups in maps that yield a pointer. Pure.
namespace tranche {

// The value of this key; null: the map has none.
auto* find_in(auto& map, const auto& key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}

}  // namespace tranche
