"""Specs refuse what they do not know, say where and what is near, and have one identity."""

import inspect
import json
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import pytest
from pydantic import Field

from headstart.errors import BadInput, nearest
from headstart.spec import (
    Entry,
    Spec,
    digest,
    kind_field,
    merge,
    neutral,
    place,
    read,
    set_path,
    spec_of_kind,
    texts_of,
)


class Animal(Spec):
    kind: str


class Cat(Animal):
    kind: Literal["cat"] = "cat"
    whiskers: int = Field(default=24, ge=0)


class Dog(Animal):
    kind: Literal["dog"] = "dog"
    weight: float = 12.5
    tricks: tuple[str, ...] = ()
    version: ClassVar[int] = 2


PETS = {"cat": Entry(f"{__name__}:Cat", "purrs"), "dog": Entry(f"{__name__}:Dog", "barks")}


class House(Spec):
    pet: kind_field(Animal, PETS)
    rooms: int = 3
    garden: bool = False
    name: str | None = None


class LargerHouse(House):
    pool: int = neutral(0, ge=0)


class SmallerHouse(House):
    former: ClassVar[Mapping[str, Any]] = {"cellar": 2}


class HouseWithCellar(House):
    cellar: int = 2


class PlacedHouse(House):
    address: str = place()
    second: str | None = place(None)


class Street(Spec):
    houses: tuple[PlacedHouse, ...]


def why(value, cls=House, where="house"):
    with pytest.raises(BadInput) as caught:
        read(cls, value, where)
    return str(caught.value)


CAT = {"kind": "cat"}


def test_a_table_becomes_a_spec_with_its_defaults():
    house = read(House, {"pet": {"kind": "dog", "weight": 3}, "rooms": 5})
    assert house.pet == Dog(weight=3.0)
    assert (house.rooms, house.garden) == (5, False)


def test_a_misspelt_key_is_refused_with_the_nearest():
    assert why({"pet": CAT, "roms": 4}) == "house.roms: no 'roms'; did you mean 'rooms'?"
    assert why({"pet": {"kind": "cat", "wiskers": 4}}) == ("house.pet.wiskers: no 'wiskers'; did you mean 'whiskers'?")


def test_a_key_far_from_all_gets_the_list():
    assert why({"pet": CAT, "zzz": 4}) == "house.zzz: no 'zzz'; there are: garden, name, pet, rooms"


def test_a_misspelt_kind_is_refused_with_the_nearest():
    assert why({"pet": {"kind": "catt"}}) == "house.pet.kind: no 'catt'; did you mean 'cat'?"
    assert "house.pet: no 'kind' given; there are: cat, dog" in why({"pet": {}})
    assert "house.pet: 'cat' is not a table with a 'kind'" in why({"pet": "cat"})


def test_nothing_is_converted_silently():
    for wrong in ("4", 4.5, True, None):
        assert why({"pet": CAT, "rooms": wrong}).startswith(f"house.rooms: {wrong!r} should be")
    assert why({"pet": CAT, "garden": 1}).startswith("house.garden: 1 should be")
    assert why({"pet": {"kind": "dog", "weight": float("nan")}}).startswith("house.pet.weight: nan should be")


def test_a_number_out_of_range_is_refused_with_the_range():
    assert why({"pet": {"kind": "cat", "whiskers": -1}}) == (
        "house.pet.whiskers: -1 should be greater than or equal to 0"
    )


def test_what_is_missing_is_named():
    assert why({}) == "house.pet: is missing"


def test_all_mistakes_are_told_at_once():
    lines = why({"pet": {"kind": "cat", "whiskers": -1}, "rooms": "x"}).splitlines()
    assert [line.split(":")[0] for line in lines] == ["house.pet.whiskers", "house.rooms"]


def test_a_spec_cannot_be_changed():
    house = read(House, {"pet": CAT})
    with pytest.raises(ValueError, match="frozen"):
        house.rooms = 4


def test_a_spec_survives_its_json():
    house = read(House, {"pet": {"kind": "dog", "weight": 3.25}, "name": "x"})
    assert read(House, house.model_dump()) == house
    again = json.loads(json.dumps(house.model_dump(mode="json")))
    assert again["pet"] == {"kind": "dog", "weight": 3.25, "tricks": []}


def test_a_list_of_toml_or_json_is_read_where_a_tuple_stands():
    dog = {"kind": "dog", "tricks": ["sit", "roll"]}
    assert read(House, {"pet": dog}).pet.tricks == ("sit", "roll")
    assert why({"pet": {"kind": "dog", "tricks": ["sit", 3]}}).startswith("house.pet.tricks[1]: 3 should be")


def test_a_spec_passes_where_a_table_is_expected():
    assert read(House, {"pet": Dog()}).pet == Dog()
    assert spec_of_kind(PETS, Cat()) == Cat()


def test_the_document_writes_defaults_out_and_tags_kind_and_version():
    assert read(House, {"pet": {"kind": "dog"}}).document() == {
        "version": 1,
        "pet": {"version": 2, "kind": "dog", "weight": 12.5, "tricks": []},
        "rooms": 3,
        "garden": False,
        "name": None,
    }


def test_a_neutral_field_is_left_out_while_it_is_neutral():
    old, new = read(House, {"pet": CAT}), read(LargerHouse, {"pet": CAT})
    assert digest(old.document()) == digest(new.document())
    assert digest(read(LargerHouse, {"pet": CAT, "pool": 1}).document()) != digest(old.document())


def test_a_field_that_went_leaves_identities_as_they_were_and_is_read_at_the_value_that_it_had():
    before, after = read(HouseWithCellar, {"pet": CAT}), read(SmallerHouse, {"pet": CAT})
    assert digest(before.document()) == digest(after.document())
    assert read(SmallerHouse, {"pet": CAT, "cellar": 2}) == after
    assert "cellar" in why({"pet": CAT, "cellar": 3}, SmallerHouse)


def test_a_place_is_stored_and_told_apart_by_but_enters_no_identity():
    here, there = (read(PlacedHouse, {"pet": CAT, "address": at}) for at in ("here", "there"))
    assert here != there
    assert here.document() != there.document()
    assert here.document(places=False) == there.document(places=False) == read(House, {"pet": CAT}).document()
    street = read(Street, {"houses": [here, there]})
    assert [set(house) & {"address", "second"} for house in street.document(places=False)["houses"]] == [set(), set()]
    assert read(PlacedHouse, here.model_dump(mode="json")) == here
    assert why({"pet": CAT}, PlacedHouse) == "house.address: is missing"


def test_the_digest_does_not_depend_on_order():
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1})
    assert digest({"b": [2, 1]}) != digest({"b": [1, 2]})
    assert digest({"a": 1, "b": 2.5}) == "85f690f66555cf39"  # frozen: identities hang on it


def test_a_digest_refuses_what_json_cannot_say():
    with pytest.raises(ValueError, match="JSON"):
        digest({"a": float("nan")})


def test_a_difference_of_any_field_is_a_difference_of_identity():
    base = {"pet": {"kind": "dog"}}
    others = [
        {"pet": {"kind": "cat"}},
        {"pet": {"kind": "dog", "weight": 1.0}},
        {**base, "rooms": 1},
        {**base, "garden": True},
        {**base, "name": ""},
    ]
    ids = {digest(read(House, value).document()) for value in [base, *others]}
    assert len(ids) == len(others) + 1


def test_later_tables_win_and_others_stay():
    assert merge({"a": {"x": 1, "y": 2}, "b": 1}, {"a": {"y": 3}}, {"c": 4}) == {"a": {"x": 1, "y": 3}, "b": 1, "c": 4}


def test_a_table_of_another_kind_replaces_the_earlier_one_whole():
    old = {"mixer": {"kind": "attention", "heads": 4}}
    assert merge(old, {"mixer": {"kind": "lstm"}}) == {"mixer": {"kind": "lstm"}}
    assert merge(old, {"mixer": {"kind": "attention", "theta": 1}}) == {
        "mixer": {"kind": "attention", "heads": 4, "theta": 1}
    }
    assert merge(old, {"mixer": {"heads": 2}}) == {"mixer": {"kind": "attention", "heads": 2}}


def test_merging_changes_none_of_its_tables():
    first, second = {"a": {"x": 1}}, {"a": {"y": 2}}
    merge(first, second)["a"]["x"] = 9
    assert (first, second) == ({"a": {"x": 1}}, {"a": {"y": 2}})


def test_a_path_makes_the_tables_on_its_way():
    table = {"model": {"mixer": {"kind": "attention", "heads": 4}}}
    set_path(table, ["model", "mixer", "heads"], 8)
    set_path(table, ["optim", "lr"], 0.1)
    set_path(table, ["model", "mixer"], {"theta": 2})
    assert table == {"model": {"mixer": {"kind": "attention", "heads": 8, "theta": 2}}, "optim": {"lr": 0.1}}


def test_the_nearest_name_is_offered_or_all_of_them():
    assert nearest("atention", ["attention", "lstm"]) == "no 'atention'; did you mean 'attention'?"
    assert nearest("zzz", ["b", "a"]) == "no 'zzz'; there are: a, b"
    assert nearest("zzz", []) == "no 'zzz'; there are: none"
    columns = ["t", *(f"t{i}" for i in range(80)), "id", "x1", "x2"]
    assert nearest("label", columns) == "no 'label'; there are: id, t, t0 to t79, x1, x2"
    many, listed = [f"study-{number}" for number in range(100)], "`headstart ls studies` lists them"
    assert nearest("zzz", many, listed) == "no 'zzz' among 100 names; `headstart ls studies` lists them"
    assert nearest("studi-7", many, listed) == "no 'studi-7'; did you mean 'study-7'?"
    assert nearest("zzz", many[:2], listed) == "no 'zzz'; there are: study-0, study-1"


def test_what_fields_do_is_read_from_the_source_only_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes are made at each start, and their source is parsed for a person who reads what a key does."""
    parsed: list[Any] = []
    source = inspect.getsource
    monkeypatch.setattr(inspect, "getsource", lambda item: (parsed.append(item), source(item))[1])

    class First(Spec):
        rate: float = 1.0
        """How fast."""
        size: int = 2

    class Second(First):
        rate: float = 2.0
        width: int = 3
        """How
        wide."""

    assert not parsed
    assert texts_of(First) == {"rate": "How fast."}
    assert texts_of(Second) == {"width": "How\nwide."}, "a field that is declared again says itself what it does"
    properties = Second.model_json_schema()["properties"]
    assert (properties["width"]["description"], "description" in properties["size"]) == ("How\nwide.", False)
    assert parsed == [First, Second]
    assert not Spec.model_config.get("use_attribute_docstrings")
