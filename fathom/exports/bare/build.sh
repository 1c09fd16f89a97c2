#!/bin/sh
# Builds the program. CXX is the compiler, ROI the marks of each step: GEM5, SNIPER, VALGRIND, PERF or TIME.
# LAYER=3 marks a layer instead, by its line in layers.txt, and LAYER=all every layer.
set -e
cd "$(dirname "$0")"
case "$ROI" in
    "" | GEM5 | SNIPER | VALGRIND | PERF | TIME) ;;
    *) echo "ROI is GEM5, SNIPER, VALGRIND, PERF or TIME, not $ROI" >&2; exit 2 ;;
esac
case "${ROI:+marks}$LAYER" in
    "" | marks | marksall | marks[1-9]*) ;;
    *) echo "LAYER is all or a line of layers.txt, and for the marks of ROI" >&2; exit 2 ;;
esac
${CXX:-@compiler@} -std=c++17 -O1 @flags@ ${ROI:+-DROI_$ROI} ${LAYER:+-DROI_LAYER=$LAYER} -w \
    main.cc step.o constants.o runtime.o -static -Wl,--gc-sections -o @name@ @libraries@
