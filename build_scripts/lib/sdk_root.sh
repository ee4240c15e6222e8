#!/usr/bin/env bash
# Of rocm_sdk.sh: from unpacked Debian packages to a root with ROCm's layout.

readonly STUBBED_LIBRARIES=(libamdhip64 libamd_comgr libhsa-runtime64)
readonly LINKED_TOOLS=(
  clang
  clang++
  clang-offload-bundler
  ld.lld
  lld
  llvm-ar
  llvm-nm
  llvm-objcopy
  llvm-objdump
  llvm-ranlib
  llvm-readelf
)

unpack_packages() {
  local deb tool path root=$work/root usr=$work/debian/usr
  for deb in "$work"/debs/*.deb; do
    dpkg-deb -x "$deb" "$work/debian"
  done
  mkdir -p "$root"/{amdgcn,bin,lib/llvm/bin}
  ln -s lib/llvm "$root/llvm"
  mv "$usr/include" "$usr/share" "$root/"
  mv "$usr"/lib/x86_64-linux-gnu/* "$root/lib/"
  mv "$usr"/lib/llvm-*/lib/clang/*/amdgcn/bitcode "$root/amdgcn/"
  for tool in "${LINKED_TOOLS[@]}"; do
    if path=$(command -v "$tool-$LLVM"); then
      ln -s "$path" "$root/lib/llvm/bin/$tool"
    fi
  done
}

# Debian's exports name /usr, or count their steps from its multiarch folder. Here every export lies three
# folders below the root, and finds the root from its own place.
relocate_exports() {
  local exports=$work/root/lib/cmake absolute
  # CMake, not bash, expands these words.
  # shellcheck disable=SC2016
  local up='"${CMAKE_CURRENT_LIST_DIR}/../../.."'
  # shellcheck disable=SC2016
  local edits=(
    -e '/get_filename_component(_realCurr /,/unset(_realCurr)/d'
    -e '/^# .*\/usr/d'
    -e 's|lib/x86_64-linux-gnu|lib|g'
    -e 's|set(\([A-Z_]*\) "/usr\(/lib/llvm-[^"]*\)\{0,1\}")|get_filename_component(\1 '"$up"' ABSOLUTE)|'
    -e 's|\(get_filename_component(HIP_CLANG_ROOT .*/\.\.\)"|\1/lib/llvm"|'
    -e 's|\(get_filename_component([A-Z_]*PREFIX[A-Z_]* "${[A-Z_]*}/\.\./\.\./\.\./\)\.\./|\1|'
  )
  find "$exports" -name '*.cmake' -exec sed -i "${edits[@]}" {} +
  # Exports that climb with one line a step have one line too many.
  # shellcheck disable=SC2016
  find "$exports" -name '*.cmake' -exec sed -i \
    '/get_filename_component(\([A-Z_]*PREFIX\) "${\1}" PATH)/{x;s/^/./;/^.$/{x;d};x}' {} \;
  if absolute=$(grep -r -n -m 1 -e '"/usr' -e x86_64-linux-gnu "$exports"); then
    die 14 "an export of Debian's HIP names an absolute path that this script does not know" \
      "report it" "${absolute#"$exports/"}"
  fi
}

finish_root() {
  local version
  link_stubs
  version=$(version_of libamdhip64-dev)
  write_marker "hip=${version%%-*}"
}

# The real libraries need a newer glibc than the oldest host has, and programs would not link against them
# there. A stub's functions do nothing and answer 100, hipErrorNoDevice, or a text where they return one.
link_stubs() {
  local library real soname texts
  mkdir "$work/stubs"
  texts=$(grep -r -h -o -E 'const char ?\* ?[A-Za-z_]+\(' "$work/root/include" | sed 's/.*[* ]//; s/(//' | sort -u)
  for library in "${STUBBED_LIBRARIES[@]}"; do
    real=$(realpath -- "$work/root/lib/$library.so")
    soname=$("llvm-readelf-$LLVM" -d "$real" | sed -n 's/.*soname: \[\(.*\)\]/\1/p')
    "llvm-readelf-$LLVM" --dyn-syms -W "$real" |
      awk -v code="$work/stubs/$library.s" -v versions="$work/stubs/$library.map" -v texts="$texts" "$STUB_OF_SYMBOLS"
    "clang-$LLVM" -shared -nostdlib -fuse-ld=lld -Wl,-soname,"$soname" \
      -Wl,--version-script,"$work/stubs/$library.map" "$work/stubs/$library.s" -o "$work/stubs/$library.so"
    mv -f -- "$work/stubs/$library.so" "$real"
  done
}

# awk program: llvm-readelf's symbol table -> assembler source and linker version script.
# shellcheck disable=SC2016
readonly STUB_OF_SYMBOLS='
BEGIN {
  split(texts, names, "\n")
  for (i in names) returns_text[names[i]] = 1
  print ".section .rodata\ntext: .string \"no GPU: this library is a stub for linking\"" >code
}
$7 == "UND" || $8 !~ /@@/ || ($5 != "GLOBAL" && $5 != "WEAK") { next }
{
  split($8, part, "@@")
  name = part[1]
  version = part[2]
  if (name == version) next
  exported[version] = exported[version] " " name ";"
  print ($5 == "WEAK" ? ".weak " : ".globl ") name >code
  if ($4 == "OBJECT") {
    printf ".data\n.type %s,@object\n.size %s,%d\n%s: .zero %d\n", name, name, $3, name, $3 + 8 >code
  } else {
    answer = name in returns_text ? "leaq text(%rip),%rax" : "movl $100,%eax"
    printf ".text\n.type %s,@function\n%s: %s\nret\n.size %s,.-%s\n", name, name, answer, name, name >code
  }
}
END {
  print ".section .note.GNU-stack,\"\",@progbits" >code
  for (version in exported) print version " { global:" exported[version] " };" >versions
}'
