"""Results in Python: the report's folder, its page and its figures."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.finished import fill, study
from support.html_reader import Reader

import headstart
from headstart.errors import BadInput
from headstart.study.results.results import Results


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    bound = headstart.Study(study(), store=tmp_path_factory.mktemp("views") / "runs")
    fill(bound.plan, bound.store)
    return bound.results()


def test_a_report_is_written_to_a_folder_and_again_over_itself(results: Results, tmp_path: Path) -> None:
    for _ in range(2):
        page = results.write(tmp_path / "report")
    assert page == tmp_path / "report" / "page.html"
    assert (tmp_path / "report" / "table.tex").is_file()


def test_a_folder_of_other_files_is_not_written_to(results: Results, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(BadInput, match="holds other files; name an empty folder"):
        results.write(tmp_path)
    with pytest.raises(BadInput, match="is a file; name a folder"):
        results.write(tmp_path / "notes.txt")


def test_the_page_is_html_that_is_whole(results: Results) -> None:
    assert results.title in Reader(results.page()).said


def test_a_figure_is_found_by_its_name_and_a_wrong_one_is_told(results: Results) -> None:
    assert results.figure("sweep").axes
    assert results.figure("sweep-digits").axes
    with pytest.raises(BadInput, match="no 'sweeb'"):
        results.figure("sweeb")
