// Dictionaries: insertion order with a hash index.
#include <algorithm>

#include "text/jinja/text.h"

namespace fathom::jinja {

Dict::Entry* Dict::locate(Runtime& rt, const Value& key, std::uint64_t hash) const {
  if (index == nullptr) {
    for (std::size_t i = 0; i < size; ++i)
      if (entries[i].hash == hash && equals(rt, entries[i].key, key)) return &entries[i];
    return nullptr;
  }
  for (std::size_t at = hash & (index_size - 1); index[at] != 0; at = (at + 1) & (index_size - 1)) {
    rt.step();
    Entry& entry = entries[index[at] - 1];
    if (entry.hash == hash && equals(rt, entry.key, key)) return &entry;
  }
  return nullptr;
}

Value* Dict::find(Runtime& rt, const Value& key) const {
  Entry* entry = locate(rt, key, hash_of(rt, key));
  return entry == nullptr ? nullptr : &entry->value;
}

Value* Dict::find(Runtime& rt, std::string_view key) const {
  const Str text{.data = key.data(), .size = key.size()};
  return find(rt, Value::string(&text));
}

void Dict::grow(Runtime& rt) {
  const std::size_t wider = std::max<std::size_t>(4, capacity * 2);
  Entry* copy = rt.array<Entry>(wider);
  std::copy(entries, entries + size, copy);
  entries = copy, capacity = wider;
  if (wider <= 8) return;
  index_size = wider * 2;
  index = rt.array<std::uint32_t>(index_size);
  for (std::size_t i = 0; i < size; ++i) {
    std::size_t at = entries[i].hash & (index_size - 1);
    while (index[at] != 0) rt.step(), at = (at + 1) & (index_size - 1);
    index[at] = static_cast<std::uint32_t>(i + 1);
  }
}

void Dict::set(Runtime& rt, const Value& key, const Value& value) {
  const std::uint64_t hash = hash_of(rt, key);
  rt.step();
  if (Entry* entry = locate(rt, key, hash)) {
    entry->value = value;
    return;
  }
  if (size == capacity) grow(rt);
  entries[size++] = Entry{key, value, hash};
  if (index == nullptr) return;
  std::size_t at = hash & (index_size - 1);
  while (index[at] != 0) rt.step(), at = (at + 1) & (index_size - 1);
  index[at] = static_cast<std::uint32_t>(size);
}

}  // namespace fathom::jinja
