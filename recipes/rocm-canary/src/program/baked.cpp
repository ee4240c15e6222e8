#include "baked.h"

#include "failure.h"
#include "text.h"

#include <elf.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <string_view>

namespace canary {
namespace {

constexpr std::string_view bundle_magic = "__CLANG_OFFLOAD_BUNDLE__";
constexpr std::string_view compressed_magic = "CCOB";
constexpr std::uint64_t most_entries = 1024;
constexpr std::size_t wrapper_bytes = 24; // one in .hipFatBinSegment for each bundle

[[noreturn]] void broken(const std::string &path, const std::string &what) {
  throw Failure{ROCM_CANARY_BROKEN_INSTALL, path + ": " + what, "install the package again"};
}

// Part of a file; every read is checked against its end.
class Bytes {
  std::string_view bytes;
  const std::string *path; // for messages

public:
  Bytes(std::string_view content, const std::string &file) : bytes(content), path(&file) {}

  std::size_t size() const { return bytes.size(); }
  std::string_view view() const { return bytes; }

  Bytes part(std::uint64_t offset, std::uint64_t length) const {
    if (offset > bytes.size() || length > bytes.size() - offset)
      broken(*path, "the file is cut short or damaged (it names bytes " + std::to_string(offset) + " to " +
                       std::to_string(offset + length) + " of a part that has " +
                       std::to_string(bytes.size()) + ")");
    return Bytes(bytes.substr(offset, length), *path);
  }

  Bytes from(std::uint64_t offset) const { return part(offset, offset < size() ? size() - offset : 0); }

  template <class Value> Value at(std::uint64_t offset) const {
    Value value;
    std::memcpy(&value, part(offset, sizeof value).bytes.data(), sizeof value);
    return value;
  }

  bool starts_with(std::string_view start) const { return bytes.substr(0, start.size()) == start; }
};

std::string read_file(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    broken(path, std::string("cannot be read: ") + std::strerror(errno));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

struct Sections {
  Bytes fatbin;
  Bytes wrappers;
};

Sections find_sections(const Bytes &file, const std::string &path) {
  if (!file.starts_with(ELFMAG))
    broken(path, "is no ELF file");
  const auto header = file.at<Elf64_Ehdr>(0);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64)
    broken(path, "is no x86-64 library");
  if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum == 0)
    broken(path, "has no section headers");

  const Bytes table = file.part(header.e_shoff, std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr));
  const auto section = [&](std::uint64_t index) { return table.at<Elf64_Shdr>(index * sizeof(Elf64_Shdr)); };
  const auto content = [&](const Elf64_Shdr &s) { return file.part(s.sh_offset, s.sh_size); };
  const Bytes names = content(section(header.e_shstrndx));

  Sections found{file.part(0, 0), file.part(0, 0)};
  for (std::uint64_t index = 0; index < header.e_shnum; ++index) {
    const Elf64_Shdr candidate = section(index);
    if (candidate.sh_type == SHT_NOBITS)
      continue;
    const std::string_view rest = names.from(candidate.sh_name).view();
    const std::string_view name = rest.substr(0, rest.find('\0'));
    if (name == ".hip_fatbin")
      found.fatbin = content(candidate);
    else if (name == ".hipFatBinSegment")
      found.wrappers = content(candidate);
  }
  if (found.fatbin.size() == 0)
    broken(path, "holds no GPU code (no section .hip_fatbin)");
  return found;
}

struct Bundle {
  std::set<std::string> targets;
  std::uint64_t end = 0;
  std::string compression;
};

// clang's "Clang Offload Bundler" page: magic, u64 count, then (u64 offset, u64 size, u64 length, id) each.
// An id is <kind>-<target triple>-<arch and features>, e.g. hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-.
Bundle read_plain_bundle(const Bytes &bytes, const std::string &path) {
  Bundle bundle;
  const auto entries = bytes.at<std::uint64_t>(bundle_magic.size());
  if (entries > most_entries)
    broken(path, "an offload bundle claims " + std::to_string(entries) + " entries");
  std::uint64_t position = bundle_magic.size() + sizeof(std::uint64_t);
  bundle.end = position;
  for (std::uint64_t i = 0; i < entries; ++i) {
    const auto offset = bytes.at<std::uint64_t>(position);
    const auto size = bytes.at<std::uint64_t>(position + 8);
    const auto id_length = bytes.at<std::uint64_t>(position + 16);
    const std::string id(bytes.part(position + 24, id_length).view());
    position += 24 + id_length;
    bytes.part(offset, size);
    bundle.end = std::max({bundle.end, position, offset + size});

    if (starts_with(id, "host-"))
      continue;
    const std::size_t separator = id.find("--");
    if (!starts_with(id, "hip") || separator == std::string::npos)
      broken(path, "an offload bundle has the unknown entry '" + printable(id) + "'");
    bundle.targets.insert(printable(id.substr(separator + 2)));
  }
  return bundle;
}

// clang's compressed bundle: "CCOB", u16 version, u16 method, then the total size (u32 in version 2, u64 in 3).
Bundle read_compressed_bundle(const Bytes &bytes) {
  const auto version = bytes.at<std::uint16_t>(4);
  const auto method = bytes.at<std::uint16_t>(6);
  Bundle bundle;
  bundle.compression = "CCOB version " + std::to_string(version) +
                       (method == 0 ? ", zlib" : method == 1 ? ", zstd" : ", method " + std::to_string(method));
  if (version == 2)
    bundle.end = bytes.at<std::uint32_t>(8);
  else if (version == 3)
    bundle.end = bytes.at<std::uint64_t>(8);
  // Only the decompressor knows where another version ends; a size of no header cannot be true.
  if (bundle.end <= compressed_magic.size() || bundle.end > bytes.size())
    bundle.end = bytes.size();
  return bundle;
}

} // namespace

BakedCode read_baked_code(const std::string &path) {
  const std::string content = read_file(path);
  const Sections sections = find_sections(Bytes(content, path), path);

  BakedCode code;
  std::set<std::string> targets;
  std::uint64_t position = 0;
  while (true) {
    const std::size_t next = sections.fatbin.view().find_first_not_of('\0', position);
    if (next == std::string_view::npos)
      break;
    const Bytes rest = sections.fatbin.from(next);
    Bundle bundle;
    if (rest.starts_with(bundle_magic))
      bundle = read_plain_bundle(rest, path);
    else if (rest.starts_with(compressed_magic))
      bundle = read_compressed_bundle(rest);
    else
      broken(path, "the section .hip_fatbin holds something unknown at byte " + std::to_string(next));

    ++code.bundles;
    if (!bundle.compression.empty())
      code.compression = bundle.compression;
    else if (targets.empty())
      targets = bundle.targets;
    else if (targets != bundle.targets)
      broken(path, "its translation units were built for different GPUs (" + join(targets, " ") + " and " +
                       join(bundle.targets, " ") + ")");
    position = next + bundle.end;
  }

  // Bundles of an unknown compressed length run into one another, so that they cannot be counted.
  const std::size_t wrappers = sections.wrappers.size() / wrapper_bytes;
  if (!code.compressed() && wrappers != static_cast<std::size_t>(code.bundles))
    broken(path, "holds " + std::to_string(code.bundles) + " offload bundles, and " +
                     std::to_string(wrappers) + " references to one");
  if (!code.compressed())
    code.targets.assign(targets.begin(), targets.end());
  return code;
}

bool target_fits(const std::string &baked, const std::string &device) {
  const std::vector<std::string> wanted = split(baked, ':');
  const std::vector<std::string> stated = split(device, ':');
  if (wanted.front() != stated.front())
    return false;
  return std::all_of(wanted.begin() + 1, wanted.end(), [&](const std::string &feature) {
    const std::string name = feature.substr(0, feature.size() - 1);
    const auto same_name = [&](const std::string &other) { return other.substr(0, other.size() - 1) == name; };
    const auto found = std::find_if(stated.begin() + 1, stated.end(), same_name);
    return found == stated.end() || *found == feature;
  });
}

std::string fitting_target(const std::vector<std::string> &baked, const std::string &device) {
  const auto fits = [&](const std::string &target) { return target_fits(target, device); };
  const auto found = std::find_if(baked.begin(), baked.end(), fits);
  return found == baked.end() ? std::string() : *found;
}

} // namespace canary
