"""Code of one machine's modules for another."""

import struct

import pytest

from fathom import FathomError
from fathom.exports import llvm

RISCV64 = {"triple": "riscv64-linux-gnu", "features": "+m,+a,+f,+d,+c", "abi": "lp64d"}
MACHINES = {"x86_64": 62, "riscv64": 243}  # e_machine
MODULE = """
target datalayout = "e-m:e-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-unknown-linux-gnu"

@table = constant [2 x float] [float 1.0, float 2.0]

define <4 x float> @twice(<4 x float> %x) #0 {
  %sum = fadd <4 x float> %x, %x
  ret <4 x float> %sum
}

attributes #0 = { "target-cpu"="x86-64" "target-features"="+sse2" "prefer-vector-width"="256" }
"""


def header(content):
    """Returns the machine, the flags and the number of sections of an ELF file."""
    found = struct.unpack("<16sHHIQQQIHHHHHH", content[:64])
    return found[2], found[7], found[12]


@pytest.fixture(autouse=True)
def _llvmlite():
    pytest.importorskip("llvmlite")


def test_a_module_is_compiled_for_another_machine():
    content = llvm.compiled(MODULE, **RISCV64)
    machine, flags, _ = header(content)
    assert machine == MACHINES["riscv64"]
    assert flags & 0b110 == 0b100  # floats of 64 bits are passed in registers
    assert b"twice" in content
    assert llvm.compiled(MODULE, **RISCV64) == content


def test_what_llvm_cannot_read_is_said():
    with pytest.raises(FathomError, match=r"LLVM cannot compile the step for riscv64-linux-gnu: "):
        llvm.compiled(MODULE.replace("fadd", "fold"), **RISCV64)


def test_data_differ_by_their_header_alone():
    """The text has no code, so that both machines' files of it differ in nothing else."""
    data = MODULE[: MODULE.index("define")]
    x86 = llvm.compiled(data, triple="x86_64-linux-gnu", features="", abi="")
    content = llvm.data_of(llvm.compiled(MODULE, **RISCV64), x86)
    assert header(x86)[0] == MACHINES["x86_64"]
    assert header(content) == (*header(llvm.compiled(MODULE, **RISCV64))[:2], header(x86)[2])
    assert content[64:] == x86[64:]
