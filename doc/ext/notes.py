# SPDX-License-Identifier: Apache-2.0

"""reno's directive ``release-notes``, which needs the whole history in git.

In a shallow clone, or in an archive without any history, the page says so instead of ending
the build.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from dulwich.errors import NotGitRepository
from reno.sphinxext import ReleaseNotesDirective


class ReleaseNotes(ReleaseNotesDirective):
    """As reno's, but for the case without history."""

    def run(self) -> list[nodes.Node]:
        try:
            found: list[nodes.Node] = super().run()
        except (KeyError, NotGitRepository):
            text = "This documentation was built without the history that release notes are "
            return [nodes.paragraph(text=text + "made from; they are in releasenotes/notes.")]
        return found


def setup(app: Any) -> dict[str, Any]:
    app.setup_extension("reno.sphinxext")
    app.add_directive("release-notes", ReleaseNotes, override=True)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
