# shellcheck shell=bash disable=SC2034
# Sourced by the scripts beside it: installing what is missing, configuring, building. Bash; runs on a new Debian 12 or
# Ubuntu 22.04/24.04, as root or with sudo. It never touches anything outside build/ but by apt-get, and says so first.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
JOBS=${RANKSCOPE_BUILD_JOBS:-$(nproc)}

# Names are the same on the three distributions.
PACKAGES_BUILD=(cmake ninja-build g++ libabsl-dev libflatbuffers-dev flatbuffers-compiler nlohmann-json3-dev
  libcli11-dev libsimdjson-dev zlib1g-dev libgtest-dev libgmock-dev libbenchmark-dev)
PACKAGES_TEST=(python3)
PACKAGES_CHECK=(clang clang-format clang-tidy)

say() { printf '\n== %s\n' "$*" >&2; }
fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    fail "installing packages needs root or sudo; as root: $*"
  fi
}

is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# Installs those of the packages that are not there. Does nothing, and needs no network, if all are.
need_packages() {
  command -v dpkg-query >/dev/null || {
    printf 'note: this is not Debian or Ubuntu; these have to be here already: %s\n' "$*" >&2
    return 0
  }
  local missing=() package
  for package in "$@"; do is_installed "$package" || missing+=("$package"); done
  [ ${#missing[@]} = 0 ] && return 0
  say "installing: ${missing[*]}"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q update >&2 ||
    printf 'note: apt-get update failed; trying with the lists that are here\n' >&2
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "${missing[@]}" >&2 ||
    fail "could not install ${missing[*]}"
}

# The sanitizers' and libFuzzer's libraries are a package of their own, named after clang's version, in some releases.
need_clang_runtime() {
  local version
  version=$(clang --version | sed -n 's/.*version \([0-9]*\)\..*/\1/p;q')
  if command -v apt-cache >/dev/null && apt-cache show "libclang-rt-$version-dev" >/dev/null 2>&1; then
    need_packages "libclang-rt-$version-dev"
  fi
}

# Thread and address sanitizers of older compilers can't live with the many random bits of newer kernels; where the
# machine allows it, their programs run without address randomisation.
if setarch "$(uname -m)" -R true 2>/dev/null; then
  FIXED_ADDRESSES=(setarch "$(uname -m)" -R)
else
  FIXED_ADDRESSES=()
fi

# build_preset PRESET [TARGET...]: into build/PRESET, with ccache if it is there.
build_preset() {
  local preset=$1 launcher=()
  shift
  command -v ccache >/dev/null &&
    launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  (cd "$ROOT" && cmake --preset "$preset" "${launcher[@]}" -Wno-dev >"/tmp/rankscope-cmake.$$" 2>&1) || {
    cat "/tmp/rankscope-cmake.$$" >&2
    rm -f "/tmp/rankscope-cmake.$$"
    return 1
  }
  rm -f "/tmp/rankscope-cmake.$$"
  # The discovery of test cases runs the test programs while building: hence the fixed addresses here.
  "${FIXED_ADDRESSES[@]}" cmake --build "$ROOT/build/$preset" -j "$JOBS" ${1:+--target "$@"} >&2
}
