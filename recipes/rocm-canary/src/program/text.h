#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace canary {

inline bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

template <class Strings> std::string join(const Strings &parts, const std::string &separator) {
  std::string out;
  for (const std::string &part : parts)
    out += out.empty() ? part : separator + part;
  return out;
}

// Always at least one part: an empty text gives one empty part. No separator at the end of a part.
inline std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

// For text out of a file that may be damaged: one line, no control characters.
inline std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 200))
    out += c >= 0x20 && c < 0x7f ? c : '?';
  return out;
}

} // namespace canary
