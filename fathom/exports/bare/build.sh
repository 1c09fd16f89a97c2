#!/bin/sh
# Builds the program. CXX is the compiler, ROI the marks of each step: GEM5, SNIPER, VALGRIND, PERF or TIME.
set -e
cd "$(dirname "$0")"
${CXX:-@compiler@} -std=c++17 -O1 @flags@ ${ROI:+-DROI_$ROI} -w main.cc step.o constants.o runtime.o \
    -static -Wl,--gc-sections -o @name@ @libraries@
