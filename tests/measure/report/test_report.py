import base64
import json
import pkgutil
import re
import sys
from collections import Counter
from html.parser import HTMLParser
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import synthetic_folder
from rich.console import Console
from synthetic_folder import op, paper_profile, profile, run, suite

from fathom import workloads
from fathom.errors import FathomError
from fathom.measure import Folder
from fathom.measure.report import figures, picture, report, selection
from fathom.measure.report import page as page_of_report
from fathom.measure.report.figure import QUESTIONS


def write_report(path, runs):
    """Writes the report of these runs; returns where it is."""
    report.write(synthetic_folder.folder(runs), path / "report")
    return path / "report"


@pytest.fixture
def quick(monkeypatch):
    """Writes empty pictures, where a test is of words and numbers."""
    monkeypatch.setattr(picture, "drawn", lambda plot, name, title: (b"<svg/>", "<svg></svg>"))
    monkeypatch.setattr(picture, "rendered", lambda plot, form: b"")


def test_disturbed_runs_are_counted_in_the_table_of_runs(tmp_path, quick):
    results = [synthetic_folder.result(0.2, cpu_seconds=s, threads=1) for s in (1.0, 2.0)]
    runs = [
        run(repeat=i, result=each, first_cpu_share=first)
        for i, (each, first) in enumerate(zip(results, (None, 0.6), strict=True))
    ]
    out = write_report(tmp_path, runs)
    (row,) = pd.read_csv(out / "tables" / "runs.csv").to_dict("records")
    assert (row["timing runs"], row["disturbed"], row["measured again"]) == (2, 1, 1)


@pytest.mark.slow
def test_the_table_of_runs_has_the_programs_of_the_timings(tmp_path, quick):
    profiled = synthetic_folder.paper_profile("autoenc")
    timed = [run(repeat=n, result=synthetic_folder.result(microbatches=n)) for n in (1, 2)]
    out = write_report(tmp_path, [*timed, run(profile=profiled)])
    (row,) = pd.read_csv(out / "tables" / "runs.csv").to_dict("records")
    assert row["program"] == "op by op / op by op, 2 microbatches"


class Page(HTMLParser):
    """Checks that tags are closed in order and ids unique; collects texts, links and tags."""

    VOID = ("meta", "br")

    def __init__(self, html):
        super().__init__()
        self.open, self.text, self.links, self.ids, self.tags = [], "", [], set(), Counter()
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags[tag] += 1
        self.links += [attributes["href"]] if tag == "a" else []
        assert not attributes.get("id") or attributes["id"] not in self.ids
        self.ids.add(attributes.get("id"))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data if self.open[-1:] not in (["style"], ["script"]) else ""


def page(out):
    return Page((out / "report.html").read_text())


def test_the_page_needs_nothing_from_elsewhere(small_report):
    shown = page(small_report)
    assert shown.tags["svg"] > 15
    assert not shown.tags.keys() & {"img", "image", "link", "iframe"}
    html = (small_report / "report.html").read_text()
    assert not re.search(r'(src|href)="(https?:|//)|@import|url\((?!#)', html)


def test_every_figure_has_its_place_on_the_page_in_order(small_report):
    titles = [f"{each.id}: {each.title}" for each in figures.find_all()]
    assert len(titles) == 27
    text = page(small_report).text
    assert sorted(titles, key=text.index) == titles
    questions = [text.rindex(each) for each in QUESTIONS]
    assert sorted(questions) == questions


@pytest.mark.usefixtures("quick")
def test_a_new_figure_is_one_new_file(tmp_path, monkeypatch):
    (tmp_path / "x_new.py").write_text(
        "import pandas as pd\n"
        "from fathom.measure.report.figure import Figure, Findings\n"
        "def analyse(folder):\n"
        "    seconds = folder.ops().groupby('type').seconds.sum()\n"
        "    return Findings('It found this.', object(), seconds.reset_index())\n"
        "FIGURE = Figure('X-new', 99, 'A new figure', 'How.', analyse, 'none.')\n"
    )
    monkeypatch.setattr(figures, "__path__", [*figures.__path__, str(tmp_path)])
    out = write_report(tmp_path, [run("vgg", profile=profile([op("Add", [1.0, 2.0])], "vgg"))])
    monkeypatch.delitem(sys.modules, f"{figures.__name__}.x_new")
    text = page(out).text
    assert text.index("X-new: A new figure") > text.index("cost: ")
    assert "It found this." in text
    assert (out / "figures" / "x_new.csv").read_text() == "type,seconds\nAdd,3\n"


@pytest.mark.usefixtures("quick")
def test_a_ninth_workload_that_was_not_measured_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(workloads, "EIGHT", (*workloads.EIGHT, "transformer"))
    selection.order.cache_clear()
    text = page(write_report(tmp_path, [run("vgg")])).text
    selection.order.cache_clear()
    assert "residual, alexnet, deepq, transformer: not measured" in text


def test_every_link_leads_somewhere(small_report):
    html = (small_report / "report.html").read_text()
    for link in page(small_report).links:
        if link.startswith("data:"):
            export = base64.b64decode(link.partition(",")[2])
            assert export == (small_report / "report.json").read_bytes()
        elif link.startswith("#"):
            assert f'id="{link[1:]}"' in html
        else:
            assert (small_report / link).stat().st_size


def test_every_figure_comes_as_png_and_svg_with_its_csv(small_report):
    stems = {path.stem for path in (small_report / "figures").iterdir()}
    every = {each.stem for each in figures.find_all()}
    # Those of workloads besides the eight, and of files that other commands write: none is here.
    assert (
        every - {"accesses", "today", "formats", "m_quality", "m_scale", "m_serve", "nearest"}
        == stems
    )
    assert every == {module.name for module in pkgutil.iter_modules(figures.__path__)}
    for stem in stems:
        assert (small_report / "figures" / f"{stem}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (small_report / "figures" / f"{stem}.svg").read_text()
        header, *rows = (small_report / "figures" / f"{stem}.csv").read_text().splitlines()
        assert rows
        assert "," in header


def test_the_first_screen_has_a_row_for_each_workload(small_report):
    html = (small_report / "report.html").read_text()
    assert html.index('class="overview"') < html.index("<nav")
    rows = (small_report / "tables" / "overview.csv").read_text().splitlines()
    assert [row.partition(",")[0] for row in rows] == ["workload", "memnet", "vgg"]


def test_every_picture_says_what_it_shows(small_report):
    html = (small_report / "report.html").read_text()
    labels = re.findall(r'<svg role="img" aria-label="([^"]*)"', html)
    assert len(labels) == html.count("<svg")
    assert all(":" in label or ". " in label for label in labels)


def test_what_was_not_measured_is_named(small_report):
    text = page(small_report).text
    assert "seq2seq, speech, autoenc, residual, alexnet, deepq: not measured" in text
    assert "GPU: no runs on one in this folder" in text
    assert "no profile was taken on a GPU" in text
    assert "Nothing was measured on a GPU: the figures are the paper's." in text
    assert ",0.4298," in (small_report / "figures" / "m_gpu.csv").read_text()


def test_the_machine_is_described(small_report):
    assert "Test CPU" in page(small_report).text
    machine = (small_report / "tables" / "machine.csv").read_text()
    assert "large matrix product on 4 threads,400.0 GFLOP/s" in machine
    assert "memory,8.0 GiB" in machine


@pytest.mark.slow
def test_written_twice_a_report_is_the_same(small_report, tmp_path, monkeypatch):
    render = picture.rendered
    monkeypatch.setattr(
        picture, "rendered", lambda plot, form: render(plot, form) if form == "svg" else b""
    )
    again = write_report(tmp_path, suite(["memnet", "vgg"]))
    files = sorted(path.relative_to(again) for path in again.rglob("*.*"))
    assert files == sorted(path.relative_to(small_report) for path in small_report.rglob("*.*"))
    for name in files:
        if name.suffix != ".png":  # the same drawing, which takes as long again
            assert (again / name).read_bytes() == (small_report / name).read_bytes()


@pytest.mark.usefixtures("quick")
def test_one_timing_run_makes_a_report_with_gaps(tmp_path):
    out = write_report(tmp_path, [run("deepq")])
    text = page(out).text
    assert "at least two workloads are needed" in text
    assert "runs on one core and on more are needed" in text
    assert "deepq infer on the CPU: not measured" in text
    stems = {path.stem for path in (out / "figures").iterdir()}
    assert stems == {"runs", "f5", "m_sections", "m_gpu", "cost", "memory"}


@pytest.mark.usefixtures("quick")
def test_a_failed_run_is_named_with_its_reason(tmp_path):
    reason = "out of memory <here>"
    failed = [run(name, status="failed", reason=reason) for name in ("vgg", "speech")]
    out = write_report(tmp_path, [run("deepq"), *failed])
    text = page(out).text
    assert f"vgg train: failed ({reason})" in text
    assert "<here>" not in (out / "report.html").read_text()
    assert "speech" in (out / "tables" / "failed.csv").read_text()


@pytest.mark.usefixtures("quick")
def test_runs_that_all_failed_make_a_report_of_published_figures_alone(tmp_path):
    out = write_report(tmp_path, [run(status="failed", reason="no such data")])
    assert {path.stem for path in (out / "figures").iterdir()} == {"m_gpu"}
    assert "autoenc train: failed (no such data)" in page(out).text


@pytest.mark.usefixtures("quick")
def test_what_an_earlier_report_drew_does_not_outlive_its_data(tmp_path):
    out = write_report(tmp_path, [run("deepq", profile=paper_profile("deepq"))])
    stale = [out / "figures" / "f1.png", out / "tables" / "f3_classes.csv"]
    assert all(path.exists() for path in stale)
    foreign = out / "figures" / "f1_mine.png"
    foreign.write_text("mine")
    write_report(tmp_path, [run("deepq")])
    assert not any(path.exists() for path in stale)
    assert foreign.exists()


@pytest.mark.usefixtures("quick")
def test_a_table_whose_name_has_a_space_or_a_hyphen_does_not_outlive_its_data(tmp_path):
    out = write_report(tmp_path, [run("deepq")])
    stale = [out / "tables" / name for name in ("accesses_a b.csv", "f3_differences_x-y.csv")]
    earlier = (out / "report.html").read_text()
    for file in stale:
        file.write_text("")
        earlier += page_of_report.links([f"tables/{file.name}"])
    (out / "report.html").write_text(earlier)
    write_report(tmp_path, [run("deepq")])
    assert not any(file.exists() for file in stale)


@pytest.mark.usefixtures("quick")
def test_a_failed_run_is_named_also_where_others_of_its_workload_are_done(tmp_path):
    failed = {"status": "failed", "reason": "killed"}
    runs = [run("vgg"), run("vgg", id="infer", mode="infer", **failed)]
    runs += [run("vgg", id="one", profile=paper_profile("vgg"), threads=1)]
    runs += [run("vgg", id="two", kind="profile", purpose=("threads",), threads=2, **failed)]
    text = page(write_report(tmp_path, runs)).text
    assert "vgg infer: failed (killed)" in text
    assert "vgg infer on the CPU: not measured" not in text
    assert "vgg train, 2 threads: failed (killed)" in text


@pytest.mark.usefixtures("quick")
@pytest.mark.slow
def test_what_was_measured_too_little_is_not_called_unmeasured(tmp_path):
    runs = [run("vgg", ("modes", "cores"), cores=1), run("vgg", profile=paper_profile("vgg"))]
    text = page(write_report(tmp_path, runs)).text
    assert "vgg: not timed on one core and on more" in text
    assert "vgg: profiled with a single number of threads" in text


@pytest.mark.usefixtures("quick")
def test_a_profile_of_a_step_that_is_compiled_otherwise_says_so(tmp_path):
    compiled = paper_profile("memnet", compiled_step_seconds=np.array([0.0004]))
    text = page(write_report(tmp_path, [run("memnet", profile=compiled)])).text
    assert text.count("memnet runs a step that XLA compiles whole: 0.40 ms") == 2


@pytest.mark.usefixtures("quick")
def test_an_op_type_without_a_class_is_listed_at_the_end(tmp_path):
    ops = [op("MatMul", [3.0] * 5), op("StrangeOp", [1.0] * 5)]
    out = write_report(tmp_path, [run(profile=profile(ops))])
    assert "StrangeOp,0.25," in (out / "tables" / "op_types_without_a_class.csv").read_text()
    text = page(out).text
    assert text.rindex("StrangeOp") > text.rindex("Op types without a class")


@pytest.mark.usefixtures("quick")
def test_the_command_says_where_the_report_is_and_what_is_missing(tmp_path, capsys):
    folder = synthetic_folder.write(tmp_path / "folder", [run("deepq")])
    report.run(folder, folder / "report", Console(width=300))
    shown = capsys.readouterr().out
    assert "F1: nothing to show" in shown
    assert f"written to {folder / 'report'}" in shown
    assert (folder / "report" / "report.html").exists()


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(FathomError, match=r"machine\.json"):
        report.run(tmp_path, tmp_path / "report", mock.Mock())


def test_a_result_of_another_schema_is_refused(tmp_path):
    folder = synthetic_folder.write(tmp_path, [run("vgg")])
    (path,) = (folder / "runs").iterdir()
    document = json.loads(path.read_text())
    document["result"]["schema"] = 99
    path.write_text(json.dumps(document))
    with pytest.raises(FathomError, match=r"a newer schema \(result.schema is 99, not 1\)"):
        report.write(Folder.read(folder), tmp_path / "report")


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FathomError, match="cannot write to"):
        write_report(tmp_path / "file", [run("vgg")])


@pytest.mark.slow
def test_one_file_has_all_words_and_numbers(small_report):
    def refused(constant):
        raise AssertionError(f"{constant} is no JSON")

    export = json.loads((small_report / "report.json").read_text(), parse_constant=refused)
    assert list(export["figures"]) == [each.id for each in figures.find_all()]
    f5 = export["figures"]["F5"]
    assert f5["summary"] in page(small_report).text
    assert f5["data"][0]["median step (s)"] == pytest.approx(0.3)
    assert f5["data"][2]["median step (s)"] is None  # on the GPU
    for each in export["figures"].values():
        assert each["summary"].endswith(".") or not each["data"]
        for caption in each["tables"]:
            assert caption.replace("_", " ") in page(small_report).text


def test_the_table_of_the_machine_has_no_thread_pools_of_the_probe_and_marks_its_ceilings(
    tmp_path, quick
):
    shares = {"gemm_cpu_share": {"1": 0.99, "2": 0.4}, "triad_cpu_share": {"1": 0.5}}
    machine = synthetic_folder.MACHINE.model_copy(update=shares)
    report.write(synthetic_folder.folder([run()], machine), tmp_path)
    rows = pd.read_csv(tmp_path / "tables" / "machine.csv", index_col=0).value
    assert not {"threads", "intra_op_threads", "inter_op_threads"} & set(rows.index)
    assert rows["large matrix product on 1 thread"] == "100.0 GFLOP/s"
    assert "other processes left 40% of the processor" in rows["large matrix product on 2 threads"]
    assert rows["memory bandwidth (triad) on 1 thread"] == (
        "10.0 GB/s; no ceiling: other processes left 50% of the processor"
    )
    assert rows["memory bandwidth (triad) on 2 threads"] == "20.0 GB/s"
