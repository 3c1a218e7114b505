# SPDX-License-Identifier: Apache-2.0

"""Simulations on Spark: each row of a frame is one simulation and comes back with its figures.

A row holds everything that its simulation depends on, including the seed. So Spark may run a row
again on any worker; the result is the same. Simulations run in Spark's Python workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from amqp1_driver.pipeline.capacity.costs import Costs
from amqp1_driver.pipeline.capacity.result import Result
from amqp1_driver.pipeline.capacity.setup import Setup

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: simulations in one task of Spark, which Spark repeats if it is lost
_PER_TASK = 4
_TYPES = {int: "long", float: "double", str: "string", bool: "boolean"}


def simulated(row: Mapping[str, Any], costs: Costs) -> dict[str, Any]:
    """Run the simulation of a row, and return the row with its figures."""
    from amqp1_driver.pipeline.capacity.mesh import simulate

    setup = Setup.of(row)
    return {**setup.row(), **simulate(setup, costs).row()}


def mapper(costs: Mapping[str, Any]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return the function for ``mapInPandas``.

    :param costs: a document of costs, because any worker can unpickle it
    """

    def simulations(frames: Iterator[Any]) -> Iterator[Any]:
        import pandas

        known = Costs.of(costs)
        for frame in frames:
            for row in frame.to_dict("records"):
                yield pandas.DataFrame([simulated(row, known)])

    return simulations


def sweep(spark: SparkSession, rows: Sequence[Mapping[str, Any]], costs: Costs) -> DataFrame:
    """Return a frame of the rows with their figures; Spark runs nothing before its first use.

    :raises ValueError: there are no rows
    """
    if not rows:
        raise ValueError("there is nothing to simulate")
    given = _schema(setup_columns())
    frame = spark.createDataFrame([_ordered(row) for row in rows], schema=given)
    tasks = max(
        1, min(len(rows), max(spark.sparkContext.defaultParallelism, -(-len(rows) // _PER_TASK)))
    )
    # Neighbouring rows take similar time: repartition() deals them to the tasks in turn.
    return frame.repartition(tasks).mapInPandas(
        mapper(costs.document()), schema=_schema({**setup_columns(), **result_columns()})
    )


def setup_columns() -> dict[str, type]:
    """Return names and types of the columns that describe a simulation."""
    row = Setup(agents=1).row()
    return {name: type(value) for name, value in row.items()}


def result_columns() -> dict[str, type]:
    """Return names and types of the columns with figures."""
    return {name: int if name == "timeouts" else float for name in Result.__dataclass_fields__}


def _ordered(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(kind(row[name]) for name, kind in setup_columns().items())


def _schema(columns: Mapping[str, type]) -> StructType:
    from pyspark.sql.types import StructType

    # from JSON, because a string of DDL would need a running session
    fields: Iterable[dict[str, Any]] = (
        {"name": name, "type": _TYPES[kind], "nullable": True, "metadata": {}}
        for name, kind in columns.items()
    )
    return StructType.fromJson({"type": "struct", "fields": list(fields)})
