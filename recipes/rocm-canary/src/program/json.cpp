#include "json.h"

#include <cstdio>

namespace canary {
namespace {

std::string quoted(const std::string &value) {
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned int>(c));
      out += escape;
    } else {
      out += c;
    }
  }
  return out + '"';
}

template <class Value, class Write> std::string list(const std::vector<Value> &values, Write write) {
  std::string out = "[";
  for (const Value &value : values) {
    if (out.size() > 1)
      out += ", ";
    out += write(value);
  }
  return out + "]";
}

} // namespace

std::string &JsonObject::field(const std::string &name) {
  if (text.size() > 1)
    text += ", ";
  return text += quoted(name) + ": ";
}

JsonObject &JsonObject::add(const std::string &name, const std::string &value) {
  field(name) += quoted(value);
  return *this;
}

JsonObject &JsonObject::add(const std::string &name, bool value) {
  field(name) += value ? "true" : "false";
  return *this;
}

JsonObject &JsonObject::add(const std::string &name, int value) {
  field(name) += std::to_string(value);
  return *this;
}

JsonObject &JsonObject::add(const std::string &name, std::uint64_t value) {
  field(name) += std::to_string(value);
  return *this;
}

JsonObject &JsonObject::add(const std::string &name, double value) {
  char number[32];
  std::snprintf(number, sizeof number, "%.9g", value);
  field(name) += number;
  return *this;
}

JsonObject &JsonObject::add(const std::string &name, const std::vector<std::string> &values) {
  field(name) += list(values, quoted);
  return *this;
}

JsonObject &JsonObject::add(const std::string &name, const JsonObject &value) {
  field(name) += value.str();
  return *this;
}

JsonObject &JsonObject::add(const std::string &name, const std::vector<JsonObject> &values) {
  field(name) += list(values, [](const JsonObject &value) { return value.str(); });
  return *this;
}

} // namespace canary
