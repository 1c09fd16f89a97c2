"""Runs a bare program of Fathom in gem5's syscall emulation. It was written from documentation
and not run: gem5 could not be installed where Fathom is developed.

    python -m fathom export memnet --train --to program --target x86_64 --out memnet-program
    ROI=GEM5 sh memnet-program/build.sh
    cd memnet-program && gem5.opt ../examples/gem5/step.py ./memnet 2

The steps are gem5's work items: statistics are reset where one begins and written where it ends.
Built with LAYER=all, work items are passages through layers, by their numbers in layers.txt.
"""

import sys
from pathlib import Path

import m5
from gem5.components.boards.simple_board import SimpleBoard
from gem5.components.cachehierarchies.classic.private_l1_private_l2_cache_hierarchy import (
    PrivateL1PrivateL2CacheHierarchy,
)
from gem5.components.memory import SingleChannelDDR4_2400
from gem5.components.processors.cpu_types import CPUTypes
from gem5.components.processors.simple_processor import SimpleProcessor
from gem5.isas import ISA
from gem5.resources.resource import BinaryResource
from gem5.simulate.exit_event import ExitEvent
from gem5.simulate.simulator import Simulator

program, steps = Path(sys.argv[1]).resolve(), sys.argv[2]
board = SimpleBoard(
    clk_freq="3GHz",
    processor=SimpleProcessor(cpu_type=CPUTypes.O3, isa=ISA.X86, num_cores=1),  # or ARM, RISCV
    memory=SingleChannelDDR4_2400(size="3GiB"),
    cache_hierarchy=PrivateL1PrivateL2CacheHierarchy(
        l1d_size="32KiB", l1i_size="32KiB", l2_size="1MiB"
    ),
)
board.set_se_binary_workload(BinaryResource(str(program)), arguments=["--steps", steps])
board.exit_on_work_items = True


def begin():
    while True:
        m5.stats.reset()
        yield False  # go on


def end():
    while True:
        m5.stats.dump()
        yield False


simulator = Simulator(
    board=board,
    on_exit_event={ExitEvent.WORKBEGIN: begin(), ExitEvent.WORKEND: end()},
)
simulator.run()
