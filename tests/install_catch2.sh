#!/bin/sh
# Makes sure that Catch2 (v2 or v3) is there: the tests need it, nothing else does.
set -eu
for dir in /usr/include /usr/local/include /opt/homebrew/include; do
  if [ -e "$dir/catch2/catch.hpp" ] || [ -e "$dir/catch2/catch_all.hpp" ]; then exit 0; fi
done
if pkg-config --exists catch2 2>/dev/null || pkg-config --exists catch2-with-main 2>/dev/null; then
  exit 0
fi
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
if command -v apt-get >/dev/null; then
  command="$sudo apt-get install -y catch2"
  update="$sudo apt-get update"
elif command -v dnf >/dev/null; then
  command="$sudo dnf install -y catch2-devel"
  update=true
elif command -v pacman >/dev/null; then
  command="$sudo pacman -S --noconfirm catch2"
  update=true
else
  echo "The tests need Catch2 (2.13 or 3): install it with your system's package manager." >&2
  exit 1
fi
echo "Catch2 is missing; installing it: $command"
if ! { $update && $command; } >/tmp/warpline-catch2.log 2>&1; then
  tail -n 5 /tmp/warpline-catch2.log >&2
  echo "Could not install Catch2. Run this yourself, then make test again: $command" >&2
  exit 1
fi
