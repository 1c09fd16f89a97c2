"""Each kernel that a program calls is that of an instruction, and so of a layer."""

import re

import pytest

from fathom import FathomError
from fathom.exports import kernels

MODULE = """HloModule step, is_scheduled=true

%more (p.1: (s32[])) -> pred[] {
  %p.1 = (s32[]) parameter(0)
  ROOT %less = pred[] fusion(%p.1), kind=kLoop, calls=%c.1, metadata={op_name="loop/less"}
}

%once (p.2: (s32[])) -> (s32[]) {
  %p.2 = (s32[]) parameter(0)
  %product.1 = f32[2,2]{1,0} dot(%p.2, %p.2), metadata={op_name="loop/product"}
  ROOT %out.1 = (s32[]) tuple(%product.1)
}

%random (p.3: u64[3]) -> (u64[3]) {
  %p.3 = u64[3]{0} parameter(0)
  ROOT %bits = u64[3]{0} fusion(%p.3), kind=kLoop, calls=%c.2
}

ENTRY %step (a: f32[2,2], /*index=5*/b: s32[2]) -> (f32[2,2], s32[2]) {
  %a = f32[2,2]{1,0} parameter(0), metadata={op_name="XLA_Args"}
  %view = f32[4]{0} bitcast(%a)
  %sum = f32[2,2]{1,0} fusion(%a), kind=kLoop, calls=%c.3, metadata={op_name="first/sum"}
  %copy.1 = f32[2,2]{1,0} copy(%sum)
  %call.1 = (u64[3]{0}, u32[2]{0}) call(%a), to_apply=%random, metadata={op_name="noise/bits"}
  %sort.1 = (f32[2]{0}, s32[2]{0}) sort(%a, %b), dimensions={0}, metadata={op_name="last/sort"}
  %while.1 = (s32[]) while(%a), condition=%more, body=%once, metadata={op_name="loop"}
  ROOT %out = (f32[2,2]{1,0}, s32[2]{0}) tuple(%sum, %sort.1)
}
"""
LAYERS = ["first/sum"] * 2 + ["noise/bits"] * 2 + ["last/sort"] * 3
BEFORE = ["Kernel", "Kernel", "Call", "Kernel", "Copy", "Copy", "Sort"]


def header(calls):
    return "".join(f"     // {call} Thunk\n     {{\n       {call};\n     }}\n" for call in calls)


@pytest.mark.parametrize(
    ("loop", "layers"),
    [
        (
            ["While Loop", "Kernel", "Dot", "Kernel"],
            ["loop", "loop/less", "loop/product", "loop/less"],
        ),
        (["For Loop", "Dot"], ["loop", "loop/product"]),
    ],
)
def test_calls_have_the_layers_of_their_instructions(loop, layers):
    text = header(BEFORE + loop)
    marked, names = kernels.marked(text, MODULE, lambda origin: origin)
    found = re.findall(r"\{\nROI_ENTER\((\d)\);\n\s*(\w+)", marked)
    assert [names[int(number) - 1] for number, _ in found] == LAYERS + layers
    assert re.sub(r"ROI_ENTER\(\d\);\n", "", marked) == text


@pytest.mark.parametrize("calls", [["Kernel"], [*BEFORE, "For Loop", "Dot", "Kernel"]])
def test_other_calls_than_the_modules_are_refused(calls):
    with pytest.raises(FathomError, match="cannot mark layers"):
        kernels.marked(header(calls), MODULE, str)
