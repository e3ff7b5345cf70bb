"""Tables in blocks, for data beyond one memory: problems whose rows stay where they are."""

from maxent.core.maps import BlocksLost
from maxent.rows.blocks.cells import CellBlock
from maxent.rows.blocks.engine import BlockError, Blocks, FileBlocks, MemoryBlocks, SourceBlocks
from maxent.rows.blocks.map import BlockMap, CellBlockMap, InBlocks, SampleBlockMap
from maxent.rows.blocks.samples import SampleBlock
from maxent.rows.blocks.sequences import SequenceBlock
from maxent.rows.blocks.sources import open_table

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
