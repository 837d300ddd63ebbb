"""Stand-ins for the libraries of trackers, which write files and a database as those do: where they are not installed."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any


class OfflineRun:
    """As `wandb.Run`, offline: a file of lines, which a run of the same id goes on with."""

    def __init__(self, **settings: Any) -> None:
        folder = Path(settings["dir"], "wandb")
        folder.mkdir(exist_ok=True)
        self._file, self._settings = folder / f"offline-{settings['id']}.jsonl", settings
        self.summary: dict[str, Any] = {}
        self._write("config", settings["config"])

    def _write(self, *words: Any) -> None:
        with self._file.open("a") as file:
            file.write(json.dumps(words) + "\n")

    def log(self, data: Mapping[str, float], step: int) -> None:
        self._write("log", step, data)

    def finish(self, exit_code: int) -> None:
        self._write("finish", exit_code, self.summary)


TABLES = """
create table if not exists experiments (id integer primary key, name text unique, place text);
create table if not exists runs (id integer primary key, experiment text, name text, status text, identity text unique);
create table if not exists params (run text, name text, value text, primary key (run, name));
create table if not exists metrics (run text, name text, value real, time integer, step integer);
"""


class MlflowClient:
    """As `mlflow.MlflowClient` with a database of SQLite."""

    def __init__(self, tracking_uri: str) -> None:
        self._file = tracking_uri.removeprefix("sqlite:///")

    def _do(self, text: str, *values: Any) -> list[Any]:
        with closing(sqlite3.connect(self._file)) as base, base:
            base.executescript(TABLES)
            return base.execute(text, values).fetchall()

    def get_experiment_by_name(self, name: str) -> Any:
        rows = self._do("select id from experiments where name = ?", name)
        return SimpleNamespace(experiment_id=str(rows[0][0])) if rows else None

    def create_experiment(self, name: str, artifact_location: str) -> str:
        sql = "insert into experiments (name, place) values (?, ?) returning id"
        return str(self._do(sql, name, artifact_location)[0][0])

    def search_runs(self, experiments: list[str], filter_string: str, max_results: int) -> list[Any]:
        identity = filter_string.split("'")[1]
        sql = "select id from runs where experiment = ? and identity = ? limit ?"
        rows = self._do(sql, experiments[0], identity, max_results)
        return [SimpleNamespace(info=SimpleNamespace(run_id=str(row[0]))) for row in rows]

    def create_run(self, experiment: str, tags: Mapping[str, str], run_name: str) -> Any:
        sql = (
            "insert or replace into runs (experiment, name, status, identity) values (?, ?, 'RUNNING', ?) returning id"
        )
        (row,) = self._do(sql, experiment, run_name, tags["identity"])
        return SimpleNamespace(info=SimpleNamespace(run_id=str(row[0])))

    def update_run(self, run: str, status: str) -> None:
        self._do("update runs set status = ? where id = ?", status, run)

    set_terminated = update_run

    def log_param(self, run: str, name: str, value: str) -> None:
        self._do("insert into params values (?, ?, ?)", run, name, value)

    def log_metric(self, run: str, name: str, value: float, timestamp: int = 0, step: int = 0) -> None:
        self._do("insert into metrics values (?, ?, ?, ?, ?)", run, name, value, timestamp, step)


def stand_in() -> None:
    """Put a stand-in where a library is not installed."""
    parts: dict[str, dict[str, Any]] = {
        "wandb": {"init": OfflineRun, "Settings": SimpleNamespace},
        "mlflow": {"MlflowClient": MlflowClient},
    }
    for name, content in parts.items():
        if find_spec(name) is None:
            sys.modules[name] = ModuleType(name)
            vars(sys.modules[name]).update(content)
