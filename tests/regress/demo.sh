#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The README's first command on the simulated device, with the binaries of this build: every step shows what it should.
set -euo pipefail
DEMO_BUILD=$TEST_BUILD "$TEST_SOURCE/tools/demo" --sim | tee demo.out
for words in '13\.11 GB' '9\.41 GB' '751' '3\.71 GB' 'bad with hints finished' 'good           finished' 'device: simulated'; do
    grep -q "$words" demo.out || { echo "FAILED: the demo does not show: $words"; exit 1; }
done
