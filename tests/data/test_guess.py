"""What a table's columns mean: wide, text, list and long tables; guessed, said, set, and fixed for other files."""

import json

import numpy as np
import pandas as pd
import pytest
from support.made_tables import numbers, read, why, wide, write

from headstart.data import LayoutSpec, read_sequences
from headstart.data.layout import TARGET, matching, numbered


def long(count=6, length=5, order=1, extra=""):
    """Lines of a long table: id, time, x, y, label."""
    rows = [
        f"s{i},{t},{i + t / 10},{t},{'ab'[i % 2]}{extra and ',' + extra}" for i in range(count) for t in range(length)
    ]
    return [f"id,time,x,z,label{',patient' if extra else ''}", *rows[::order]]


def json_lines(path, rows):
    return write(path, "\n".join(json.dumps(row) for row in rows))


def test_a_wide_table_is_read_in_the_order_of_its_numbers(tmp_path):
    result = read(write(tmp_path / "f.csv", "t2,label,t10,t1,id\n3,a,4,1.5,x\n6,b,7,5.5,y\n6,a,7,5.5,z\n6,b,7,5.5,w\n"))
    assert result.values.reshape(4, 3)[:2].tolist() == [[1.5, 3, 4], [5.5, 6, 7]]
    assert result.layout.channels[0].columns == ("t1", "t2", "t10")
    assert (result.layout.shape, result.layout.target, result.layout.id) == ("wide", "label", "id")


def test_what_was_guessed_is_said_in_one_sentence(tmp_path):
    result = read(write(tmp_path / "f.csv", "\n".join(wide())))
    assert result.layout.sentence.replace(f"{tmp_path}/", "") == (
        "f.csv: comma-separated with a header; a row per sequence, in the 6 columns 't0' to 't5'; target 'label', ids "
        "'id'; guessed; set with --layout, --target, --id."
    )


def test_what_is_set_is_not_called_a_guess(tmp_path):
    path = write(tmp_path / "f.csv", "\n".join(wide()))
    result = read(path, shape="wide", target="label", id="", values=("t*",))
    assert result.layout.guessed == ()
    assert "guessed" not in result.layout.sentence
    assert "not used: 'id'" in result.layout.sentence
    assert result.ids is None


def test_runs_of_equal_length_are_channels(tmp_path):
    path = write(
        tmp_path / "f.csv", "label,x_0,x_1,x_2,y_0,y_1,y_2\n" + "a,1,2,3.5,4,5,6\n" * 3 + "b,1,2,3.5,4,5,6\n" * 3
    )
    result = read(path)
    assert result.channels == ("x", "y")
    assert result.values[:3].tolist() == [[1, 4], [2, 5], [3.5, 6]]
    assert read(path, values=("y_*",)).values[:3, 0].tolist() == [4, 5, 6]


def test_names_with_two_numbers_run_along_the_longer_way():
    names = [f"t{t}_ch{c}" for t in range(5) for c in range(2)]
    assert list(numbered(names)) == ["t*_ch0", "t*_ch1"]
    assert matching("t*_ch1", names) == [f"t{t}_ch1" for t in range(5)]
    assert numbered(["0.0", "0.1", "0.2"]) == {}


def test_times_in_names_of_columns_are_one_number_each(tmp_path):
    for form in ("{c}@{t:.2f}s", "{c} (t={t:.2f})", "{c}_{t:.2f}", "{t:.2f}s {c}"):
        names = [form.format(c=c, t=t / 50) for c in "xy" for t in range(40, 60)]
        assert [len(run) for run in numbered(names).values()] == [20, 20]
        rows = [",".join([f"r{i}", "ab"[i % 2], *map(str, row)]) for i, row in enumerate(numbers(6, 40))]
        result = read(write(tmp_path / "f.csv", "\n".join([",".join(["id", "state", *names]), *rows])))
        assert (len(result.channels), result.lengths.tolist()) == (2, [20] * 6)
        again = read_sequences(tmp_path / "f.csv", result.layout.fixed())
        assert np.array_equal(again.values, result.values)
    assert [len(run) for run in numbered([f"x@{t / 30:.3f}s" for t in range(25, 40)]).values()] == [15]
    two = [f"ch{c}.{t}" for c in (1, 2) for t in range(10)]
    assert list(numbered(two)) == ["ch1.*", "ch2.*"]
    assert not numbered([f"x@{t}.{'9' * 5000}s" for t in range(5)])
    assert list(numbered([f"acc.{c}.{t:03}" for c in "xy" for t in range(5)])) == ["acc.x.*", "acc.y.*"]


def test_columns_of_numbers_without_a_run_are_the_sequence_in_their_order(tmp_path):
    head = "sample,1200.5,1201.7,1202.1,grade\n"
    result = read(write(tmp_path / "f.csv", head + "".join(f"s{i},{i}.5,2,3,{'xy'[i % 2]}\n" for i in range(8))))
    assert result.values[:3, 0].tolist() == [0.5, 2, 3]
    assert (result.layout.target, result.layout.id) == ("grade", "sample")


def test_a_few_whole_numbers_beside_the_run_are_the_target(tmp_path):
    lines = ["stage," + ",".join(f"t{i}" for i in range(5))]
    lines += [f"{i % 3}," + ",".join(map(str, row)) for i, row in enumerate(numbers(30, 5))]
    result = read(write(tmp_path / "f.csv", "\n".join(lines)))
    assert (result.layout.target, result.classes) == ("stage", ("0", "1", "2"))


def test_a_number_of_each_row_before_the_run_hides_no_target_behind_it(tmp_path):
    lines = [",0,1,2,3,state", *(f"{i},{i}.5,{-i}.25,1.5,{i / 3:.2f},{i % 2}" for i in range(24))]
    result = read(write(tmp_path / "f.csv", "\n".join(lines)))
    assert (result.layout.target, result.layout.id, len(result.layout.channels[0].columns)) == ("state", "column 1", 4)


def test_few_whole_numbers_beside_a_column_of_lists_are_the_target(tmp_path):
    rows = [{"x": [i + 0.5, 2.5, -i], "state": [0.0, 1.0, None][i % 3]} for i in range(24)]
    result = read(json_lines(tmp_path / "f.jsonl", rows))
    assert (result.layout.target, result.classes, result.labelled.sum()) == ("state", ("0", "1"), 16)
    numbered = [{**row, "age": 20 + i % 5} for i, row in enumerate(rows)]
    assert read(json_lines(tmp_path / "g.jsonl", numbered)).layout.target is None


def test_columns_of_unlike_names_are_said_to_be_read_as_positions(tmp_path):
    rows = [f"p{i},{i % 7}.5,{i % 5}.25,{'ab'[i % 2]}" for i in range(20)]
    result = read(write(tmp_path / "f.csv", "\n".join(["name,mean,spread,label", *rows])))
    assert "'mean' to 'spread' have names that do not count up" in result.layout.doubts[0]
    for head in ("name,t0,t1,label", "name,1100.5,1102.5,label"):
        assert not read(write(tmp_path / "g.csv", "\n".join([head, *rows]))).layout.doubts


def test_columns_that_serve_nothing_are_said(tmp_path):
    lines = wide()
    lines = [f"{line},{'age' if i == 0 else i}" for i, line in enumerate(lines)]
    assert read(write(tmp_path / "f.csv", "\n".join(lines))).layout.unused == ("age",)


def test_a_text_column_is_read_as_bytes_and_the_other_is_the_target(tmp_path):
    path = write(
        tmp_path / "f.csv", "review,stars\nIt was good 😀,five\nNot so good,one\nIt was so so,five\nNo no no no,one\n"
    )
    result = read(path)
    assert (result.kind, result.width, result.layout.target) == ("text", 256, "stars")
    assert result.speak(0) == "It was good 😀"
    assert result.lengths[0] == len("It was good 😀".encode())


def test_bases_are_dna_and_capital_letters_of_amino_acids_are_proteins(tmp_path):
    rng = np.random.default_rng(0)
    rows = ["".join(rng.choice(list("ACGT"), 30)) for _ in range(8)]
    result = read(
        write(tmp_path / "f.csv", "id,seq,label\n" + "".join(f"{i},{r},{i % 2}\n" for i, r in enumerate(rows)))
    )
    assert (result.kind, result.width, result.speak(3)) == ("dna", 15, rows[3])
    rows = ["".join(rng.choice(list("ACDEFGHIKLMNPQRSTVWY"), 30)) for _ in range(8)]
    result = read(
        write(tmp_path / "g.csv", "id,seq,label\n" + "".join(f"{i},{r},{i % 2}\n" for i, r in enumerate(rows)))
    )
    assert (result.kind, result.width, result.speak(3)) == ("protein", 25, rows[3])
    assert read(tmp_path / "g.csv", kind="text").width == 256


def test_rna_is_read_as_dna_and_that_is_said(tmp_path):
    result = read(write(tmp_path / "f.csv", "id,seq\n1,ACGUACGUAC\n2,ACGTACGTAA\n"), kind="dna")
    assert result.speak(0) == "ACGTACGTAC"
    assert result.notes == ("U is read as T in 1 sequence",)


def test_small_letters_are_read_as_capital_ones_and_that_is_said(tmp_path):
    rows = [f"{'acgtACGTAC'[i % 3 :]}GTTAACCGGT,{'ab'[i % 2]}" for i in range(12)]
    result = read(write(tmp_path / "f.csv", "\n".join(["sequence,label", *rows])))
    assert result.speak(0) == "ACGTACGTACGTTAACCGGT"
    assert "small letters are read as capital ones in 12 sequences" in result.notes


def test_a_letter_that_is_no_base_is_named(tmp_path):
    path = write(tmp_path / "f.csv", "id,seq\n1,ACGTACGTAC\n2,ACGTJCGTAA\n")
    assert why(path, kind="dna").startswith("f.csv:3 column 'seq': letter 5 is 'J', no base")


def test_lists_in_cells_are_sequences_however_they_are_written(tmp_path):
    for cell in ('"[1.5, 2, 3]"', "1.5 2 3", "1.5;2;3", "[1.5 2.  3. ]"):
        path = write(tmp_path / "f.csv", "id,signal,label\n" + "".join(f"{i},{cell},{'ab'[i % 2]}\n" for i in range(6)))
        result = read(path)
        assert result.layout.shape == "list"
        assert result.values[:3, 0].tolist() == [1.5, 2, 3]


def test_a_list_that_its_writer_shortened_is_named(tmp_path):
    path = write(tmp_path / "f.csv", 'id,signal\n1,"[1.5, 2, 3]"\n2,"[1.5, 2, ..., 3]"\n')
    assert why(path, shape="list", values=("signal",)) == (
        "f.csv:3 column 'signal': '...' is not a number (whoever wrote the file shortened the list; write it whole)"
    )


def test_json_lines_hold_lists_channels_and_gaps(tmp_path):
    rows = [{"id": i, "x": [1.5, None, 2, i], "y": [0, 1], "label": "ab"[i % 2] if i else None} for i in range(6)]
    result = read(json_lines(tmp_path / "f.jsonl", rows))
    assert result.channels == ("x", "y")
    assert result.labels[:3] == (None, "b", "a")
    assert result.observed[:4].tolist() == [[True, True], [False, True], [True, False], [True, False]]
    assert result.values[1].tolist() == [0, 1]
    assert result.notes == ("in 6 rows a channel is shorter than the others, and missing from its end on",)


def test_nested_lists_are_positions_of_channels(tmp_path):
    result = read(json_lines(tmp_path / "f.jsonl", [{"x": [[1, 2.5], [3, 4], [5, 6]][: 2 + i % 2]} for i in range(4)]))
    assert result.channels == ("channel 1", "channel 2")
    assert result.lengths.tolist() == [2, 3, 2, 3]
    assert result.values[1].tolist() == [3, 4]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"x": [{"t": 1, "v": 2}]}', "f.jsonl: 'x' holds objects in some rows, and values in others; write all alike"),
        ('{"x": [1, [2]]}', "f.jsonl:2 column 'x': is not a list of numbers or of rows of equal length"),
        ('{"x": [1, 2', "f.jsonl:2: is not JSON (Expecting ',' delimiter"),
        ("[1, 2]", "f.jsonl:2: is not a JSON object; give one such as"),
        ('{"x": [1], "x": [2]}', "f.jsonl:2: has 'x' twice; rename one"),
        ('{"x": []}', "f.jsonl:2 column 'x': the sequence is empty; leave the row out"),
        ('{"x": [1e400]}', "f.jsonl:2 column 'x': 'inf' is infinite, or beyond 3e38"),
        ('{"x": [1, "x/y"]}', "f.jsonl:2 column 'x': 'x/y' is not a number (--na x/y reads it as missing)"),
        ('{"x": [null, null]}', "f.jsonl:2: every value of the sequence is missing; leave the row out"),
        ('{"y": 1}', "f.jsonl:2 column 'x': the sequence is empty; leave the row out"),
    ],
)
def test_a_json_line_that_is_wrong_is_named(tmp_path, row, message):
    path = write(tmp_path / "f.jsonl", '{"x": [1.5, 2, 3]}\n' + row + '\n{"x": [1.5, 2, 3]}\n')
    assert why(path).startswith(message)


def test_a_long_table_is_put_in_the_order_of_its_time(tmp_path):
    for order in (1, -1):
        result = read(write(tmp_path / "f.csv", "\n".join(long(order=order))))
        assert result.layout.shape == "long"
        assert result.channels == ("x", "z")
        assert sorted(result.ids) == [f"s{i}" for i in range(6)]
        row = result.ids.index("s2")
        assert result.take(np.array([row])).values[:, 0].tolist() == [np.float32(2 + t / 10) for t in range(5)]
        assert result.labels[row] == "a"
    assert result.notes == ("rows were put in the order of 'time'",)


def test_dates_order_a_long_table_and_unequal_steps_are_said(tmp_path):
    dates = ["2024-01-03", "2024-01-01", "2024-01-02 12:00:00"]
    rows = [f"v{i},{date},{k + 0.5},{'ab'[i % 2]}" for i in range(4) for k, date in enumerate(dates)]
    result = read(write(tmp_path / "f.csv", "visit,date,hr,label\n" + "\n".join(rows)))
    assert result.values[:3, 0].tolist() == [1.5, 2.5, 0.5]
    assert result.notes[1] == "steps of 'date' are unequal (43,200 to 129,600 s); only the order is used"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "s0,4,1,1,a",
            "f.csv:32 column 'time': '4' is a time that 's0' has already (f.csv:6); give one row for each time",
        ),
        ("s0,9,1,1,b", "f.csv:32 column 'label': 'b' for 's0', which has 'a' (f.csv:2); a sequence has one target"),
        (",9,1,1,a", "f.csv:32 column 'id': the id is empty, so that the row belongs to no sequence; give one"),
        ("s0,soon,1,1,a", "f.csv:32 column 'time': the time 'soon' is neither a number nor a date"),
        ("s0,,1,1,a", "f.csv:32 column 'time': the time '' is neither a number nor a date"),
        ("s0,9,oops,1,a", "f.csv:32 column 'x': 'oops' is not a number"),
    ],
)
def test_a_row_of_a_long_table_that_is_wrong_is_named(tmp_path, line, message):
    path = write(tmp_path / "f.csv", "\n".join([*long(), line]))
    assert why(path, target="label").startswith(message)


def test_a_label_may_stand_in_one_row_of_a_long_table(tmp_path):
    lines = long()
    lines = [lines[0], *(line if line.split(",")[1] == "2" else line[:-1] for line in lines[1:])]
    result = read(write(tmp_path / "f.csv", "\n".join(lines)))
    assert result.labels == ("a", "b") * 3


def test_a_channel_named_y_is_no_target_of_a_long_table(tmp_path):
    path = write(tmp_path / "f.csv", "\n".join(long()).replace("z,", "y,"))
    result = read(path)
    assert (result.layout.target, result.channels) == ("label", ("x", "y"))


def test_a_patient_with_several_visits_is_a_group(tmp_path):
    rows = [f"p{i // 2},v{i},{t},{t + i / 10},{'ab'[i % 2]}" for i in range(6) for t in range(4)]
    result = read(write(tmp_path / "f.csv", "patient,visit,time,hr,label\n" + "\n".join(rows)))
    assert result.groups == ("p0", "p0", "p1", "p1", "p2", "p2")
    assert result.ids == tuple(f"v{i}" for i in range(6))


def test_states_in_a_long_table_are_tokens(tmp_path):
    rows = [f"s{i},{t},{['sit', 'walk', 'run'][(i + t) % 3]},{'ab'[i % 2]}" for i in range(6) for t in range(5)]
    result = read(
        write(tmp_path / "f.csv", "id,time,state,label\n" + "\n".join(rows)), target="label", values=("state",)
    )
    assert (result.kind, result.layout.symbols) == ("tokens", ("run", "sit", "walk"))
    assert result.speak(0) == "sit walk run sit walk"


def test_missing_cells_are_unobserved_and_those_at_the_end_are_cut(tmp_path):
    path = write(tmp_path / "f.csv", "id,label,t0,t1,t2,t3\n1,a,1.5,,2,3\n2,b,,1,,nan\n3,a,1,2,3,4\n")
    result = read(path)
    assert result.lengths.tolist() == [4, 2, 4]
    assert result.observed[:, 0].tolist() == [True, False, True, True, False, True, True, True, True, True]
    assert result.notes == ("1 sequence ends in missing values, which are cut off (ends=missing keeps them)",)
    sequences = read(path, ends="missing")
    assert sequences.lengths.tolist() == [4, 4, 4]
    assert sequences.observed.sum() == 8


def test_a_row_without_any_value_is_refused_never_dropped(tmp_path):
    path = write(tmp_path / "f.csv", "id,label,t0,t1,t2\n1,a,1.5,2,3\n2,b,,,\n3,a,1,2,3\n")
    assert why(path) == "f.csv:3: every value of the sequence is missing; leave the row out"


def test_a_channel_that_is_missing_everywhere_is_kept(tmp_path):
    rows = [f"s{i},{t},{t + 0.5},," for i in range(4) for t in range(4)]
    result = read(write(tmp_path / "f.csv", "id,time,x,z,label\n" + "\n".join(rows)))
    assert result.channels == ("x", "z")
    assert not result.observed[:, 1].any()
    assert result.target == "none"


def test_few_whole_numbers_in_one_channel_are_tokens_and_can_be_numbers(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["label," + ",".join(f"t{i}" for i in range(20))]
    lines += [f"{'ab'[i % 2]}," + ",".join(map(str, rng.choice([3, 7, 20], 20))) for i in range(10)]
    path = write(tmp_path / "f.csv", "\n".join(lines))
    result = read(path)
    assert (result.kind, result.layout.symbols, result.width) == ("tokens", ("3", "7", "20"), 3)
    assert result.values.dtype == np.uint16
    assert "--kind numbers" in result.notes[0]
    assert read(path, kind="numbers").values[:, 0].tolist() == [
        float(word) for row in range(10) for word in result.speak(row).split()
    ]


def test_tokens_that_were_asked_for_need_one_channel_without_gaps(tmp_path):
    path = write(tmp_path / "f.csv", "id,label,t0,t1,t2\n1,a,1,,2\n2,b,1,1,1\n")
    assert why(path, kind="tokens").startswith(
        "f.csv: kind: tokens need one channel without gaps, and a value is missing"
    )


def test_a_fixed_layout_reads_other_files_alike_and_refuses_what_is_not(tmp_path):
    path = write(tmp_path / "f.csv", "\n".join(wide(label=lambda i: str(i % 2))))
    fixed = read(path).layout.fixed()
    assert LayoutSpec(**{k: v for k, v in fixed.document().items() if k != "version"}) == fixed
    new = write(tmp_path / "new.csv", "t2,t1,t0,id,more\n3,2,1,x,y\n")
    result = read_sequences(new, fixed)
    assert result.values[:, 0].tolist() == [1, 2, 3]
    assert (result.ids, result.labels, result.target) == (("x",), (None,), "none")
    assert "no column is like 't*'" in _refused(write(tmp_path / "bad.csv", "id,x,y,z\n1,2,3,4\n"), fixed)


def test_a_fixed_layout_keeps_its_symbols_and_names_others(tmp_path):
    lines = ["label," + ",".join(f"t{i}" for i in range(20))]
    lines += [f"{'ab'[i % 2]}," + ",".join("3" if (i + k) % 3 else "7" for k in range(20)) for i in range(10)]
    fixed = read(write(tmp_path / "f.csv", "\n".join(lines))).layout.fixed()
    result = read_sequences(write(tmp_path / "g.csv", "t0,t1,t2\n7,7,7\n"), fixed)
    assert result.values.tolist() == [1, 1, 1]
    message = _refused(write(tmp_path / "h.csv", "t0,t1,t2\n7,7,7\n7,8,7\n"), fixed)
    assert message.endswith("h.csv:3 column 't': '8' is none of the 2 symbols (3, 7); correct it, or leave the row out")


def _refused(path, spec):
    from headstart.errors import BadInput

    with pytest.raises(BadInput) as caught:
        read_sequences(path, spec)
    return str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target": "lable"}, "f.csv: target: no column 'lable'; did you mean 'label'?"),
        ({"values": ("x*",)}, "f.csv: values: no column is like 'x*', where * is a whole number"),
        ({"values": ("t99",)}, "f.csv: values: no column 't99'; there are: id, label, t0"),
        ({"shape": "long", "id": ""}, "f.csv: no column says which rows are one sequence; name it with --id"),
        ({"kind": "dna", "shape": "wide"}, "f.csv: kind: 'dna' does not go with the layout 'wide'"),
        ({"shape": "list"}, "f.csv: no column looks like a sequence (list; columns: 'id', 'label', 't0'"),
    ],
)
def test_a_setting_that_does_not_fit_is_named_with_the_way_out(tmp_path, settings, message):
    assert why(write(tmp_path / "f.csv", "\n".join(wide())), **settings).startswith(message)


def test_an_empty_id_is_named(tmp_path):
    path = write(tmp_path / "f.csv", "\n".join(wide()).replace("s03,", ","))
    assert why(path).startswith("f.csv:5 column 'id': the id is empty; give each sequence one")


def test_an_index_that_pandas_wrote_is_the_id(tmp_path):
    lines = [f"{'' if i == 0 else i - 1},{line.partition(',')[2]}" for i, line in enumerate(wide())]
    result = read(write(tmp_path / "f.csv", "\n".join(lines)))
    assert result.ids == tuple(str(i) for i in range(12))
    assert result.channels == ("t",)


def test_a_run_of_columns_that_lacks_one_in_the_middle_is_refused_and_never_shifted(tmp_path):
    lines = wide(length=12)
    lines[0] = lines[0].replace("t3", "q3")
    message = why(write(tmp_path / "train.csv", "\n".join(lines)))
    assert "'t*' has no column 't3' between 't0' and 't11', so that later values would stand one place" in message
    assert "'t*' has no column 't3'" in why(tmp_path / "train.csv", values=("t*",), shape="wide")


def test_runs_with_steps_of_their_own_are_taken_as_they_are(tmp_path):
    for numbers_ in ([0, 5, 10, 15, 20, 25], [3, 17, 20, 41, 80, 81], list(range(1, 7))):
        head = "id,label," + ",".join(f"mz{n}" for n in numbers_)
        lines = [head, *wide(length=6)[1:]]
        assert read(write(tmp_path / "train.csv", "\n".join(lines))).lengths.tolist() == [6] * 12


@pytest.mark.parametrize(("first", "second"), [("label", "target"), ("Label", "class"), ("class", "labels")])
def test_two_columns_that_may_be_the_target_are_refused(first: str, second: str, tmp_path) -> None:
    rows = [f"{'ab'[i % 2]},{'xyz'[i % 3]},{i}.5,{i}.25,{i}.75" for i in range(12)]
    path = write(tmp_path / "f.csv", "\n".join([f"{first},{second},t0,t1,t2", *rows]) + "\n")
    names = sorted((first, second), key=lambda name: TARGET.index(name.lower()))
    text = f"f.csv: target: the columns {names[0]!r} and {names[1]!r} may both be the target, and differ; give one of"
    assert why(path).startswith(text)
    assert why(path).split("\n")[1:] == [f"  headstart fit FILE --target {name}" for name in (*names, "''")]
    assert read(path, target=second).layout.target == second
    assert read(path, target="").target == "none"


def test_a_second_name_for_the_same_classes_is_no_doubt(tmp_path) -> None:
    rows = [f"{'ab'[i % 2]},{i % 2},{i}.5,{i}.25,{i}.75" for i in range(12)]
    path = write(tmp_path / "f.csv", "\n".join(["label,target,t0,t1,t2", *rows]) + "\n")
    assert read(path).layout.target == "label"


def test_lists_as_numpy_writes_them_are_numbers_and_never_text(tmp_path):
    rows = [f'{"ab"[i % 2]};"[{", ".join(f"np.float64({v})" for v in row)}]"' for i, row in enumerate(numbers(12, 4))]
    result = read(write(tmp_path / "f.csv", "\n".join(["label;x", *rows])))
    assert np.allclose(result.values[:, 0], numbers(12, 4).reshape(-1))
    rows = [f'{"ab"[i % 2]},"[{a} {b} ... {a} {b}]"' for i, (a, b) in enumerate(numbers(12, 2))]
    assert "whoever wrote the file shortened the list" in why(write(tmp_path / "f.csv", "\n".join(["label,x", *rows])))


def test_whole_numbers_that_differ_in_every_row_of_every_column_are_sequences_without_a_target() -> None:
    frame = pd.DataFrame({f"t{i}": range(i, i + 9) for i in range(4)})
    assert read_sequences(frame).target == "none"
