"""One contract for every kind of model of the table; what a fitted one gives is held by tests/baselines."""

from __future__ import annotations

import pytest

from headstart.models import MODELS
from headstart.models.kind import ModelKind
from headstart.stage import WAYS
from headstart.study.language.reference import sections_named


@pytest.mark.parametrize("kind", MODELS)
def test_a_line_names_a_spec_of_its_kind_that_says_what_it_is(kind: str) -> None:
    cls = MODELS[kind].load()
    assert issubclass(cls, ModelKind)
    assert cls.model_fields["kind"].get_default() == kind
    assert cls.way in WAYS
    assert cls.__doc__
    assert MODELS[kind].summary


@pytest.mark.parametrize("kind", MODELS)
def test_every_key_of_a_model_is_described(kind: str) -> None:
    for part in sections_named(kind):
        assert all(key.text for key in part.keys)


@pytest.mark.parametrize(
    "kind", [kind for kind in MODELS if not any(f.is_required() for f in MODELS[kind].load().model_fields.values())]
)
def test_a_model_with_its_defaults_is_put_in_words(kind: str) -> None:
    model = MODELS[kind].load()()
    assert kind in MODELS
    assert model.describe()
