#!/bin/sh
# Builds the program. CXX is the compiler, ROI the marks of each step: GEM5, SNIPER, VALGRIND, PERF or TIME.
# LAYER=3 marks a layer instead, by its line in layers.txt, and LAYER=all every layer.
set -e
cd "$(dirname "$0")"
${CXX:-@compiler@} -std=c++17 -O1 @flags@ ${ROI:+-DROI_$ROI} ${LAYER:+-DROI_LAYER=$LAYER} -w \
    main.cc step.o constants.o runtime.o -static -Wl,--gc-sections -o @name@ @libraries@
