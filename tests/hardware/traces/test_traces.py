"""Traces touch what the description says, in files that simulators read."""

import argparse
import gzip
import lzma
import struct

import numpy as np
import pandas as pd
import pytest
from commands import run
from rich.console import Console

from fathom import FathomError
from fathom.__main__ import main
from fathom.cli import traces
from fathom.cli.traces import of_model
from fathom.hardware.traces import formats, instructions, intervals, reuse, schedule, tensors
from fathom.hardware.traces.block import LOAD, MODIFY, STORE, Block
from fathom.model import steps
from fathom.testing.descriptors import descriptor
from tests.hardware.accelerators.steps import operation

LINE = 64
SHAPES = ("dense_shape", "axis", "ShapeN")  # arguments that TensorFlow reads when it plans


def model(name, infer=False):
    created = descriptor(name).model(infer)
    created.load_data()
    created.build()
    return created


def whole(trace):
    blocks = list(trace())
    return Block(*(np.concatenate([block[n] for block in blocks]) for n in range(4)))


@pytest.mark.parametrize(
    "name",
    [
        "autoenc",
        "memnet",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("residual", "dlrm")),
        "gcn",
    ],
)
def test_the_first_touch_of_each_line_is_of_the_bytes_of_the_tensors(name):
    trace, _, table = of_model(model(name), None, "plain", pytest.fail)
    found = np.unique(whole(trace).address).astype(int)
    place = np.searchsorted(table.address, found, side="right") - 1
    touched = np.bincount(place, minlength=len(table)) * LINE
    expected = -(-table.bytes // LINE) * LINE
    partly = table.name.str.endswith(SHAPES)
    if name == "dlrm":  # rows of the tables
        partly |= table.name.str.contains("Gather/resource")
    assert partly.sum() < len(table) / 4
    assert (touched[~partly] == expected[~partly]).all()
    assert (touched <= expected).all()


def test_results_are_those_of_the_description():
    small = model("autoenc")
    _, _, table = of_model(small, None, "plain", pytest.fail)
    described = small.describe()
    results = sum(row.result_bytes for row in described.operations)
    assert table.bytes[~table.held].sum() == results
    assert table.bytes[table.held].sum() >= 4 * described.parameters


def test_an_arena_is_smaller_and_nothing_overlaps():
    _, _, table = of_model(model("memnet"), None, "arena", pytest.fail)
    rows = table.sort_values("address")
    size = rows.address.max() + rows.bytes.iloc[-1] - rows.address.min()
    assert size < 0.5 * table.bytes.sum()
    for row in rows.itertuples():
        others = rows[(rows["first"] <= row.last) & (rows["last"] >= row.first)]
        inside = (others.address < row.address + row.bytes) & (
            others.address + others.bytes > row.address
        )
        assert inside.sum() == 1


@pytest.mark.slow
def test_rows_are_those_of_the_batch():
    small = model("dlrm", infer=True)
    traced = steps.trace(small, None)
    batch = next(iter(small.inference_batches()))
    (rows,) = tensors.indices(traced, batch).values()
    firsts = rows - batch[1].numpy()  # the tables lie one after the other
    assert (firsts == firsts[0]).all()
    assert (np.diff(firsts[0]) > 0).all()
    trace, _, _ = of_model(small, None, "arena", pytest.fail)
    again, _, _ = of_model(small, None, "arena", pytest.fail)
    for first, second in zip(whole(trace), whole(again), strict=True):
        assert (first == second).all()


def test_a_product_reads_its_tiles_in_order():
    operands = []
    for rows, columns in ((128, 64), (64, 64), (128, 64)):
        storage = tensors.Storage(f"{rows}x{columns}", 4 * rows * columns)
        operands.append(tensors.Use(storage, (rows, columns), 4, storage.bytes))
    row = operation(bounds={"batch": 1, "M": 128, "N": 64, "K": 64})
    access = tensors.Access(row, (), operands[:2], operands[2:])
    addresses = {id(use.storage): (1 + place) << 20 for place, use in enumerate(operands)}
    blocks = list(schedule.blocks([access], addresses))
    order = [(int(block.address[0]) >> 20, len(block.address)) for block in blocks]
    assert order == [(1, 256), (2, 256), (3, 256)] * 2  # 64 rows of 4 lines
    assert [block.kind[0] for block in blocks] == [LOAD, LOAD, STORE] * 2
    assert blocks[3].address[0] == (1 << 20) + 64 * 256


def test_an_update_touches_the_rows_of_the_batch_alone():
    table, gradient = (tensors.Storage(name, 1 << 16) for name in ("table", "gradient"))
    uses = tensors.Use(table, None, 4, table.bytes), tensors.Use(gradient, (4, 16), 4, 256)
    row = operation(kind="look-up", type="ResourceScatterSub", bounds={"indices": 4, "width": 16})
    access = tensors.Access(row, (), [*uses], [uses[0]], indices=np.array([9, 5]))  # 2 of 4
    addresses = {id(table): 1 << 20, id(gradient): 1 << 24}
    (block,) = schedule.blocks([access], addresses)
    assert block.address.tolist() == [1 << 24, (1 << 20) + 9 * 64, (1 << 24) + 64, (1 << 20) + 320]
    assert block.kind.tolist() == [LOAD, MODIFY] * 2


BLOCK = Block(
    np.array([0x10000000, 0x10000040, 0x10000080], np.uint64),
    np.array([LOAD, STORE, MODIFY], np.uint8),
    np.array([0, 1, 2], np.uint64),
    np.zeros(3, np.uint16),
)


def test_files_have_the_simulators_formats(tmp_path):
    for name, form in formats.FORMATS.items():
        written = formats.write([BLOCK, BLOCK], form, tmp_path / name)
        assert written == 8
    lines = gzip.decompress((tmp_path / "ramulator2").read_bytes()).decode().splitlines()
    assert lines[:4] == ["LD 0x10000000", "ST 0x10000040", "LD 0x10000080", "ST 0x10000080"]
    lines = gzip.decompress((tmp_path / "dramsim3").read_bytes()).decode().splitlines()
    assert lines[3] == "0x10000080 WRITE 3"
    assert [int(line.split()[2]) for line in lines] == list(range(8))
    records = lzma.decompress((tmp_path / "champsim").read_bytes())
    assert len(records) == 6 * 64
    found = [struct.unpack("<QBB2B4B2Q4Q", records[n : n + 64]) for n in range(0, 192, 64)]
    assert [each[9] for each in found] == [0, 0x10000040, 0x10000080]  # stores
    assert [each[11] for each in found] == [0x10000000, 0, 0x10000080]  # loads
    assert len({each[0] for each in found}) == 3


def test_distances_are_those_of_a_stack():
    lines = np.random.default_rng(0).integers(0, 50, 1000)
    stack, expected = [], []
    for line in lines.tolist():
        expected.append(stack.index(line) if line in stack else reuse.COLD)
        if line in stack:
            stack.remove(line)
        stack.insert(0, line)
    assert reuse.distances(lines).tolist() == expected


def test_a_step_without_accesses_is_refused():
    with pytest.raises(FathomError, match="marks no access"):
        reuse.measure(lambda: iter(()), ["a"])


def test_a_drawing_has_the_same_bytes_each_time(tmp_path):
    table = pd.DataFrame([{"layer": "a", "loads": 1, "stores": 1}])
    for size in reuse.CACHES:
        table[f"miss {size}"] = 0.5
    for name in ("a.svg", "b.svg"):
        reuse.draw(table, "title", tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_the_histogram_has_the_misses_of_the_summary():
    address = np.random.default_rng(0).integers(0, 3000, 20_000).astype(np.uint64) * LINE
    layer = (np.arange(20_000) >= 9000).astype(np.uint16)
    block = Block(address, np.zeros(20_000, np.uint8), np.zeros(20_000, np.uint64), layer)
    parts = reuse.measure(lambda: [block], ["a", "b"])
    table, histogram = reuse.summary(*parts), reuse.histogram(*parts)
    assert set(histogram.layer) == {"step", "a", "b"}
    for row in table.itertuples():
        mine = histogram[histogram.layer == row.layer]
        assert mine.accesses.sum() == row.loads
        for size in reuse.CACHES:
            missed = mine[~(mine.bytes <= size)].accesses.sum()
            assert missed / row.loads == table.loc[row.Index, f"miss {size}"]


def test_counts_of_called_functions_are_not_counted_twice():
    text = "events: Ir\nfn=main\n0x401000 0 3\ncalls=2 0x402000 0\n0x401005 0 80\n0x401005 0 2\n"
    text += "fn=other\n0x402000 0 80\n"
    assert instructions.parsed(text) == {0x401000: 3, 0x401005: 2, 0x402000: 80}


@pytest.mark.parametrize(
    ("instruction", "kind"),
    [
        ("vfmadd231ps %ymm0,%ymm1,%ymm2", "vector arithmetic"),
        ("addpd (%rax),%xmm1", "vector arithmetic"),
        ("mulss %xmm0,%xmm1", "scalar floating-point arithmetic"),
        ("movups %xmm0,(%rax)", "other work on vector registers"),
        ("cvtsi2sd %eax,%xmm0", "other work on vector registers"),
        ("mov %rax,%rbx", "moves"),
        ("popcnt %rax,%rbx", "integer arithmetic and logic"),
        ("jne 401000", "branches and calls"),
        ("add $0x1,%eax", "integer arithmetic and logic"),
        ("sub %rax,%rbx", "integer arithmetic and logic"),
    ],
)
def test_instructions_are_told_apart(instruction, kind):
    assert instructions.kind_of(*instruction.split()) == kind


def test_intervals_stand_for_the_trace():
    quiet = np.arange(4000) % 64 * 64
    busy = np.arange(8000) * 4096
    address = np.concatenate([quiet, busy, quiet]).astype(np.uint64)
    kind = np.where(np.arange(16000) < 4000, LOAD, STORE).astype(np.uint8)
    block = Block(address, kind, np.zeros(16000, np.uint64), np.zeros(16000, np.uint16))
    chosen = intervals.choose([block], 3, length=1000)
    assert chosen.weight.sum() == pytest.approx(1)
    assert sorted(chosen.weight) == pytest.approx([0.25, 0.25, 0.5])
    cut = list(intervals.pieces([block], 1000))
    assert [number for number, _ in cut] == list(range(16))
    assert (np.concatenate([part.address for _, part in cut]) == address).all()


def test_intervals_are_written_in_one_pass(tmp_path):
    passes, size, half = [], 80_000, 2 * intervals.LENGTH

    def trace():
        passes.append(None)
        for start in range(0, 2 * half, size):
            place = np.arange(start, start + size, dtype=np.uint64)
            address = np.where(place < half, place % 64, place) * LINE
            kind = np.where(place < half, LOAD, STORE).astype(np.uint8)
            yield Block(address, kind, place, np.zeros(size, np.uint16))

    traces._write(trace, argparse.Namespace(format="dramsim3", intervals=2), tmp_path, Console())
    assert len(passes) == 2  # to choose, and to write
    chosen = pd.read_csv(tmp_path / "intervals.csv")
    assert len(chosen) == len(list(tmp_path.glob("trace-*"))) == 2
    for row in chosen.itertuples():
        text = gzip.decompress((tmp_path / f"trace-{row.interval}.txt.gz").read_bytes())
        kinds = [line.split()[1] for line in text.splitlines()]
        assert kinds == [b"READ" if row.first < half else b"WRITE"] * intervals.LENGTH


def test_the_command_writes_a_folder(tmp_path, capsys):
    out = tmp_path / "out"
    small = descriptor("autoenc").arguments()
    command = ["trace-memory", "autoenc", "--infer", *small, f"--out={out}"]
    assert run(main, [*command, "--format=champsim", "--intervals=2"]) in (0, None)
    assert "misses per access" in capsys.readouterr().out
    names = {path.name for path in out.iterdir()} - {".fathom"}
    assert {"distances.csv", "intervals.csv", "misses.svg", "summary.csv", "tensors.csv"} < names
    assert run(main, command) == 2
    program = ["trace-memory", "autoenc", f"--program={tmp_path}", f"--out={out}", "--force"]
    for option in ("--infer", "--layout=plain", f"--data-dir={tmp_path}"):
        assert run(main, [*program, option]) == 2
        assert f"{option.partition('=')[0]} is of a traced step" in capsys.readouterr().err


def test_a_program_must_have_marks(tmp_path):
    from fathom.hardware.traces import valgrind

    with pytest.raises(FathomError, match=r"is no program|install valgrind"):
        next(valgrind.everything(tmp_path, "autoenc"))
