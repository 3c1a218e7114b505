# SPDX-License-Identifier: Apache-2.0

"""Small files and folders on any file system that Spark can reach (local, HDFS, S3).

On the driver program's thread, and for batches of silver on their query's.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Storage:
    """The operations of Hadoop's file systems that the lake needs. In the driver program.

    Methods raise py4j's Py4JJavaError for errors of the file system.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self._conf: Any = spark._jsc.hadoopConfiguration()

    def _at(self, path: str) -> tuple[Any, Any]:
        place = self._jvm.org.apache.hadoop.fs.Path(path)
        return place.getFileSystem(self._conf), place

    def exists(self, path: str) -> bool:
        """Return whether there is a file or folder."""
        system, place = self._at(path)
        return bool(system.exists(place))

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted; none if there is no such folder."""
        system, place = self._at(folder)
        if not system.exists(place):
            return []
        return sorted(status.getPath().getName() for status in system.listStatus(place))

    def make(self, folder: str) -> None:
        """Make a folder, with its missing parents."""
        system, place = self._at(folder)
        system.mkdirs(place)

    def delete(self, path: str) -> None:
        """Delete a file, or a folder with all in it; do nothing if there is neither."""
        system, place = self._at(path)
        system.delete(place, True)

    def read_json(self, path: str) -> Any:
        """Return the value in a small JSON file."""
        system, place = self._at(path)
        stream = system.open(place)
        try:
            data = stream.readAllBytes()
        finally:
            stream.close()
        return json.loads(bytes(data))

    def write_json(self, path: str, value: Any) -> None:
        """Write a small JSON file; after a crash the file is either complete or missing.

        :raises OSError: the file system did not give the complete file its name
        """
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
