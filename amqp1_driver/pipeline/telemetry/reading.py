# SPDX-License-Identifier: Apache-2.0

"""The input of the job: files of JSON lines, Parquet or Arrow, or the bus.

The functions run in the process that plans, on the thread that calls.
"""

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
#: format by suffix of the file's name; a suffix of compression may follow
_SUFFIXES = {".jsonl": JSON, ".ndjson": JSON, ".json": JSON, ".parquet": PARQUET, ".arrow": ARROW}
_COMPRESSED = (".gz", ".zst", ".bz2", ".lz4")
_MAGIC = b"PAR1"


def format_of(path: str) -> str | None:
    """Return the format by the suffix of a file's name; None: the suffix is not known."""
    name = path.rstrip("/").lower()
    for end in _COMPRESSED:
        name = name.removesuffix(end)
    return _SUFFIXES.get(os.path.splitext(name)[1])


def sorted_out(paths: Sequence[str], given: str | None = None) -> dict[str, list[str]]:
    """Return the files by format.

    This function searches local folders. It does not look at paths with a scheme or a wildcard. It
    skips files and folders whose names begin with a dot or an underscore: these are unfinished, or
    hold no data.

    :param given: format of paths whose names do not show it; None: they are an error
    :raises ValueError: a path does not exist, a folder has no telemetry, or the format of a file
        is not known
    """
    found: dict[str, list[str]] = {name: [] for name in FORMATS}
    for path in paths:
        before = sum(map(len, found.values()))
        for each in _files(path):
            kind = format_of(each) or (given if each == path or _remote(path) else None)
            if kind:
                found[kind].append(each)
            elif each == path:
                raise ValueError(
                    f"{path}: what is in it can't be told from its name; "
                    f"--format says so ({', '.join(FORMATS)})"
                )
        if sum(map(len, found.values())) == before:
            raise ValueError(
                f"{path}: no telemetry in this folder: no file named "
                f"{', '.join('*' + end for end in _SUFFIXES)}"
            )
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
    """Return the records of the files, in the columns of ``telemetry_records.of_lines``.

    :param files: paths by format; at least one path
    :raises ValueError: a file has no telemetry or cannot be read; the text names the file
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
    """Check that a local file begins as a Parquet file does; Spark's own error is very long.

    :raises ValueError: the file cannot be opened, or is not a Parquet file
    """
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
    """Return the paths as Spark takes them: local ones absolute, and with ``file://``.

    Without ``file://``, Spark would look in its default file system. The names are not
    percent-encoded: Hadoop takes a name literally, so ``%20`` would not stand for a space.
    """
    return [path if _remote(path) else f"file://{Path(path).absolute()}" for path in paths]


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def from_bus(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """Return rows of the data source ``amqp1``: all messages at an address and in the spool.

    :param options: options of the data source
    """
    reader = spark.read.format("amqp1")
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


def of_messages(rows: DataFrame) -> DataFrame:
    """Return the records of messages whose bodies are JSON lines.

    :param rows: rows of :func:`from_bus`
    """
    from pyspark.sql import functions as F

    from amqp1_driver.pipeline.transform import telemetry_records as records

    lines = F.explode(F.split(F.decode("body", "UTF-8"), "\n")).alias("value")
    return records.of_lines(rows.select(lines))
