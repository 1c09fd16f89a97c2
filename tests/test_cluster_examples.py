"""The files for clusters in ``examples/`` parse, and give workers what they need; none was run."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import yaml

from fathom.cli.run import workload_parser
from fathom.core.training import rendezvous, strategies

EXAMPLES = Path(__file__).parents[1] / "examples"


def parsed(script):
    """Returns the arguments of the training that a script starts, as they are read."""
    command = re.search(r"python -m fathom run ((?:.*\\\n)*.*)", script)[1]
    command = re.sub(r"--json \S+", "--json -", command)  # its folder is not here
    workload, *arguments = shlex.split(command.replace("\\\n", " "))
    arguments = ["1" if each.startswith("${") else each for each in arguments]
    return workload_parser(workload, "fathom").parse_args(arguments)


def test_the_script_for_slurm():
    path = EXAMPLES / "slurm.sh"
    subprocess.run(["bash", "-n", path], check=True, timeout=30)
    text = path.read_text()
    assert "Not run" in text
    options = dict(re.findall(r"^#SBATCH --([a-z-]+)=(\S+)$", text, re.M))
    assert int(options["nodes"]) * int(options["ntasks-per-node"]) == 4  # as its first line says
    args = parsed(text)
    assert (args.strategy, args.resume) == ("multi-worker", True)
    assert f"export {rendezvous.SECRET}" in text


def test_the_manifest_for_kubernetes(monkeypatch):
    text = (EXAMPLES / "kubernetes.yaml").read_text()
    assert "Not run" in text
    service, policy, job = yaml.safe_load_all(text)
    selected = {"job-name": job["metadata"]["name"]}
    assert service["spec"]["selector"] == policy["spec"]["podSelector"]["matchLabels"] == selected
    spec = job["spec"]
    pod = spec["template"]["spec"]
    assert pod["subdomain"] == service["metadata"]["name"]
    (container,) = pod["containers"]
    environment = {each["name"]: each.get("value") for each in container["env"]}
    assert int(environment["WORKERS"]) == spec["completions"] == spec["parallelism"]
    assert rendezvous.SECRET in environment
    volumes = {each["name"] for each in pod["volumes"]}
    assert volumes == {each["name"] for each in container["volumeMounts"]}
    (script,) = container["args"]
    assert parsed(script).strategy == "multi-worker"
    variables = {**environment, "JOB_COMPLETION_INDEX": "2", "PATH": "/usr/bin:/bin"}
    before = script[: script.index("exec ")] + 'printf "%s" "$TF_CONFIG"'
    config = subprocess.run(
        ["bash", "-c", before],
        env={name: value or "" for name, value in variables.items()},
        capture_output=True, check=True, text=True, timeout=30,
    ).stdout  # fmt: skip
    json.loads(config)
    monkeypatch.setenv("TF_CONFIG", config)
    cluster = strategies.cluster()
    assert cluster.index == 2
    assert cluster.workers == tuple(f"fathom-{i}.fathom:20000" for i in range(4))
    assert container["ports"] == [{"containerPort": 20000}]
