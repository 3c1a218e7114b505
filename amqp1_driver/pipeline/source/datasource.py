# SPDX-License-Identifier: Apache-2.0

"""The Spark data source ``amqp1`` itself: its name, schema, readers and writers.

The data source runs in each of Spark's processes, on the thread on which Spark calls it.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from amqp1_driver.pipeline.publish.options import WriterOptions
from amqp1_driver.pipeline.source.batch import Amqp1Reader
from amqp1_driver.pipeline.source.collection import Collecting
from amqp1_driver.pipeline.source.options import SourceOptions
from amqp1_driver.pipeline.source.schema import RAW
from amqp1_driver.pipeline.source.stream import Amqp1StreamReader
from amqp1_driver.pipeline.source.writer import Amqp1StreamWriter, Amqp1Writer
from amqp1_driver.pipeline.spool import Spool


class Amqp1DataSource(DataSource):
    """The data source of ``format("amqp1")``; each of Spark's processes makes a new one."""

    @classmethod
    def name(cls) -> str:
        """Return the name that ``format()`` takes."""
        return "amqp1"

    def schema(self) -> StructType:
        """Return the columns, :data:`RAW`."""
        return RAW

    def reader(self, schema: StructType) -> Amqp1Reader:
        """Return the reader for ``spark.read``.

        :raises ValueError: an option is wrong or missing
        """
        return Amqp1Reader(SourceOptions.parse(self.options), self.collector)

    def streamReader(self, schema: StructType) -> Amqp1StreamReader:
        """Return the reader for ``spark.readStream``.

        :raises ValueError: an option is wrong or missing
        """
        return Amqp1StreamReader(SourceOptions.parse(self.options), self.collector)

    def writer(self, schema: StructType, overwrite: bool) -> Amqp1Writer:
        """Return the writer for ``df.write``, mode append.

        :raises ValueError: the mode is overwrite, an option is wrong or missing, or the rows are
            not messages
        """
        if overwrite:
            raise ValueError("what is on the bus can't be overwritten: mode 'append' is needed")
        return Amqp1Writer(WriterOptions.parse(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Amqp1StreamWriter:
        """Return the writer for ``writeStream``, output mode append or update.

        :raises ValueError: the output mode is complete, an option is wrong or missing, or the rows
            are not messages
        """
        if overwrite:  # Spark sets this for the output mode complete
            raise ValueError(
                "output mode 'complete' would send the whole table again with each batch: "
                "mode 'append' or 'update' is needed"
            )
        return Amqp1StreamWriter(WriterOptions.parse(self.options), schema)

    def collector(self, options: SourceOptions, spool: Spool) -> Collecting:
        """Return a collector that fills the spool. Only the process that plans calls this."""
        from amqp1_driver.pipeline.collect import Collector

        return Collector(options, spool)
