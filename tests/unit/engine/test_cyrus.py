# SPDX-License-Identifier: Apache-2.0

"""The plug-ins of Cyrus SASL are loaded once, and only while descriptors are free."""

import errno
import os

import pytest

from amqp1_driver.engine import cyrus


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(cyrus, "_loaded", False)


@pytest.fixture
def exchanges(monkeypatch):
    made = []
    monkeypatch.setattr(cyrus, "_exchange", lambda: made.append(1))
    return made


def test_a_mechanism_is_chosen_so_the_plug_ins_are_there():
    assert cyrus._exchange() is True


def test_they_are_loaded_once(exchanges):
    cyrus.load()
    cyrus.load()
    assert exchanges == [1]


def test_nothing_is_loaded_without_descriptors_and_it_is_tried_again(exchanges, monkeypatch):
    before, really, left = set(os.listdir("/proc/self/fd")), os.open, [5]

    def scarce(*args):
        if not left[0]:
            raise OSError(errno.EMFILE, "Too many open files")
        left[0] -= 1
        return really(*args)

    monkeypatch.setattr(os, "open", scarce)
    with pytest.raises(OSError, match="Too many open files"):
        cyrus.load()
    assert exchanges == []
    assert set(os.listdir("/proc/self/fd")) == before
    left[0] = 16
    cyrus.load()
    assert exchanges == [1]
    assert set(os.listdir("/proc/self/fd")) == before
