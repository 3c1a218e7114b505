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

"""The Spark data source ``amqp1`` itself: its name, schema, readers and writers."""

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
    """``spark.readStream.format("amqp1")``; made anew in each of Spark's processes."""

    @classmethod
    def name(cls) -> str:
        """What ``format()`` is given."""
        return "amqp1"

    def schema(self) -> StructType:
        """See :data:`RAW`."""
        return RAW

    def reader(self, schema: StructType) -> Amqp1Reader:
        """For ``spark.read``.

        :raises ValueError: an option is wrong or missing
        """
        return Amqp1Reader(SourceOptions.parse(self.options), self.collector)

    def streamReader(self, schema: StructType) -> Amqp1StreamReader:
        """For ``spark.readStream``.

        :raises ValueError: an option is wrong or missing
        """
        return Amqp1StreamReader(SourceOptions.parse(self.options), self.collector)

    def writer(self, schema: StructType, overwrite: bool) -> Amqp1Writer:
        """For ``df.write``, mode append.

        :raises ValueError: an option is wrong or missing, or the rows are no messages
        """
        if overwrite:
            raise ValueError("what is on the bus can't be overwritten: mode 'append' is needed")
        return Amqp1Writer(WriterOptions.parse(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Amqp1StreamWriter:
        """For ``writeStream``, output mode append or update.

        :raises ValueError: an option is wrong or missing, or the rows are no messages
        """
        return Amqp1StreamWriter(WriterOptions.parse(self.options), schema)

    def collector(self, options: SourceOptions, spool: Spool) -> Collecting:
        """What fills the spool; called in the process that plans, and there only."""
        from amqp1_driver.pipeline.collect import Collector

        return Collector(options, spool)
