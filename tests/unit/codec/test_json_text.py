# SPDX-License-Identifier: Apache-2.0

"""JSON text: what oslo.messaging's drivers read is what was written, and the other way round."""

import collections
import dataclasses
import datetime
import decimal
import enum
import importlib.util
import json
import math
import pathlib
import sys
import uuid

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oslo_messaging._drivers import common
from oslo_serialization import jsonutils

from amqp1_driver.codec import json_text, payload
from amqp1_driver.codec._plain import is_plain
from amqp1_driver.exceptions import DecodeError


class Text(str):
    pass


class Number(int):
    pass


class Real(float):
    pass


class Table(dict):
    pass


class Row(list):
    pass


class Colour(enum.Enum):
    RED = 1


class Word(enum.StrEnum):
    YES = "yes"


class Level(enum.IntEnum):
    HIGH = 9


@dataclasses.dataclass
class Point:
    x: int = 1


Pair = collections.namedtuple("Pair", "a b")


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


def circle():
    value = []
    value.append(value)
    return value


# -- writing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, b"null"),
        ([True, False], b"[true,false]"),
        ({"a": [1, -2.5], "b": {}}, b'{"a":[1,-2.5],"b":{}}'),
        ((1, (2,)), b"[1,[2]]"),
        ("ä€\U0001f600", b'"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"'),
        ('"\\\n\x00\x7f', b'"\\"\\\\\\n\\u0000\x7f"'),
        (18446744073709551616, b"18446744073709551616"),
        (-9223372036854775809, b"-9223372036854775809"),
        (-0.0, b"-0.0"),
        # all below are written by json
        (math.nan, b"NaN"),
        ([None, math.nan], b"[null,NaN]"),
        ({"a": -math.inf}, b'{"a":-Infinity}'),
        ("\ud800", b'"\\ud800"'),
        (["ä", "\ud800"], b'["\\u00e4","\\ud800"]'),
        (b"ab", b'"ab"'),
        ({1: "a", None: "b", False: "c", 1.5: "d"}, b'{"1":"a","null":"b","false":"c","1.5":"d"}'),
        ({Text("k"): Text("v")}, b'{"k":"v"}'),
        (Number(3), b"3"),
        (Real(2), b"2.0"),
        (Table(a=1), b'{"a":1}'),
        (Row([1]), b"[1]"),
        (Pair(1, Pair(2, 3)), b"[1,[2,3]]"),
        (Word.YES, b'"yes"'),
        ({Word.YES: Level.HIGH}, b'{"yes":9}'),
        (datetime.datetime(2020, 1, 2, 3, 4, 5, 6), b'"2020-01-02T03:04:05.000006"'),
        (datetime.date(2020, 1, 2), b'"2020-01-02"'),
        (decimal.Decimal("1.10"), b'"1.10"'),
        (uuid.UUID(int=1), b'"00000000-0000-0000-0000-000000000001"'),
        ({1}, b"[1]"),
        (ValueError("no"), b"\"ValueError('no')\""),
    ],
)
def test_a_value_has_the_text_that_old_drivers_read(value, text):
    assert json_text.dumps(value) == text
    assert repr(jsonutils.loads(text)) == repr(jsonutils.loads(jsonutils.dumps(value)))


@pytest.mark.parametrize(
    ("value", "error", "reason"),
    [
        (Colour.RED, ValueError, "Cannot convert"),
        ([Colour.RED], ValueError, "Cannot convert"),
        (Point(), ValueError, "Cannot convert"),
        (object(), ValueError, "Cannot convert"),
        ({(1, 2): 3}, TypeError, "keys must be str"),
        ({Colour.RED: 3}, TypeError, "keys must be str"),
        (circle(), ValueError, "Circular"),
        (b"\xff", ValueError, "utf-8"),
    ],
)
def test_a_value_that_json_cannot_carry_has_the_error_of_json(value, error, reason):
    with pytest.raises(error, match=reason):
        json_text.dumps(value)


@pytest.mark.parametrize("depth", [198, 199, 200, 201, 500])
def test_deep_values_are_written(depth):
    assert json_text.dumps(nested(depth)) == b"[" * (depth + 1) + b"]" * (depth + 1)


def test_values_that_are_too_deep_are_a_recursion_error():
    with pytest.raises(RecursionError):
        json_text.dumps(nested(100_000))


@pytest.mark.parametrize(
    "value", [None, True, 1, 2**70, 1.5, "", "\ud800", [], {}, (), {"a": [(1, {"b": None})]}]
)
def test_plain_values_are_known(value):
    assert is_plain(value) is True
    assert is_plain({"a": [value]}) is True


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        -math.inf,
        b"",
        set(),
        object(),
        {1: 1},
        {Text("a"): 1},
        Text(),
        Number(),
        Real(),
        Table(),
        Row(),
        Pair(1, 2),
        Word.YES,
        Level.HIGH,
        Colour.RED,
        Point(),
        uuid.UUID(int=1),
        datetime.date(2020, 1, 1),
        decimal.Decimal(1),
        nested(200),
        circle(),
    ],
)
def test_other_values_are_not_plain(value):
    assert is_plain(value) is False
    assert is_plain([0, value]) is False
    assert is_plain((0, value)) is False
    assert is_plain({"a": 0, "b": value}) is False


# -- reading -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b' {"a": [1, -2.5e3]}\n', {"a": [1, -2500.0]}),
        (b'{"a": 1, "b": 2, "a": 3}', {"a": 3, "b": 2}),
        (b"18446744073709551616", 18446744073709551616),
        (b"-9223372036854775809", -9223372036854775809),
        (b"-0", 0),
        (b"-0.0", -0.0),
        (b"1e400", math.inf),
        (b"-1e400", -math.inf),
        (b"1e-400", 0.0),
        (b"9007199254740993.0", 9007199254740992.0),
        (b"[NaN, Infinity, -Infinity]", [math.nan, math.inf, -math.inf]),
        (b'"\\ud800"', "\ud800"),
        (b'"\\udc00\\ud800"', "\udc00\ud800"),
        (b'"\\ud83d\\ude00 \xf0\x9f\x98\x80"', "\U0001f600 \U0001f600"),
        (b'"\\u0000\\/"', "\x00/"),
    ],
)
@pytest.mark.parametrize("form", [bytes, memoryview, lambda text: text.decode()])
def test_a_text_has_the_value_that_json_gives_it(text, value, form):
    found = json_text.loads(form(text))
    assert repr(found) == repr(value)  # which tells nan, -0.0 and 0


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b" ",
        b"{",
        b"[1,]",
        b"01",
        b"1.",
        b"+1",
        b"'a'",
        b'"\n"',
        b"1 2",
        b"nan",
        b"\xef\xbb\xbf1",
    ],
)
def test_a_malformed_text_has_the_error_of_json(text):
    with pytest.raises(json.JSONDecodeError):
        json_text.loads(text)


@pytest.mark.parametrize("text", [b'"\xff"', b'"\xed\xa0\x80"', b"\xff"])
def test_bytes_that_are_no_utf_8_are_a_value_error(text):
    with pytest.raises(UnicodeDecodeError):
        json_text.loads(text)


def test_as_many_digits_are_read_and_written_as_python_allows():
    assert json_text.loads(b"1" * 4300) == int("1" * 4300)
    assert json_text.dumps(int("1" * 4300)) == b"1" * 4300
    with pytest.raises(ValueError, match="digits"):
        json_text.dumps(10**4300)
    with pytest.raises(ValueError, match="digits"):
        json_text.loads(b"[%s]" % (b"1" * 5000))


@pytest.mark.parametrize("start", [b"[", b'{"a":', b'[{"a":'])
def test_a_hostile_depth_is_a_decode_error(start):
    with pytest.raises(DecodeError, match="not JSON"):
        payload.load_request(start * 500_000)


@pytest.mark.parametrize("depth", [100, 800])
def test_a_usual_depth_is_read(depth):
    assert json_text.loads(b"[" * depth + b"]" * depth) == nested(depth - 1)


# -- against oslo.messaging, in both directions -------------------------------------------------

TEXTS = st.text(st.characters(codec=None, exclude_categories=()), max_size=20)
KEYS = st.one_of(
    TEXTS, TEXTS.map(Text), st.integers(), st.floats(), st.booleans(), st.none(), st.just(Word.YES)
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    TEXTS,
    TEXTS.map(Text),
    st.integers().map(Number),
    st.floats().map(Real),
    st.binary(max_size=8),
    st.datetimes(),
    st.dates(),
    st.uuids(),
    st.decimals(),
    st.frozensets(st.integers(), max_size=1),
    st.sampled_from([Colour.RED, Word.YES, Level.HIGH, Point(), Pair(1, 2.5), object]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.lists(inner, max_size=4).map(Row),
        st.dictionaries(KEYS, inner, max_size=4),
        st.dictionaries(TEXTS, inner, max_size=4).map(Table),
        st.tuples(inner, inner).map(lambda pair: Pair(*pair)),
    ),
    max_leaves=20,
)
PLAIN = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), TEXTS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=30,
)


def outcome(function, *args):
    """Return the result, in a form that tells nan, -0.0, 0 and False; or the kind of the error."""
    try:
        return repr(function(*args))
    except Exception as error:
        return type(error)


@given(VALUES | PLAIN)
@settings(max_examples=400)
def test_the_other_end_gets_the_value_that_jsonutils_sends(value):
    sent = outcome(json_text.dumps, value)
    if isinstance(sent, type):
        assert sent == outcome(jsonutils.dumps, value)
        return
    text = json_text.dumps(value)
    expected = repr(jsonutils.loads(jsonutils.dumps(value)))
    assert repr(jsonutils.loads(text.decode())) == expected
    assert repr(json_text.loads(text)) == expected


@given(st.dictionaries(TEXTS, PLAIN, max_size=4), st.dictionaries(TEXTS, PLAIN, max_size=4))
def test_oslo_messaging_opens_our_envelopes(message, ctxt):
    data = jsonutils.loads(payload.dump_request(message, ctxt, envelope=True))
    assert list(data) == ["request", "context"]
    assert repr(common.deserialize_msg(data["request"])) == repr(message)
    assert repr(data["context"]) == repr(ctxt)


@given(st.dictionaries(TEXTS, PLAIN, max_size=4), st.dictionaries(TEXTS, PLAIN, max_size=4))
def test_envelopes_of_oslo_messaging_are_opened(message, ctxt):
    body = jsonutils.dump_as_bytes({"request": common.serialize_msg(message), "context": ctxt})
    request = payload.load_request(body)
    assert repr(request.message) == repr(message)
    assert repr(request.ctxt) == repr(ctxt)


MUTATIONS = st.tuples(st.integers(0, 400), st.integers(0, 3), st.binary(max_size=4))


@given(PLAIN, st.booleans(), st.lists(MUTATIONS, max_size=3))
@settings(max_examples=400)
def test_a_damaged_text_is_read_as_json_reads_it(value, ascii_only, mutations):
    text = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    for at, removed, added in mutations:
        at %= len(text) + 1
        text = text[:at] + added + text[at + removed :]
    assert outcome(json_text.loads, text) == outcome(lambda: json.loads(str(text, "utf-8")))


NUMBERS = st.from_regex(
    r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,4})?", fullmatch=True
)


@given(NUMBERS)
@example("-0")
@example("123456789012345678901234567890.5")
@example("9223372036854775808")
@settings(max_examples=400)
def test_a_number_has_the_value_that_json_gives_it(text):
    assert repr(json_text.loads(text.encode())) == repr(json.loads(text))


# -- without the library, or without the module in C --------------------------------------------


def fresh(monkeypatch, missing):
    """Return the module as it is where another one cannot be imported."""
    monkeypatch.setitem(sys.modules, missing, None)
    spec = importlib.util.spec_from_file_location("fresh", pathlib.Path(json_text.__file__))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("missing", ["msgspec.json", "amqp1_driver.codec._plain"])
def test_the_driver_works_where_a_module_is_missing(monkeypatch, missing):
    module = fresh(monkeypatch, missing)
    # json escapes what msgspec writes as it is
    assert module.dumps({"ä": [1, b"x"]}) == b'{"\\u00e4":[1,"x"]}'
    assert module.loads(b'{"\xc3\xa4": [1, NaN]}')["ä"][0] == 1
    assert module.loads(memoryview(b"[1]")) == [1]
    with pytest.raises(json.JSONDecodeError):
        module.loads("{")


def test_the_module_in_c_and_the_library_are_used_here():
    # json would escape it: the tests above have seen the fast way
    assert json_text.dumps("ä") == b'"\xc3\xa4"'
