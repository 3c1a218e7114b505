# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Where records come from: files of JSON lines, Parquet or Arrow, or the bus."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JSON, PARQUET, ARROW = "json", "parquet", "arrow"
FORMATS = (JSON, PARQUET, ARROW)
#: ends of names of files; compressed ones are read as well
_SUFFIXES = {".jsonl": JSON, ".ndjson": JSON, ".json": JSON, ".parquet": PARQUET,
             ".arrow": ARROW}
_COMPRESSED = (".gz", ".zst", ".bz2", ".lz4")
_MAGIC = b"PAR1"


def format_of(path: str) -> str | None:
    """The format that the name of a file tells, None for none."""
    name = path.rstrip("/").lower()
    for end in _COMPRESSED:
        name = name.removesuffix(end)
    return _SUFFIXES.get(os.path.splitext(name)[1])


def sorted_out(paths: Sequence[str], given: str | None = None) -> dict[str, list[str]]:
    """Files by format. Folders of this machine are searched; what is elsewhere is not looked at.

    Files whose names begin with a dot or an underscore are not finished, or no data.

    :param given: the format, of all that have no name to tell it
    :raises ValueError: there is no such file, none in a folder, or no telling what it is
    """
    found: dict[str, list[str]] = {name: [] for name in FORMATS}
    for path in paths:
        before = sum(map(len, found.values()))
        for each in _files(path):
            kind = format_of(each) or (given if each == path or _remote(path) else None)
            if kind:
                found[kind].append(each)
            elif each == path:
                raise ValueError(f"{path}: what is in it can't be told from its name; "
                                 f"--format says so ({', '.join(FORMATS)})")
        if sum(map(len, found.values())) == before:
            raise ValueError(f"{path}: no telemetry in this folder: no file named "
                             f"{', '.join('*' + end for end in _SUFFIXES)}")
    return found


def _remote(path: str) -> bool:
    return len(urlsplit(path).scheme) > 1 or any(sign in path for sign in "*?[{")


def _files(path: str) -> Iterator[str]:
    if _remote(path):
        yield path
    elif os.path.isdir(path):
        for file in sorted(Path(path).rglob("*")):
            parts = file.relative_to(path).parts
            if file.is_file() and not any(part.startswith((".", "_")) for part in parts):
                yield str(file)
    elif os.path.exists(path):
        yield path
    else:
        raise ValueError(f"{path}: there is no such file or folder")


def from_files(spark: SparkSession, files: Mapping[str, Sequence[str]]) -> DataFrame:
    """Records of the files, as ``telemetry_records.of_lines`` has them.

    :raises ValueError: a file is no telemetry, and is named, or cannot be read
    """
    from pyspark.errors import AnalysisException

    from amqp1_driver.pipeline.transform import telemetry_records as records

    frames = []
    if files[JSON]:
        try:
            frames.append(records.of_lines(spark.read.text(_escaped(files[JSON]))))
        except AnalysisException as error:
            raise ValueError(_first_line(error)) from None
    frames += [_parquet(spark, path) for path in files[PARQUET]]
    if files[ARROW]:
        frames.append(_arrow(spark, files[ARROW]))
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame)
    return whole


def _parquet(spark: SparkSession, path: str) -> DataFrame:
    from pyspark.errors import PySparkException

    from amqp1_driver.pipeline.transform import telemetry_records as records

    _look(path)
    try:
        return records.of_columns(spark.read.parquet(*_escaped([path])))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    except PySparkException as error:
        raise ValueError(f"{path}: {_first_line(error)}") from None


def _arrow(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    from pyspark.errors import AnalysisException

    from amqp1_driver.pipeline.telemetry import arrow_files
    from amqp1_driver.pipeline.transform import telemetry_records as records

    for path in paths:
        if not _remote(path):
            names = arrow_files.schema_of(path).names
            try:
                records.check_columns(names)
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from None
    try:
        files = spark.read.format("binaryFile").load(_escaped(paths)).select("path", "content")
    except AnalysisException as error:
        raise ValueError(_first_line(error)) from None
    return records.of_decoded(files.mapInArrow(arrow_files.decoded, arrow_files.COLUMNS))


def _look(path: str) -> None:
    """Whether a file of this machine may be Parquet; Spark would say so at length."""
    if _remote(path):
        return
    try:
        with open(path, "rb") as file:
            begin = file.read(len(_MAGIC))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    if begin != _MAGIC:
        raise ValueError(f"{path}: this is no Parquet file")


def _escaped(paths: Sequence[str]) -> list[str]:
    """Local names are of this machine, whatever Spark's own file system is.

    Not as in a URI: Hadoop takes a name literally, and ``%20`` is no space to it.
    """
    return [path if _remote(path) else f"file://{Path(path).absolute()}" for path in paths]


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def from_bus(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """Rows of the data source ``amqp1``: all that waits at an address, and what is in the spool.

    :param options: of the data source
    """
    reader = spark.read.format("amqp1")
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


def of_messages(rows: DataFrame) -> DataFrame:
    """Records of messages, each of which holds JSON lines."""
    from pyspark.sql import functions as F

    from amqp1_driver.pipeline.transform import telemetry_records as records

    lines = F.explode(F.split(F.decode("body", "UTF-8"), "\n")).alias("value")
    return records.of_lines(rows.select(lines))
