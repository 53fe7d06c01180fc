#!/usr/bin/env bash
# Compiles the headers as C, and runs the tests of what host and device share and of kernels on emulated threads. Needs a
# C++ compiler (C++20), no nvcc, no GPU.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for header in probe sort partition join library; do
  echo "#include \"pelton/abi/$header.h\"" >"$work/$header.c"
  "${CC:-cc}" -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I "$here/include" "$work/$header.c"
done
"${CXX:-c++}" -std=c++17 -O1 -Wall -Wextra -Wpedantic -Werror -I "$here/include" \
  "$here/tests/host/common_test.cpp" -o "$work/common_test"
"$work/common_test"
"${CXX:-c++}" -std=c++20 -O1 -Wall -Wextra -Werror -Wno-unknown-pragmas -pthread \
  -I "$here/tests/host/emulate" -I "$here" -I "$here/include" "$here/tests/host/sort_test.cpp" -o "$work/sort_test"
"$work/sort_test"
"${CXX:-c++}" -std=c++20 -O1 -Wall -Wextra -Werror -Wno-unknown-pragmas -pthread \
  -I "$here/tests/host/emulate" -I "$here" -I "$here/include" "$here/tests/host/join_test.cpp" -o "$work/join_test"
"$work/join_test"
