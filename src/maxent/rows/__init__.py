"""Where the scores theta and the distributions p of a problem live, and sums over them.

``Evaluator.evaluate(entropy, w)`` gives the ``Evaluation`` at some weights: arrays in memory
(``local``), or blocks in files and on the workers of a cluster (``blocks``, ``dask``). No other
room asks which of them it is.
"""
