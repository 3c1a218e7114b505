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

"""Rows of simulations on Spark: each row is one, and comes back with its figures.

A row holds all that a simulation depends on, its seed too. So Spark may run a row again, on any
worker: the result is the same.
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

#: simulations in one task of Spark: a lost one is done again
_PER_TASK = 4
_TYPES = {int: "long", float: "double", str: "string", bool: "boolean"}


def simulated(row: Mapping[str, Any], costs: Costs) -> dict[str, Any]:
    """The row with its figures."""
    from amqp1_driver.pipeline.capacity.mesh import simulate

    setup = Setup.of(row)
    return {**setup.row(), **simulate(setup, costs).row()}


def mapper(costs: Mapping[str, Any]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """For ``mapInPandas``.

    :param costs: as a document, which any worker can unpickle
    """

    def simulations(frames: Iterator[Any]) -> Iterator[Any]:
        import pandas

        known = Costs.of(costs)
        for frame in frames:
            for row in frame.to_dict("records"):
                yield pandas.DataFrame([simulated(row, known)])

    return simulations


def sweep(spark: SparkSession, rows: Sequence[Mapping[str, Any]], costs: Costs) -> DataFrame:
    """A frame of the rows with their figures; nothing runs before it is used.

    :raises ValueError: there are no rows
    """
    if not rows:
        raise ValueError("there is nothing to simulate")
    given = _schema(setup_columns())
    frame = spark.createDataFrame([_ordered(row) for row in rows], schema=given)
    tasks = max(1, min(len(rows), max(spark.sparkContext.defaultParallelism,
                                      -(-len(rows) // _PER_TASK))))
    # Neighbouring rows are alike in size: in turn they spread over the tasks.
    return frame.repartition(tasks).mapInPandas(
        mapper(costs.document()), schema=_schema({**setup_columns(), **result_columns()})
    )


def setup_columns() -> dict[str, type]:
    """Name and type of what is simulated."""
    row = Setup(agents=1).row()
    return {name: type(value) for name, value in row.items()}


def result_columns() -> dict[str, type]:
    """Name and type of the figures."""
    return {name: int if name == "timeouts" else float for name in Result.__dataclass_fields__}


def _ordered(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(kind(row[name]) for name, kind in setup_columns().items())


def _schema(columns: Mapping[str, type]) -> StructType:
    from pyspark.sql.types import StructType

    # Not from a string of DDL: that needs a running session.
    fields: Iterable[dict[str, Any]] = (
        {"name": name, "type": _TYPES[kind],
         "nullable": True, "metadata": {}} for name, kind in columns.items()
    )
    return StructType.fromJson({"type": "struct", "fields": list(fields)})
