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

"""What can go wrong with a spool."""


class SpoolError(RuntimeError):
    """The spool cannot do what was asked; nothing of it may be acknowledged to the bus."""


class Fenced(SpoolError):
    """Another process has opened the spool since: this one may write nothing more."""


class Full(SpoolError):
    """The rows do not fit below the caps of the spool; nothing was written.

    They fit later, after a commit, unless one of them is larger than the spool takes at all.
    """


class Damaged(SpoolError):
    """The folder is no spool, or what is in it contradicts itself."""


class Missing(SpoolError):
    """Rows that the spool had are gone: data loss."""
