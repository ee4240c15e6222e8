#include "build_info.h"
#include "command.h"
#include "failure.h"

#include <charconv>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

namespace {

using canary::Failure;

constexpr const char *help_text = R"(rocm-canary: shows what it was built for, and checks a GPU

usage: rocm-canary info [--json | --targets]
       rocm-canary run [--device N] [--size small|large] [--json]
       rocm-canary --version | --help

info   what this build is: the GPU targets in its library (read from the file), compilers, flags,
       ROCm release. Needs neither GPU nor ROCm.
  --targets   the targets alone, one a line ("compressed" where the library does not tell)
  --json      one JSON object

run    computes on the GPU, compares each result with the CPU, prints GB/s and TFLOP/s.
  --device N  HIP's number of the GPU (default: the first GPU that this build holds code for)
  --size      small: 1 Mi floats, 256 x 256 matrices; large: 64 Mi floats, 2048 x 2048 (default: small)
  --json      one JSON object, also where the run fails

exit codes
  0  ok
  1  the output cannot be written, or a fault of this program
  2  wrong usage
  3  no AMD GPU on this host
  4  the GPU is not among the targets that this build holds code for
  5  the HIP runtime (libamdhip64) cannot be loaded
  6  a HIP call failed
  7  a result differs from the CPU
  8  the library of this package is missing or damaged

environment
  ROCM_CANARY_KFD_TOPOLOGY  folder to read instead of /sys/class/kfd/kfd/topology (for tests)
)";

[[noreturn]] void refuse_usage(const std::string &what) {
  throw Failure{ROCM_CANARY_USAGE, what, "see `rocm-canary --help`"};
}

struct Arguments {
  std::vector<std::string> words;
  std::size_t next = 0;

  bool done() const { return next == words.size(); }
  std::string take() { return words[next++]; }
  std::string value_of(const std::string &option) {
    if (done())
      refuse_usage(option + " needs a value");
    return take();
  }
};

int device_number(const std::string &text) {
  int number = 0;
  const char *end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end || number < 0)
    refuse_usage("--device wants a number from 0 on, not '" + text + "'");
  return number;
}

canary::Size size_named(const std::string &text) {
  if (text == "small")
    return canary::Size::small;
  if (text == "large")
    return canary::Size::large;
  refuse_usage("--size is small or large, not '" + text + "'");
}

canary::InfoForm info_form(Arguments &arguments) {
  canary::InfoForm form = canary::InfoForm::text;
  while (!arguments.done()) {
    const std::string option = arguments.take();
    if (form != canary::InfoForm::text)
      refuse_usage("info takes one option at most");
    if (option == "--json")
      form = canary::InfoForm::json;
    else if (option == "--targets")
      form = canary::InfoForm::targets;
    else
      refuse_usage("info: unknown argument '" + option + "'");
  }
  return form;
}

canary::RunOptions run_options(Arguments &arguments, bool &json) {
  canary::RunOptions options;
  while (!arguments.done()) {
    const std::string option = arguments.take();
    if (option == "--json")
      json = true;
    else if (option == "--device")
      options.device = device_number(arguments.value_of(option));
    else if (option == "--size")
      options.size = size_named(arguments.value_of(option));
    else
      refuse_usage("run: unknown argument '" + option + "'");
  }
  return options;
}

std::string own_folder() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error)
    throw Failure{ROCM_CANARY_BROKEN_INSTALL, "/proc/self/exe cannot be read: " + error.message(),
                  "run where /proc is mounted"};
  return program.parent_path().string();
}

canary::Answer answer(Arguments arguments) {
  if (arguments.done())
    refuse_usage("no command given");
  const std::string command = arguments.take();
  if (command == "--help" || command == "-h")
    return {ROCM_CANARY_OK, help_text, {}};
  if (command == "--version")
    return {ROCM_CANARY_OK, std::string("rocm-canary ") + CANARY_VERSION + "\n", {}};
  if (command == "info")
    return canary::info_answer(own_folder(), info_form(arguments));
  if (command == "run") {
    bool json = false;
    const canary::RunOptions options = run_options(arguments, json);
    return canary::run_answer(own_folder(), options, json);
  }
  refuse_usage("unknown command '" + command + "'");
}

int finish(const canary::Answer &answer) {
  std::cout << answer.output << std::flush;
  if (!answer.error.empty())
    std::cerr << "rocm-canary: " << answer.error << "\n";
  if (std::cout)
    return answer.status;
  std::cerr << "rocm-canary: the output cannot be written; check the disk or the pipe it goes to\n";
  return 1;
}

} // namespace

int main(int count, char **words) {
  try {
    return finish(answer({std::vector<std::string>(words + (count > 0), words + count)}));
  } catch (const Failure &failure) {
    return finish({failure.status, {}, failure.line()});
  } catch (const std::exception &error) {
    std::cerr << "rocm-canary: " << error.what() << "\n";
    return 1;
  }
}
