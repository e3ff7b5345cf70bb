"""Labels of sequences: attributes of tokens, their feature map, CoNLL files and phrase scores."""

from maxent.tagging.attributes import Attributes, Tokens
from maxent.tagging.conll import (
    PhraseScores,
    TypeScores,
    are_phrase_tags,
    phrase_scores,
    phrases,
    read_conll,
)
from maxent.tagging.conllu import (
    ConlluSentence,
    features,
    is_conllu,
    read_conllu,
    write_conllu,
)
from maxent.tagging.input_map import InputChainMap
from maxent.tagging.pair_map import PairChainMap
from maxent.tagging.tagger import Tagger, load_tagger
from maxent.tagging.template import TEMPLATES, Template

__all__ = [
    "TEMPLATES",
    "Attributes",
    "ConlluSentence",
    "InputChainMap",
    "PairChainMap",
    "PhraseScores",
    "Tagger",
    "Template",
    "Tokens",
    "TypeScores",
    "are_phrase_tags",
    "features",
    "is_conllu",
    "load_tagger",
    "phrase_scores",
    "phrases",
    "read_conll",
    "read_conllu",
    "write_conllu",
]
