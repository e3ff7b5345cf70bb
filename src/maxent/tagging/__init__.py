"""Labels of sequences: attributes of tokens, their feature map, CoNLL files and phrase scores."""

from maxent.tagging.attributes import Attributes, Tokens
from maxent.tagging.conll import PhraseScores, phrase_scores, phrases, read_conll
from maxent.tagging.input_map import InputChainMap
from maxent.tagging.pair_map import PairChainMap

__all__ = [
    "Attributes",
    "InputChainMap",
    "PairChainMap",
    "PhraseScores",
    "Tokens",
    "phrase_scores",
    "phrases",
    "read_conll",
]
