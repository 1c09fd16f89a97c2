"""``fathom export`` writes whole folders, and replaces none unasked."""

from commands import run

from fathom import __main__

SMALL = ("export", "autoenc", "--batch-size=3", "--set=hidden_units=7", "--infer")


def fathom(*arguments):
    return run(__main__.main, list(map(str, arguments)))


def test_the_formats_are_listed(capsys):
    assert fathom("export", "--to", "list") == 0
    assert "scale-sim: topology files of SCALE-Sim 3" in capsys.readouterr().out


def test_an_export_is_a_new_folder_unless_it_is_to_replace_one(tmp_path, capsys):
    out = tmp_path / "out"
    assert fathom(*SMALL, "--to", "scale-sim", "--out", out) == 0
    assert "not expressed: " in capsys.readouterr().out
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    assert before.keys() == {"products.csv", "repetitions.csv"}
    (out / "mine").write_text("kept")
    assert fathom(*SMALL, "--to", "scale-sim", "--out", out) == 2
    assert "exists" in capsys.readouterr().err
    assert (out / "mine").exists()
    assert fathom(*SMALL, "--to", "scale-sim", "--out", out, "--force") == 0
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before


def test_mistakes_are_named_in_one_line(tmp_path, capsys):
    for arguments, message in (
        ((*SMALL, "--to", "scale"), "did you mean scale-sim?"),
        (("export", "--to", "json"), "name the workload"),
        ((*SMALL, "--to", "json", "--out", tmp_path / "a" / "b" / "c"), ""),
    ):
        code = fathom(*arguments)
        assert code == (2 if message else 0)
        assert message in capsys.readouterr().err
