import logging
import os
import platform
import subprocess
import sys

import pytest

from fathom.system import processor
from fathom.system.processor import ONEDNN, Choice, Processor

XEON = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R) Platinum 8481C
flags\t\t: fpu sse4_1 sse4_2 avx avx2 fma avx512f avx512_vnni amx_tile
"""
GRAVITON = """processor\t: 0
BogoMIPS\t: 2100.00
Features\t: fp asimd asimddp bf16 i8mm sve
CPU implementer\t: 0x41
"""


def read(text, architecture):
    return processor._read(text.splitlines(), architecture, architecture)


def test_linux_tells_name_generation_and_instruction_sets_of_x86():
    assert read(XEON, "x86_64") == Processor(
        "Intel(R) Xeon(R) Platinum 8481C",
        "x86_64",
        "family 6, model 143",
        ("sse4_1", "sse4_2", "avx", "avx2", "fma", "avx512f", "avx512_vnni", "amx_tile"),
    )


def test_an_arm_processor_has_no_family_and_a_silent_system_no_flags():
    arm = read(GRAVITON, "aarch64")
    assert str(arm) == "aarch64"
    assert arm.flags == ("asimd", "asimddp", "bf16", "i8mm", "sve")
    assert read("", "arm64") == Processor("arm64", "arm64")


@pytest.fixture
def machine(monkeypatch):
    """Gives a function that chooses on a processor, before or after TensorFlow's import."""

    def choose(flags=(), architecture="x86_64", system="linux", imported=False, given=None):
        monkeypatch.setattr(
            processor, "processor", lambda: Processor("a name", architecture, flags=flags)
        )
        monkeypatch.setattr(sys, "platform", system)
        monkeypatch.delenv(ONEDNN, raising=False)
        if given is not None:
            monkeypatch.setenv(ONEDNN, given)
        modules = {name: module for name, module in sys.modules.items() if name != "tensorflow"}
        monkeypatch.setattr(sys, "modules", modules | ({"tensorflow": None} if imported else {}))
        return processor.choice.__wrapped__()

    return choose


@pytest.mark.parametrize("flags", [("avx2",), ("avx512f",), ("avx512_vnni",)])
def test_onednn_is_chosen_on_every_x86_processor(machine, flags):
    assert machine(flags) == Choice(True, "fathom")
    assert os.environ[ONEDNN] == "1"


@pytest.mark.parametrize(
    ("flags", "onednn", "expected"),
    [
        (("avx2",), True, {"float32"}),
        (("avx2", "avx512f"), True, {"float32", "bfloat16"}),
        (("avx2", "avx512f"), False, set()),
    ],
)
def test_groups_are_trained_where_a_kernel_has_their_gradient(monkeypatch, flags, onednn, expected):
    monkeypatch.setattr(
        processor, "processor", lambda: Processor("a processor", "x86_64", "", flags)
    )
    monkeypatch.setattr(processor, "choice", lambda: Choice(onednn, "user"))
    dtypes = {"float32", "bfloat16", "float16"}
    assert {dtype for dtype in dtypes if processor.trains_groups(dtype)} == expected
    with processor.any_processor():  # as the paper has it
        assert processor.trains_groups("bfloat16")


def test_what_the_user_has_set_is_left_alone(machine):
    assert machine(("avx2",), given="0") == Choice(False, "user")
    assert machine(("avx2",), given="1") == Choice(True, "user")
    assert os.environ[ONEDNN] == "1"


def test_another_architecture_or_system_is_left_to_tensorflow(machine):
    assert machine(("sve",), "aarch64") == Choice(None, "tensorflow")
    assert machine(("avx2",), system="darwin") == Choice(None, "tensorflow")
    assert ONEDNN not in os.environ


def test_one_line_says_that_tensorflow_was_imported_first_where_that_costs_speed(machine, caplog):
    with caplog.at_level(logging.WARNING):
        assert machine(("avx512_vnni",), imported=True) == Choice(True, "tensorflow")
        assert not caplog.records
        assert machine(("avx2",), imported=True) == Choice(False, "tensorflow", too_late=True)
    (record,) = caplog.records
    assert "import fathom first" in record.getMessage()
    assert ONEDNN not in os.environ


def test_a_script_that_imports_a_model_has_chosen_before_it_imports_tensorflow():
    if sys.platform != "linux" or platform.machine() != "x86_64":
        pytest.skip("Fathom chooses on x86-64 Linux only")
    code = "import fathom, os, sys; assert 'tensorflow' not in sys.modules; print(os.environ)"
    environment = {name: value for name, value in os.environ.items() if name != ONEDNN}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60
    )
    assert f"'{ONEDNN}': '1'" in done.stdout


def test_an_allocator_that_the_user_has_set_up_is_left_alone(monkeypatch):
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.36"))
    for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_MAX_", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    assert processor.keeps_freed_memory()
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
    assert processor.keeps_freed_memory()
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.mmap_max=9")
    assert not processor.keeps_freed_memory()
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    monkeypatch.delenv("GLIBC_TUNABLES")
    assert not processor.keeps_freed_memory()


def test_small_operations_share_the_threads():
    assert processor.operations_at_once(1, None) == 1
    assert processor.operations_at_once(8, None) == 2
    assert processor.operations_at_once(8, 3) == 3
