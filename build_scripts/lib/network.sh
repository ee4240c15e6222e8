#!/usr/bin/env bash
# No downloads while a build script runs: every source is in the recipe, with its sha256.

# guard_network: makes pip, uv, cargo, go, git, curl, CMake's FetchContent and whatever obeys a proxy variable
# fail at once. Port 9 is discard, which nothing listens to.
guard_network() {
  local nowhere=http://127.0.0.1:9 name
  for name in http_proxy https_proxy ftp_proxy all_proxy HTTP_PROXY HTTPS_PROXY FTP_PROXY ALL_PROXY; do
    export "$name=$nowhere"
  done
  unset no_proxy NO_PROXY
  unset PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_FIND_LINKS PIP_PROXY UV_INDEX_URL UV_DEFAULT_INDEX UV_INDEX UV_FIND_LINKS
  export PIP_CONFIG_FILE=/dev/null PIP_NO_INDEX=1 PIP_NO_DEPS=1 PIP_NO_BUILD_ISOLATION=0 PIP_NO_CACHE_DIR=1
  export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_RETRIES=0
  export UV_OFFLINE=1 UV_NO_CACHE=1
  export CARGO_NET_OFFLINE=true CARGO_NET_RETRY=0 GOPROXY=off
  export GIT_ALLOW_PROTOCOL=file GIT_TERMINAL_PROMPT=0
  export HF_HUB_OFFLINE=1
  append_cmake_args -DFETCHCONTENT_FULLY_DISCONNECTED=ON
}
