"""Tables in blocks, for data beyond one memory: problems whose rows stay where they are."""

from maxent.blocks.cells import CellBlock
from maxent.blocks.engine import BlockError, Blocks, FileBlocks, MemoryBlocks, SourceBlocks
from maxent.blocks.map import BlockMap, CellBlockMap, InBlocks, SampleBlockMap
from maxent.blocks.samples import SampleBlock
from maxent.blocks.sequences import SequenceBlock
from maxent.blocks.sources import open_table
from maxent.maps import BlocksLost

__all__ = [
    "BlockError",
    "BlockMap",
    "Blocks",
    "BlocksLost",
    "CellBlock",
    "CellBlockMap",
    "FileBlocks",
    "InBlocks",
    "MemoryBlocks",
    "SampleBlock",
    "SampleBlockMap",
    "SequenceBlock",
    "SourceBlocks",
    "open_table",
]
