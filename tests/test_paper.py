"""The paper has the form that the Journal of Open Source Software asks for."""

import re
from pathlib import Path

import yaml

PAPER = Path(__file__).parents[1] / "paper"
HEADER, TEXT = (PAPER / "paper.md").read_text().removeprefix("---\n").split("\n---\n")


def test_the_header_is_complete():
    header = yaml.safe_load(HEADER)
    assert {"title", "tags", "authors", "affiliations", "date", "bibliography"} <= header.keys()
    indices = {affiliation["index"] for affiliation in header["affiliations"]}
    assert {author["affiliation"] for author in header["authors"]} <= indices


def test_it_has_250_to_1000_words_and_a_statement_of_need():
    assert 250 <= len(TEXT.split()) <= 1000
    assert {"# Summary", "# Statement of need", "# References"} <= {*TEXT.splitlines()}


def test_each_citation_has_an_entry_and_each_entry_is_cited():
    cited = re.findall(r"(?<=[\[ -])@(\w+)", TEXT)
    entries = re.findall(r"^@\w+\{(\w+),", (PAPER / "paper.bib").read_text(), re.MULTILINE)
    assert len(set(entries)) == len(entries)
    assert {*cited} == {*entries}


def test_its_figures_are_there():
    figures = re.findall(r"!\[.*\]\((.*?)\)", TEXT)
    assert figures
    assert all((PAPER / figure).is_file() for figure in figures)
