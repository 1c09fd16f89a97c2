"""Damages files and options by chance, gives them to Fathom, and counts what it makes of them.

An input is a sound folder of files of which one is damaged, or a command with a bad value of an
option or an environment variable. It is refused in one line, accepted, or a failure: another
exception, several lines, a warning, a number that is not finite in the output, or no end in time.
All run in one process. If it is not root's, files and folders also lose permissions.

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
    "scale": ("scale", "autoenc", *_SMALL[:3], "--machine=p100", "--nodes=1,2"),
    "export": ("export", "autoenc", *_SMALL[:3], "--to=json", "--out=new"),
    "sparsity": ("sparsity", "autoenc", *_SMALL[:3], "--steps=2"),
}
_VARIABLES = {  # and a command that they may change
    **dict.fromkeys(("FATHOM_DATA_DIR", "FATHOM_CACHE_DIR"), ("data", "list")),
    **dict.fromkeys(("HOME", "XDG_CACHE_HOME", "COLUMNS", "TERM", "NO_COLOR"), ("list",)),
    **dict.fromkeys(("TF_CONFIG", "SLURM_PROCID", "SLURM_NTASKS"), _RUN_PARSERS["run autoenc"]),
    **dict.fromkeys(("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "GLIBC_TUNABLES"), ("machine",)),
    **dict.fromkeys(("ONEDNN_MAX_CPU_ISA", "TF_ENABLE_ONEDNN_OPTS", "XLA_FLAGS"), ("machine",)),
    "TF_XLA_FLAGS": ("machine",),
}
_LAYERS = "conv1, 227, 227, 11, 11, 3, 96, 4\nconv2, 31, 31, 5, 5, 48, 256, 1\n"


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
    from fathom.deepq.atari import Atari
    from fathom.hardware.accelerators import topology
    from fathom.imagenet.ilsvrc import ImageNet, convert
    from fathom.memnet.babi import Babi
    from fathom.modern.dlrm import synthetic as clicks
    from fathom.modern.dlrm.criteo import Criteo
    from fathom.modern.gcn import synthetic as graphs
    from fathom.modern.gcn.cora import Cora
    from fathom.results.quality import Quality
    from fathom.results.records import RunResult
    from fathom.results.serving import ServingResult
    from fathom.shared.language.text import TinyShakespeare
    from fathom.shared.translation.multi30k import Multi30k
    from fathom.speech.timit import Timit
    from fathom.system.files import read_file

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
        value = read_file(folder / "tf_config").replace(b"\0", b"")
        os.environ["TF_CONFIG"] = value.decode(errors="surrogateescape")
        try:
            strategies.cluster()
        finally:
            del os.environ["TF_CONFIG"]

    def verified(dataset: Any, below: str = ".") -> Callable[[Path], object]:
        return lambda folder: dataset.verify(folder / below, dataset.Options(), True)

    def machines(folder: Path) -> None:
        for command in (("roofline",), ("explore",), ("scale", "--nodes=1,2")):
            described = f"--description={folder / 'step.json'}"
            _main(*command, "autoenc", f"--machine={folder / 'machine.json'}", described)

    def result(folder: Path) -> str:
        read = RunResult.read(folder / "result.json")
        return f"{read.to_json().replace('NaN', 'nan')} {read.steps.median} {read.steps.spread}"

    def roms(folder: Path) -> None:
        for game in ("pong", "breakout"):
            shutil.copy(Atari.packaged() / f"{game}.bin", folder)  # type: ignore[operator]

    layers = ("explore", "--machine=virtex7-485t")
    export = ("export", "autoenc", *_SMALL[:3], "--to=json", "--force")
    quality = ("quality", "autoenc", *_SMALL[:2], _SMALL[3], "--batches=500,1000", "--epochs=1")
    served = ("serve-test", "autoenc", *_SMALL, "--scenario=single-stream", "--duration=1")
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
        "ROMs": Kind(roms, verified(Atari)),
        "layers": Kind(
            lambda f: (f / "layers.csv").write_text(f"{', '.join(topology.COLUMNS)}\n{_LAYERS}"),
            lambda f: _main(*layers, f"--layers={f / 'layers.csv'}"),
        ),
        "mark of a folder": Kind(
            lambda f: _main(*export, f"--out={f / 'new'}"),
            lambda f: _main(*export, f"--out={f / 'new'}"),
            ".fathom",
        ),
        "quality": Kind(
            lambda f: _main(*quality, "--target=negative_elbo=900", f"--json={f / 'quality.json'}"),
            lambda f: Quality.read(f / "quality.json").to_json().replace("NaN", "nan"),
        ),
        "serving": Kind(
            lambda f: _main(*served, f"--out={f / 'out'}"),
            lambda f: ServingResult.read(f / "out" / "serving.json").to_json(),
            "serving.json",
        ),
        "metadata of a package": Kind(_write_package, _registered, "[!_]*"),
        "TF_CONFIG": Kind(
            lambda f: (f / "tf_config").write_text(
                '{"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}}'
            ),
            cluster,
        ),
    }


def _write_package(folder: Path) -> None:
    """Writes what pip leaves of a package with a workload."""
    metadata = folder / "other-0.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 0.1\n")
    module = "fathom.autoenc.model:Autoenc"
    (metadata / "entry_points.txt").write_text(
        f"[console_scripts]\nother = os:abort\n[fathom.workloads]\nother = {module}\n"
    )


def _registered(folder: Path) -> None:
    """Lists the workloads with those of packages in a folder, and runs one of Fathom's."""
    from fathom import workloads

    sys.path.insert(0, str(folder))
    workloads._registered.cache_clear()
    try:
        _main("list", "--criteria")
        _main(*_RUN_PARSERS["run autoenc"])
    finally:
        sys.path.remove(str(folder))
        workloads._registered.cache_clear()


def _write_step(folder: Path) -> None:
    _main("describe", "autoenc", *_SMALL[:3], f"--json={folder / 'step.json'}")
    from fathom.hardware.accelerators import machine

    read = machine.load("virtex7-485t").model_dump(exclude_unset=True, by_alias=True)
    links = [{"name": "a link", "bandwidth": 1e9}]
    found = read | {"links": links, "sources": read["sources"] | {"links": "none"}}
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


def bad_variable(rng: random.Random) -> tuple[str, Callable[[], object]]:
    """Returns an environment variable with a bad value, and a command that may read it."""
    name = rng.choice(sorted(_VARIABLES))
    value = rng.choice(_VALUES)

    def read() -> None:
        before = dict(os.environ)
        os.environ[name] = value
        try:
            _main(*_VARIABLES[name])
        finally:
            os.environ.clear()
            os.environ.update(before)

    return f"{name}={value} fathom {' '.join(_VARIABLES[name])}", read


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


def outcome(read: Callable[[], object], limit_s: float = 30.0) -> tuple[str, str]:
    """Returns ``refused``, ``accepted`` or ``failure`` and, in words, what was seen."""
    from fathom.errors import FathomError

    printed, complained = io.StringIO(), io.StringIO()
    signal.signal(signal.SIGALRM, _hang)
    verdict = "accepted"
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(complained):
            warnings.simplefilter("always", RuntimeWarning)
            signal.setitimer(signal.ITIMER_REAL, limit_s)
            printed.write(str(read()))
    except FathomError as error:
        verdict = "refused"
        complained.write(f"{error}\n")
    except SystemExit as end:
        verdict = {0: "accepted", 2: "refused"}.get(end.code, "failure")  # type: ignore[arg-type]
    except (Exception, Hang):
        return "failure", traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    shown = f"{printed.getvalue()}\n{complained.getvalue()}"
    if verdict == "accepted":
        without_given = re.sub(r"([A-Z]=|\$[A-Z_]+ is )\S+", "", shown)  # a variable's value
        wrong = re.search(r"(?<![\w.])-?(nan|inf)\b|Warning", without_given)
    else:
        wrong = complained.getvalue().count("\n") != 1
    return ("failure" if wrong else verdict), shown


def _hang(number: int, frame: object) -> NoReturn:
    raise Hang("no end in time")


def trials(args: argparse.Namespace, root: Path) -> Iterator[tuple[str, ...]]:
    """Yields number, kind, damage, verdict and what was seen of each input."""
    files = kinds()
    options = {
        "options": bad_option,
        "hyperparameters": bad_hyperparameter,
        "environment variables": bad_variable,
    }
    names = [*files, *["options"] * (len(files) // 3), *["hyperparameters"] * 2]
    names += ["environment variables"] * 3
    for number in range(args.inputs) if args.input is None else [args.input]:
        rng, name = random.Random(f"{args.seed}-{number}"), names[number % len(names)]
        scratch = root / "scratch" / "below"
        _permit(scratch)
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        os.chdir(scratch)
        if name in options:
            how, read = options[name](rng)
        else:
            how, read = _damaged(files[name], root / name, scratch / "input", rng)
        yield str(number), name, how, *outcome(read, args.limit)


def _permit(folder: Path) -> None:
    """Gives back the permissions of a folder and what it holds."""
    if folder.exists():
        folder.chmod(0o700)
        for path in folder.iterdir():
            if not path.is_symlink():
                _permit(path) if path.is_dir() else path.chmod(0o600)


def _damaged(
    kind: Kind, sound: Path, folder: Path, rng: random.Random
) -> tuple[str, Callable[[], object]]:
    """Copies a sound folder and damages one of its files."""
    if not sound.exists():
        sound.mkdir()
        with contextlib.redirect_stdout(io.StringIO()):
            kind.prepare(sound)
        shutil.copytree(sound, folder, symlinks=True)
        verdict, seen = outcome(lambda: kind.read(folder), 300)
        if verdict != "accepted":
            raise SystemExit(f"{sound.name} is not accepted undamaged: {seen}")
        shutil.rmtree(folder)
        shutil.rmtree("new", ignore_errors=True)  # what the command wrote
    shutil.copytree(sound, folder, symlinks=True)
    path = rng.choice(sorted(p for p in folder.rglob(kind.files) if p.is_file()))
    if os.geteuid() and rng.random() < 0.25:
        path = rng.choice([path, *[p for p in path.parents if p.is_relative_to(folder)]])
        mode = rng.choice((0, 0o444, 0o111))
        path.chmod(mode)
        return f"{path.relative_to(folder)}: mode {mode:o}", lambda: kind.read(folder)
    how = damage(path, rng)
    return f"{path.relative_to(folder)}: {how}", lambda: kind.read(folder)


def main() -> None:
    """Tries the inputs of the command line, and prints a table and the failures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--input", type=int, help="its number: that one alone, with its output")
    text = "seconds that one may take (default: 30)"
    parser.add_argument("--limit", type=float, default=30.0, help=text)
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
        for number, name, how, verdict, seen in trials(args, Path(folder)):
            counts.setdefault(name, Counter())[verdict] += 1
            if verdict == "failure" or args.input is not None:
                print(f"{number}, {name}: {how[:200]}: {verdict}\n{seen[-2000:]}", flush=True)
        os.chdir("/")
        _permit(Path(folder))
    counts["all"] = sum(counts.values(), Counter())
    print("| input | tried | refused | accepted | failures |\n|---|---|---|---|---|")
    for name, each in counts.items():
        row = (each.total(), each["refused"], each["accepted"], each["failure"])
        print(f"| {name} | {' | '.join(map(str, row))} |")
    sys.exit(1 if counts["all"]["failure"] else 0)


if __name__ == "__main__":
    main()
