"""The command that serves over HTTP: its start, its end, and mistakes."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest
from commands import SMALL, fathom, refusal

from fathom.autoenc import AutoencFwd
from fathom.testing.descriptors import descriptor


def test_the_command_serves_until_a_signal():
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    served = subprocess.Popen(
        [sys.executable, "-m", "fathom", "serve", "autoenc", "--port=0", *SMALL],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    line = served.stdout.readline()
    assert "autoenc answers at http://127.0.0.1:" in line, served.communicate(timeout=60)
    url = line.split()[3].partition("/v2")[0]
    with urllib.request.urlopen(f"{url}/v2/models/autoenc", timeout=30) as reply:
        assert json.load(reply)["name"] == "autoenc"
    served.send_signal(signal.SIGTERM)
    printed, errors = served.communicate(timeout=60)
    assert (served.returncode, printed, errors) == (0, "ended\n", "")


@pytest.mark.parametrize("host", ["a" * 70, "..", "no such host"])
def test_a_host_that_is_no_address_is_named(monkeypatch, capsys, host):
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    error = refusal(capsys, fathom("serve", "autoenc", f"--host={host}"))
    assert f"cannot listen on {host}, port 8000: " in error


@pytest.mark.parametrize(
    ("command", "name", "setting"),
    [("serve", "gpt", "temperature=1"), ("serve-test", "llama", "draft_layers=1")],
)
def test_what_services_do_not_do_is_no_option_of_theirs(tmp_path, capsys, command, name, setting):
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    options = ["--port=0"] if command == "serve" else [f"--out={tmp_path}/a"]
    small = descriptor(name).arguments()
    error = refusal(capsys, fathom(command, name, *small, f"--set={setting}", *options))
    assert f"--set {setting.partition('=')[0]} has no effect" in error


def test_a_port_that_another_server_has_by_then_is_refused(monkeypatch, capsys):
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", 0))  # and listens only once the other one is bound, too
    port = bound.getsockname()[1]
    setup = AutoencFwd.setup
    monkeypatch.setattr(AutoencFwd, "setup", lambda *args: (bound.listen(), setup(*args)))
    with bound:
        error = refusal(capsys, fathom("serve", "autoenc", *SMALL, f"--port={port}"))
    assert "cannot listen: " in error


def test_a_port_that_is_taken_is_refused_before_the_network_is_built(monkeypatch, capsys):
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = f"--port={taken.getsockname()[1]}"
        assert fathom("serve", "autoenc", port) == 2
    assert "cannot listen on 127.0.0.1" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["serve", "serve-test"])
def test_without_the_library_the_extra_is_named(monkeypatch, tmp_path, capsys, command):
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    options = ["--latency-bound=9", "--burst=1", "--url=http://127.0.0.1:1", f"--out={tmp_path}/a"]
    arguments = [command, "autoenc", *SMALL, *(options if command == "serve-test" else [])]
    assert fathom(*arguments) == 2
    assert "pip install 'fathom-workloads[serve]'" in capsys.readouterr().err


def test_an_endpoint_that_does_not_answer_is_named(tmp_path, capsys):
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"--url=http://127.0.0.1:{unused.getsockname()[1]}"
        options = ["--latency-bound=9", "--burst=1", url, f"--out={tmp_path / 'a'}"]
        assert "does not answer" in refusal(
            capsys, fathom("serve-test", "autoenc", *SMALL, *options)
        )
