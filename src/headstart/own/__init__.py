"""A person's own sequences: read from files or memory, their layout guessed and said, and a card of what they hold."""

from headstart.own.layout import Channel, Layout, LayoutSpec
from headstart.own.reading import read_sequences
from headstart.own.sequences import Sequences, check_alike

__all__ = ["Channel", "Layout", "LayoutSpec", "Sequences", "check_alike", "read_sequences"]
