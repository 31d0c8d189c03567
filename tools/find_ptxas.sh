#!/usr/bin/env bash
# Prints the path of the ptxas of this machine, nothing when there is none. Looked for in
# $CUDA_HOME/bin, $CUDA_PATH/bin, PATH and /usr/local/cuda/bin.
for candidate in "${CUDA_HOME:+$CUDA_HOME/bin/ptxas}" "${CUDA_PATH:+$CUDA_PATH/bin/ptxas}" \
  "$(command -v ptxas)" /usr/local/cuda/bin/ptxas; do
  if [ -n "$candidate" ] && [ -x "$candidate" ]; then
    echo "$candidate"
    exit 0
  fi
done
