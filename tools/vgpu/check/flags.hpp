// Flags: locations that strong accesses use. A release leaves a message there, an acquire takes the
// messages of the releases that it observes, if both are morally strong: each in the other's scope
// (PTX ISA 8.7, 8.10.2).
#pragma once

#include "tools/vgpu/check/clock.hpp"
#include "tools/vgpu/check/observer.hpp"

#include <map>
#include <vector>

namespace vgpu::check {

struct Place {
  uint64_t cluster = 0;
  uint32_t cta = 0; // rank
};

inline bool reaches(Scope scope, const Place& from, const Place& to) {
  if (scope == Scope::Gpu || scope == Scope::Sys) return true;
  return from.cluster == to.cluster && (scope == Scope::Cluster || from.cta == to.cta);
}

// Strong accesses or fences of these scopes are morally strong.
inline bool mutual(Scope a, const Place& of_a, Scope b, const Place& of_b) {
  return reaches(a, of_a, of_b) && reaches(b, of_b, of_a);
}

struct Message {
  static constexpr uint32_t kSeveral = 0xFFFFFFFFu;
  Place from;
  uint32_t thread = 0;     // component in its cluster, or kSeveral
  Scope released, written; // of the release (an access or a fence), of the write that carries it
  ClockRef clock;          // in the components of its cluster
};

class Flag {
public:
  const std::vector<Message>& messages() const { return messages_; }

  // A write that does not read: who sees it has seen nothing of the writes before, except those of
  // the same thread (8.9.1: a release and a later strong write of one thread are one pattern).
  void overwrite(const Place& by, uint32_t thread) {
    std::erase_if(messages_, [&](const Message& m) {
      return m.from.cluster != by.cluster || m.from.cta != by.cta ||
             (m.thread != thread && m.thread != Message::kSeveral);
    });
  }

  void add(const Message& m) {
    for (Message& old : messages_) {
      if (old.from.cluster != m.from.cluster || old.from.cta != m.from.cta ||
          old.released != m.released || old.written != m.written)
        continue;
      if (old.clock != m.clock) join_released(own(old.clock), *m.clock);
      if (old.thread != m.thread) old.thread = Message::kSeveral;
      return;
    }
    messages_.push_back(m);
  }

private:
  std::vector<Message> messages_;
};

using FlagTable = std::map<uint64_t, Flag>; // by address

} // namespace vgpu::check
