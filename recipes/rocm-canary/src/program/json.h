#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace canary {

// Writes one JSON object, field by field.
class JsonObject {
  std::string text = "{";

  std::string &field(const std::string &name);

public:
  JsonObject &add(const std::string &name, const std::string &value);
  JsonObject &add(const std::string &name, const char *value) { return add(name, std::string(value)); }
  JsonObject &add(const std::string &name, bool value);
  JsonObject &add(const std::string &name, int value);
  JsonObject &add(const std::string &name, std::uint64_t value);
  JsonObject &add(const std::string &name, double value);
  JsonObject &add(const std::string &name, const std::vector<std::string> &values);
  JsonObject &add(const std::string &name, const JsonObject &value);
  JsonObject &add(const std::string &name, const std::vector<JsonObject> &values);

  std::string str() const { return text + "}"; }
};

} // namespace canary
