import json

from commands import fathom

from fathom.results.machine import Inspection


def test_a_line_for_each_part_is_printed_and_the_same_written(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    file = tmp_path / "machine.json"
    assert fathom("machine", f"--json={file}") == 0
    printed = capsys.readouterr().out
    inspection = Inspection.read(file)
    for finding in inspection.findings:
        assert finding.name in printed
        if finding.name not in ("load", "memory"):
            assert finding.found in printed
    assert "! ONEDNN_MAX_CPU_ISA=AVX2" in printed
    assert inspection.environment.cpu_model


def test_the_document_alone_is_printed_for_other_programs(capsys):
    assert fathom("machine", "--json=-") == 0
    assert json.loads(capsys.readouterr().out)["findings"][0]["name"] == "processor"
