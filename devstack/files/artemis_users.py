# SPDX-License-Identifier: Apache-2.0

"""Makes AMQP1_USERNAME with AMQP1_PASSWORD the one user of an Artemis instance.

    python artemis_users.py INSTANCE

Artemis reads these files again when they have changed.
"""

import os
import pathlib
import sys


def _escaped(text: str) -> str:
    """*text* as key or value of a file of Java properties."""
    plain = (c if c.isascii() and c.isalnum() else f"\\u{ord(c):04x}" for c in text)
    return "".join(plain)


def main(instance: pathlib.Path) -> None:
    user = _escaped(os.environ["AMQP1_USERNAME"])
    users = instance / "etc" / "artemis-users.properties"
    roles = instance / "etc" / "artemis-roles.properties"
    users.chmod(0o600)
    roles.write_text(f"amq = {user}\nadmin = {user}\n")
    users.write_text(f"{user} = {_escaped(os.environ['AMQP1_PASSWORD'])}\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
