#!/bin/sh
# Build dist/palisade-env.tar.gz: a Python environment with Palisade in it, for executors without one.
# It must be built on the same kind of machine as the executors run on (same libc, same Python).
set -eu
cd "$(dirname "$0")/../.."

python3 -m venv --clear dist/env
dist/env/bin/pip install --quiet --require-hashes -r deploy/requirements/stream.txt
# Installed as files, not shipped as a zip: the detectors are read from beside the code.
dist/env/bin/pip install --quiet --no-deps .
dist/env/bin/pip install --quiet venv-pack
dist/env/bin/venv-pack --force --prefix dist/env --output dist/palisade-env.tar.gz
echo "dist/palisade-env.tar.gz"
