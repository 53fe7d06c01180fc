#!/usr/bin/env bash
# Builds libpelton_cuda.so. Needs nvcc (CUDA 13.0) and a C++ compiler, no Rust and no GPU.
#
#   cuda/build.sh [--arch sm_80,sm_90,sm_100] [--out FOLDER] [--install-toolkit] [--force] [--verbose]
#
#   --arch             architectures to compile for; the default is all three
#   --out              where the library goes; the default is build/cuda beside this script's folder
#   --install-toolkit  without nvcc, install it from PyPI into build/cuda-venv and use that
#   --force            build even if nothing has changed
#   --verbose          show registers, shared memory and spills of each kernel
#
# CUB is taken from $CCCL_INCLUDE if set, else from the toolkit; it has to be of CUDA 13.0 (requirements.txt says which).
# nvcc is taken from $CUDA_HOME, from PATH or from /usr/local/cuda, in this order; the host compiler is $CXX if set.
#
# The library holds machine code for each architecture, and the intermediate code (PTX) of the newest of them, from
# which the driver compiles for GPUs that came later. Machine code of 8.0 runs on 8.6 and 8.9, that of 10.0 on 10.3;
# so only 11.x, 12.x and later need the intermediate code, and all of those take that of 10.0.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
arch_list=sm_80,sm_90,sm_100
out=$(dirname "$here")/build/cuda
venv=$(dirname "$here")/build/cuda-venv
install_toolkit=no
force=no
verbose=no

fail() { echo "build.sh: $*" >&2; exit 1; }

while [ $# -gt 0 ]; do
  case $1 in
    --arch | --out) [ $# -ge 2 ] || fail "$1 needs a value" ;;&
    --arch) arch_list=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    --install-toolkit) install_toolkit=yes; shift ;;
    --force) force=yes; shift ;;
    --verbose) verbose=yes; shift ;;
    *) fail "unknown argument '$1'; the first lines of this script say which there are" ;;
  esac
done

# Prints the compiler's path.
find_nvcc() {
  local candidate
  for candidate in ${CUDA_HOME:+"$CUDA_HOME/bin/nvcc"} "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc; do
    if [ -n "$candidate" ] && [ -x "$candidate" ]; then echo "$candidate"; return; fi
  done
  if [ "$install_toolkit" = yes ]; then
    local home
    home=$("$here/toolkit.sh" "$venv")
    echo "$home/bin/nvcc"
    return
  fi
  fail "no nvcc in \$CUDA_HOME, PATH or /usr/local/cuda; install the CUDA toolkit, or add --install-toolkit"
}

# Prints -gencode options for architectures in ascending order, the last one with its PTX.
code_options() {
  local numbers number last=
  numbers=$(tr ',' '\n' <<<"$arch_list" | sed -n 's/^sm_\([0-9][0-9]*\)$/\1/p' | sort -n -u)
  [ "$(wc -w <<<"$numbers")" = "$(tr ',' ' ' <<<"$arch_list" | wc -w)" ] \
    || fail "--arch $arch_list: give each once, as sm_90, separated by commas"
  for number in $numbers; do
    echo "-gencode=arch=compute_$number,code=sm_$number"
    last=$number
  done
  echo "-gencode=arch=compute_$last,code=compute_$last"
}

nvcc=$(find_nvcc)
version=$("$nvcc" --version | sed -n 's/.*release .*, V\(.*\)/\1/p')
[ -n "$version" ] || fail "$nvcc does not say its version; is it a CUDA compiler?"
mapfile -t codes < <(code_options)
[ ${#codes[@]} -gt 1 ] || exit 1

options=(-std=c++17 -O3 -lineinfo --threads 0 -I "$here" -I "$here/include"
  -Xcompiler=-fPIC,-fvisibility=hidden,-Wall
  -Xptxas=-warn-spills -Xptxas=-warn-lmem-usage
  "-DPELTON_BUILD_TEXT=\"nvcc $version, $arch_list\"")
# Kernels of CUB's sort take a fifth of the room if compressed for size, which older compilers do not know.
! "$nvcc" --help | grep -q -e --compress-mode || options+=(--compress-mode=size)
[ -z "${CCCL_INCLUDE:-}" ] || options+=(-I "$CCCL_INCLUDE")
[ -z "${CXX:-}" ] || options+=("-ccbin=$CXX")
[ "$verbose" = no ] || options+=(-Xptxas=-v)

mapfile -t sources < <(cd "$here" && find . -name '*.cu' -not -path './tests/*' | sort)
mkdir -p "$out"
library=$out/libpelton_cuda.so
stamp=$out/built-from.txt
wanted=$(
  echo "$nvcc $version ${CXX:-}"
  printf '%s\n' "${codes[@]}" "${options[@]}"
  cd "$here" && find . \( -name '*.cu' -o -name '*.cuh' -o -name '*.h' -o -name build.sh \) -print0 | sort -z \
    | xargs -0 sha256sum
)
if [ "$force" = no ] && [ "$verbose" = no ] && [ -e "$library" ] && [ "$wanted" = "$(cat "$stamp" 2>/dev/null)" ]; then
  echo "$library is up to date ($arch_list)"
  exit 0
fi

started=$(date +%s.%N)
objects=$(mktemp -d)
trap 'rm -rf "$objects"' EXIT
jobs=()
for source in "${sources[@]}"; do
  object=$objects/$(basename "$source" .cu).o
  "$nvcc" "${options[@]}" "${codes[@]}" -c "$here/$source" -o "$object" &
  jobs+=($!)
done
for job in "${jobs[@]}"; do wait "$job"; done

# The runtime is linked in, and its symbols stay inside: only the driver is found at run time.
"$nvcc" -shared -cudart static "${codes[@]}" ${CXX:+"-ccbin=$CXX"} \
  -Xlinker=--exclude-libs=ALL,--as-needed,-soname=libpelton_cuda.so -Xcompiler=-static-libgcc,-static-libstdc++ \
  "$objects"/*.o -o "$library.new"
mv "$library.new" "$library"
echo "$wanted" >"$stamp"
awk -v library="$library" -v list="$arch_list" -v from="$started" -v to="$(date +%s.%N)" \
  'BEGIN { printf "built %s for %s in %.1f s\n", library, list, to - from }'
