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

"""Small files and folders on whatever file system Spark can reach (local, HDFS, S3)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Storage:
    """Hadoop's file systems, as far as the lake needs them. Thread of the driver program.

    Errors of the file system come out as py4j's Py4JJavaError.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self._conf: Any = spark._jsc.hadoopConfiguration()

    def _at(self, path: str) -> tuple[Any, Any]:
        place = self._jvm.org.apache.hadoop.fs.Path(path)
        return place.getFileSystem(self._conf), place

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""
        system, place = self._at(path)
        return bool(system.exists(place))

    def names(self, folder: str) -> list[str]:
        """What is in a folder, sorted; nothing if it is not there."""
        system, place = self._at(folder)
        if not system.exists(place):
            return []
        return sorted(status.getPath().getName() for status in system.listStatus(place))

    def make(self, folder: str) -> None:
        """The folder, with those above it."""
        system, place = self._at(folder)
        system.mkdirs(place)

    def delete(self, path: str) -> None:
        """A file, or a folder with all in it; nothing if it is not there."""
        system, place = self._at(path)
        system.delete(place, True)

    def read_json(self, path: str) -> Any:
        """The value in a small JSON file."""
        system, place = self._at(path)
        stream = system.open(place)
        try:
            data = stream.readAllBytes()
        finally:
            stream.close()
        return json.loads(bytes(data))

    def write_json(self, path: str, value: Any) -> None:
        """A small JSON file, there either whole or not at all."""
        system, place = self._at(path)
        name = place.getName()
        temporary = self._jvm.org.apache.hadoop.fs.Path(place.getParent(), f".{name}.tmp")
        stream = system.create(temporary, True)
        try:
            stream.write(bytearray(json.dumps(value).encode()))
        finally:
            stream.close()
        system.delete(place, False)
        if not system.rename(temporary, place):
            raise OSError(f"{path}: could not be written")
