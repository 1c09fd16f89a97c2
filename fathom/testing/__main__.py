"""``python -m fathom.testing NAME``: runs the conformance suite on a workload."""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from fathom.cli.parser import Parser
from fathom.cli.terminal import import_tensorflow, run_command
from fathom.errors import FathomError

_TESTS = """import pytest

pytest.register_assert_rewrite("fathom.testing.conformance", "fathom.testing.computations")

from fathom.testing.conformance import *

WORKLOADS = ({name!r},)
"""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the suite and exits: 0 if all tests passed, 1 if any failed, 2 for usage errors."""
    parser = Parser(prog="fathom.testing", description="Runs the conformance suite on a workload.")
    parser.add_workload()
    text = "pytest's options, such as -x or -k resume"
    parser.add_argument("pytest", nargs=argparse.REMAINDER, help=text)
    run_command("fathom.testing", lambda: _run(parser.parse_args(arguments)))


def _run(args: argparse.Namespace) -> None:
    try:
        import pytest
    except ImportError as error:
        raise FathomError("pytest is needed: pip install 'fathom-workloads[test]'") from error
    import_tensorflow()
    from fathom.testing.descriptors import descriptor

    descriptor(args.workload)  # an error is one line here, not one for each test
    with tempfile.TemporaryDirectory() as folder:
        tests = Path(folder) / f"test_{args.workload}.py"
        tests.write_text(_TESTS.format(name=args.workload))
        options = [f"-c{os.devnull}", f"--rootdir={folder}", "-pno:cacheprovider", "-q"]
        options += ["--import-mode=importlib", "-omarkers=nightly: more sizes"]
        sys.exit(pytest.main([str(tests), *options, *args.pytest]))


if __name__ == "__main__":
    main()
