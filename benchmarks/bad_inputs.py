"""Damages files and options by chance, gives them to Fathom, and counts what it makes of them.

An input is a sound folder of files of which one is damaged, or a command with an option of a bad
value. It is refused in one line, accepted, or a failure: another exception, several lines, a
warning, a number that is not finite in the output, or no end in time. All run in one process.

    python benchmarks/bad_inputs.py --inputs 300
    python benchmarks/bad_inputs.py --input 17         # one of them again, with its output
"""

import argparse
import contextlib
import dataclasses
import gzip
import io
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

_LIMIT_S = 30.0  # of an input
_SMALL = ("--set=hidden_units=8", "--set=latents=2", "--batch-size=10", "--device=cpu")
_DEEP = "[" * 10**5
_BOMB = gzip.compress(bytes(1 << 28))
_NUMBERS = [*("0", "-1", "1.5", "1e999", "-1e999", "nan", "1e-300"), "9" * 19, "9" * 5000, "x", ""]
_JUNK = (b"\0", b"\xff\xfe", b"\t", b"\n", b" ", b"\x1f\x8b", b"NaN", b"\xe2\x80\xae")
_VALUES = [
    *(
        *_NUMBERS,
        " ",
        "inf",
        "-inf",
        "0x10",
        "\uff11\uff12",
        "true",
        "None",
        "auto",
        "a,b",
        ",",
        "[]",
    ),
    *(
        "1,,2",
        "%s",
        "\u202e",
        "\xe9",
        "x" * 300,
        "--",
        "=",
        "a=b",
        "help",
        "nowhere/x",
        "~nouser/x",
    ),
]
_PLAIN = [  # JSON values
    *(None, True, -1, 0, 1.5, 2**31, 2**62, 2**63, 1e-300, 1e308, float("nan"), float("inf")),
    *("", "x", "\0", "a\nb", [], [1], {}, {"x": 1}, "@deep", "@digits"),
]
_RUN_PARSERS = {"run autoenc": ("run", "autoenc", *_SMALL, "--steps=2")}
_COMMANDS: dict[str, tuple[str, ...]] = {  # those that are run; of the others options are parsed
    "list": ("list",),
    "data list": ("data", "list"),
    "data verify": ("data", "verify", "babi"),
    "data synthesize": ("data", "synthesize", "tinyshakespeare", "--data-dir=new"),
    "describe": ("describe", "autoenc", *_SMALL[:3]),
    "roofline": ("roofline", "autoenc", *_SMALL[:3], "--machine=p100"),
    "explore": ("explore", "autoenc", *_SMALL[:3], "--machine=virtex7-485t"),
    "scale": ("scale", "autoenc", *_SMALL[:3], "--machine=p100"),
    "export": ("export", "autoenc", *_SMALL[:3], "--to=json", "--out=new"),
    "sparsity": ("sparsity", "autoenc", *_SMALL[:3], "--steps=2"),
}


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of input.

    Attributes:
        prepare: writes a sound folder.
        read: reads the folder after one of its files was damaged.
        files: the pattern of the names of these files.
    """

    prepare: Callable[[Path], object]
    read: Callable[[Path], object]
    files: str = "*"


def kinds() -> dict[str, Kind]:
    """Returns the kinds of damaged files by name."""
    from fathom.autoenc.mnist import Mnist
    from fathom.core.training import strategies
    from fathom.imagenet.ilsvrc import ImageNet, convert
    from fathom.memnet.babi import Babi
    from fathom.modern.dlrm import synthetic as clicks
    from fathom.modern.dlrm.criteo import Criteo
    from fathom.modern.gcn import synthetic as graphs
    from fathom.modern.gcn.cora import Cora
    from fathom.results.records import RunResult
    from fathom.shared.language.text import TinyShakespeare
    from fathom.shared.translation.multi30k import Multi30k
    from fathom.speech.timit import Timit

    size = graphs.Size(200, 400, 30, 5, 7, 20, 30)

    def text(folder: Path) -> None:
        (folder / "input.txt").write_text("To be, or not to be: that is the question.\n" * 99)
        (folder / "entropy.txt").write_text("1.25\n")

    def few(dataset: Any, folder: Path, every: int) -> None:
        """Synthesizes a data set, and keeps one file in so many of each folder."""
        dataset.synthesize(folder, 0)
        for parent in {path.parent for path in folder.rglob("*") if path.is_file()}:
            stems = sorted({path.stem for path in parent.iterdir() if path.is_file()})
            for path in parent.iterdir():
                if path.is_file() and stems.index(path.stem) % every:
                    path.unlink()

    def records(folder: Path) -> None:
        few(ImageNet, folder / "tree", 99)
        convert(folder / "tree", folder / "records", 2)
        shutil.rmtree(folder / "tree")

    def cluster(folder: Path) -> None:
        os.environ["TF_CONFIG"] = (
            (folder / "tf_config").read_bytes().replace(b"\0", b"").decode(errors="surrogateescape")
        )
        try:
            strategies.cluster()
        finally:
            del os.environ["TF_CONFIG"]

    def verified(dataset: Any, below: str = ".") -> Callable[[Path], object]:
        return lambda folder: dataset.verify(folder / below, dataset.Options(), True)

    def machines(folder: Path) -> None:
        for command in ("roofline", "explore", "scale"):
            described = f"--description={folder / 'step.json'}"
            _main(command, "autoenc", f"--machine={folder / 'machine.json'}", described)

    def result(folder: Path) -> str:
        read = RunResult.read(folder / "result.json")
        return f"{read.to_json().replace('NaN', 'nan')} {read.steps.median} {read.steps.spread}"

    resume = ("run", "autoenc", *_SMALL, "--steps=3", "--resume")
    number_formats = ("formats", "autoenc", *_SMALL[:3], "--formats=float32,fixed16", "--steps=1")
    chakra = ("export", "autoenc", *_SMALL[:3], "--to=chakra", "--out=new")
    return {
        "MNIST": Kind(lambda folder: Mnist.synthesize(folder, 0, 20, 10), Mnist.load),
        "bAbI": Kind(lambda f: Babi.synthesize(f, 0, 20, 10), lambda f: Babi.load(f, 0), "*.txt"),
        "Cora": Kind(lambda folder: graphs.write(folder, "cora", size, 0), Cora.load),
        "Criteo": Kind(lambda folder: clicks.write(folder, 0, 100), Criteo.load),
        "Tiny Shakespeare": Kind(text, TinyShakespeare.load),
        "Multi30k": Kind(lambda f: Multi30k.synthesize(f, 0, 50, 10), verified(Multi30k)),
        "TIMIT": Kind(lambda folder: few(Timit, folder, 4), verified(Timit), "*.[wp][ah][vn]"),
        "ImageNet": Kind(lambda folder: few(ImageNet, folder, 99), verified(ImageNet), "*.JPEG"),
        "ImageNet, TFRecords": Kind(records, verified(ImageNet, "records")),
        "machine": Kind(_write_step, machines, "machine.json"),
        "description": Kind(_write_step, machines, "step.json"),
        "result": Kind(_write_result, result, "result.json"),
        "profile": Kind(_write_profile, lambda f: _main("profile", str(f)), "profile.json"),
        "profile to export": Kind(
            _write_profile, lambda f: _main(*chakra, f"--profile={f}"), "*.json*"
        ),
        "characterization": Kind(
            _write_characterization, lambda f: _main("compare", str(f), str(f)), "*.json"
        ),
        "number formats": Kind(
            lambda f: _main(*number_formats, f"--json={f / 'formats.json'}"),
            lambda f: _main(*number_formats, f"--json={f / 'formats.json'}"),
        ),
        "checkpoints": Kind(
            lambda f: _main(*resume[:-2], "--steps=2", f"--checkpoint-dir={f}"),
            lambda f: _main(*resume, f"--checkpoint-dir={f}"),
        ),
        "TF_CONFIG": Kind(
            lambda f: (f / "tf_config").write_text(
                '{"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}}'
            ),
            cluster,
        ),
    }


def _write_step(folder: Path) -> None:
    _main("describe", "autoenc", *_SMALL[:3], f"--json={folder / 'step.json'}")
    from fathom.hardware.accelerators import machine

    read = machine.load("virtex7-485t").model_dump(exclude_unset=True, by_alias=True)
    found = read | {"link_bandwidth": 1e9, "sources": read["sources"] | {"link_bandwidth": "none"}}
    (folder / "machine.json").write_text(json.dumps(found))


def _write_result(folder: Path) -> None:
    _main("run", "autoenc", *_SMALL, "--steps=4", f"--json={folder / 'result.json'}")


def _write_profile(folder: Path) -> None:
    _main("profile", "autoenc", *_SMALL[:3], "--steps=3", f"--out={folder}")


def _write_characterization(folder: Path) -> None:
    from fathom.results.characterization import Machine, Run
    from fathom.results.profile import Profile
    from fathom.results.records import RunResult

    _write_result(folder)
    _write_profile(folder / "profile")
    timed = RunResult.read(folder / "result.json")
    profile = Profile.read(folder / "profile" / "profile.json")
    environment = timed.environment
    shared = {
        **{"workload": "autoenc", "mode": "train", "device": environment.device, "threads": None},
        **{"cores": environment.cores_available, "precision": "float32", "batch_size": None},
        **{"argv": ("python",), "status": "done", "reason": None, "wall_s": 10.0},
    }
    (folder / "runs").mkdir()
    for repeat in range(2):
        for kind, parts in (("timing", {"result": timed}), ("profile", {"profile": profile})):
            name = f"{kind}-{repeat}"
            own = {"id": name, "kind": kind, "purpose": ("modes",), "repeat": repeat, **parts}
            run = Run(**{"result": None, "profile": None, **shared, **own})
            run.write(folder / "runs" / f"{name}.json")
    Machine(environment=environment, gemm_flops_per_second={"1": 1e11}).write(
        folder / "machine.json"
    )
    (folder / "result.json").unlink()
    shutil.rmtree(folder / "profile")


def _main(*arguments: str) -> None:
    """Runs a command of Fathom; raises SystemExit unless it succeeds."""
    from fathom.__main__ import main

    try:
        main(arguments)
    except SystemExit as end:
        if end.code:
            raise


def damage(path: Path, rng: random.Random) -> str:
    """Damages a file, and returns how."""
    content = path.read_bytes()
    if path.suffix == ".json" and rng.random() < 0.6:
        document = json.loads(content)
        how = _damage_json(document, rng)
        text = json.dumps(document).replace('"@deep"', _DEEP).replace('"@digits"', "9" * 5000)
        path.write_text(text)
        return how
    packed = content[:2] == b"\x1f\x8b" and rng.random() < 0.7
    how, changed = _damage_bytes(gzip.decompress(content) if packed else content, rng)
    path.write_bytes(gzip.compress(changed) if packed else changed)
    return f"{how}{' of what is packed' if packed else ''}"


def _damage_json(document: Any, rng: random.Random) -> str:
    """Changes a random place of a document."""
    where, place = "", document
    while True:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = rng.choice(keys)
        where += f".{key}"
        inner = place[key]
        if not isinstance(inner, (dict, list)) or not inner or rng.random() < 0.15:
            break
        place = inner
    if rng.random() < 0.25:
        del place[key]
        return f"{where} left out"
    place[key] = rng.choice(_PLAIN)
    return f"{where} = {place[key]!r}"


def _damage_bytes(content: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Returns how bytes were changed, and what they are then."""
    start, length = rng.randrange(len(content) + 1), rng.choice((1, 1, 8, 100, 4000))
    before, after = content[:start], content[start:]
    lines = content.splitlines(keepends=True)
    line = rng.randrange(len(lines) + 1)
    numbers = list(re.finditer(rb"\d+(?:\.\d+)?", content[: 10**6]))
    ways = {
        "cut": before,
        "empty": b"",
        "bytes left out": before + after[length:],
        "bytes repeated": before + after[:length] * 2 + after[length:],
        "a byte changed": before + bytes([rng.randrange(256)]) + after[1:],
        "junk inserted": before + rng.choice(_JUNK) + after,
        "a line left out": b"".join(lines[:line] + lines[line + 1 :]),
        "a line repeated": b"".join(lines[:line] + lines[line : line + 1] * 2 + lines[line + 1 :]),
        "spaces for tabs": content.replace(b"\t", b" ", rng.choice((-1, 1, 5))),
        "a gzip bomb": _BOMB,
        "UTF-16": content.decode(errors="replace").encode("utf-16"),
        "a byte order mark": b"\xef\xbb\xbf" + content,
        "lines that end as on Windows": content.replace(b"\n", b"\r\n"),
        "nested lists": _DEEP.encode(),
    }
    if numbers:
        chosen, text = rng.choice(numbers), rng.choice(_NUMBERS)
        changed = content[: chosen.start()] + text.encode() + content[chosen.end() :]
        ways |= {f"number {text[:20]}": changed, f"the number {text[:20]}": changed}
    how = rng.choice(list(ways))
    return how, ways[how]


def bad_option(rng: random.Random) -> tuple[str, Callable[[], object]]:
    """Returns a command with a bad value of an option, and what runs or parses it."""
    from fathom.__main__ import _parser
    from fathom.cli.run import workload_parser

    parsers = dict(_parsers(_parser())) | {"run autoenc": workload_parser("autoenc", "autoenc")}
    commands = _COMMANDS | _RUN_PARSERS
    name = rng.choice([*commands, *commands, *sorted(parsers.keys() - commands.keys())])
    options = [each for each in parsers[name]._actions if each.option_strings]
    option = rng.choice(options).option_strings[-1]
    value = rng.choice(_VALUES)
    given = rng.choice(([f"{option}={value}"], [option, value], [value, option], [option]))
    arguments = [*commands.get(name, name.split()), *given]
    if name in commands:
        return " ".join(arguments), lambda: _main(*arguments)
    return " ".join(arguments), lambda: bool(_parser().parse_args(arguments))


def _parsers(parser: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the parsers of all commands by name."""
    below = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    for action in below:
        for word, each in action.choices.items():
            yield from _parsers(each, f"{name} {word}".strip())
    if name and not below:
        yield name, parser


def bad_hyperparameter(rng: random.Random) -> tuple[str, Callable[[], object]]:
    """Returns a workload with a bad value of a hyperparameter, and what makes it."""
    from fathom import workloads

    name = rng.choice(workloads.names())
    kind = workloads.load(name, forward_only=rng.random() < 0.5)
    field = rng.choice(dataclasses.fields(kind.Hyperparameters)).name
    value = rng.choice(_VALUES)
    return f"{name} --set {field}={value}", lambda: kind("cpu", {field: value})


class Hang(BaseException):
    """An input took longer than the limit."""


def outcome(read: Callable[[], object]) -> tuple[str, str]:
    """Returns ``refused``, ``accepted`` or ``failure`` and, in words, what was seen."""
    from fathom.errors import FathomError

    said, complained = io.StringIO(), io.StringIO()
    signal.signal(signal.SIGALRM, _hang)
    verdict = "accepted"
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained):
            warnings.simplefilter("always", RuntimeWarning)
            signal.setitimer(signal.ITIMER_REAL, _LIMIT_S)
            said.write(str(read()))
    except FathomError as error:
        verdict = "refused"
        complained.write(f"{error}\n")
    except SystemExit as end:
        verdict = {0: "accepted", 2: "refused"}.get(end.code, "failure")  # type: ignore[arg-type]
    except (Exception, Hang):
        return "failure", traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    shown = f"{said.getvalue()}\n{complained.getvalue()}"
    if verdict == "accepted":
        wrong = re.search(r"(?<![\w.])-?(nan|inf)\b|Warning", shown)
    else:
        wrong = complained.getvalue().count("\n") != 1
    return ("failure" if wrong else verdict), shown


def _hang(number: int, frame: object) -> NoReturn:
    raise Hang(f"no end within {_LIMIT_S} s")


def trials(seed: int, count: int, only: int | None, root: Path) -> Iterator[tuple[str, ...]]:
    """Yields number, kind, damage, verdict and what was seen of each input."""
    files = kinds()
    options = {"options": bad_option, "hyperparameters": bad_hyperparameter}
    names = [*files, *["options"] * (len(files) // 3), *["hyperparameters"] * 2]
    for number in range(count) if only is None else [only]:
        rng, name = random.Random(f"{seed}-{number}"), names[number % len(names)]
        scratch = root / "scratch" / "below"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        os.chdir(scratch)
        if name in options:
            how, read = options[name](rng)
        else:
            how, read = _damaged(files[name], root / name, scratch / "input", rng)
        yield str(number), name, how, *outcome(read)


def _damaged(
    kind: Kind, sound: Path, folder: Path, rng: random.Random
) -> tuple[str, Callable[[], object]]:
    """Copies a sound folder and damages one of its files."""
    if not sound.exists():
        sound.mkdir()
        with contextlib.redirect_stdout(io.StringIO()):
            kind.prepare(sound)
        shutil.copytree(sound, folder, symlinks=True)
        verdict, seen = outcome(lambda: kind.read(folder))
        if verdict != "accepted":
            raise SystemExit(f"{sound.name} is not accepted undamaged: {seen}")
        shutil.rmtree(folder)
        shutil.rmtree("new", ignore_errors=True)  # what the command wrote
    shutil.copytree(sound, folder, symlinks=True)
    path = rng.choice(sorted(p for p in folder.rglob(kind.files) if p.is_file()))
    how = damage(path, rng)
    return f"{path.relative_to(folder)}: {how}", lambda: kind.read(folder)


def main() -> None:
    """Tries the inputs of the command line, and prints a table and the failures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--input", type=int, help="its number: that one alone, with its output")
    args = parser.parse_args()
    os.environ.pop("FATHOM_DATA_DIR", None)
    from fathom.cli.terminal import import_tensorflow

    import_tensorflow()
    import tensorflow as tf

    tf.config.threading.set_inter_op_parallelism_threads(1)  # as profiles need
    tf.zeros([])  # TensorFlow runs now, so that the choice holds
    counts: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FATHOM_CACHE_DIR"] = f"{folder}/cache"
        for number, name, how, verdict, seen in trials(
            args.seed, args.inputs, args.input, Path(folder)
        ):
            counts.setdefault(name, Counter())[verdict] += 1
            if verdict == "failure" or args.input is not None:
                print(f"{number}, {name}: {how[:200]}: {verdict}\n{seen[-2000:]}", flush=True)
        os.chdir("/")
    counts["all"] = sum(counts.values(), Counter())
    print("| input | tried | refused | accepted | failures |\n|---|---|---|---|---|")
    for name, each in counts.items():
        row = (each.total(), each["refused"], each["accepted"], each["failure"])
        print(f"| {name} | {' | '.join(map(str, row))} |")
    sys.exit(1 if counts["all"]["failure"] else 0)


if __name__ == "__main__":
    main()
