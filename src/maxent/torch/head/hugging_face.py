"""Losses and decoding for the causal language models of Hugging Face's transformers."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from torch.nn.functional import pad

from maxent.torch.head._lazy_scores import LazyLinear, LazyScores
from maxent.torch.head.loss import linear_fenchel_young_loss
from maxent.torch.maps._dispatch import compute_type
from maxent.torch.maps.entropies import Entropy, as_entropy
from maxent.torch.maps.functional import entmax
from maxent.torch.maps.losses import check_smoothing, fenchel_young_loss
from maxent.torch.maps.scaling import check_z_loss, checked_scaling
from torch import Tensor, nn

_NAME = "set_causal_loss"
_Model = TypeVar("_Model", bound=nn.Module)


@dataclass(frozen=True)
class CausalLoss:
    """What ``model.loss_function`` of a causal language model of transformers is called for.

    ``set_causal_loss`` gives one to a model, with a head whose scores are not computed. By itself,
    as ``model.loss_function = CausalLoss("entmax15")``, it takes the scores that there are.

    Parameters
    ----------
    entropy : str, float or Entropy, default "entmax15"
        "shannon" (cross-entropy), "sparsemax", "entmax15", a number `alpha >= 1`, or ``Shannon()``,
        ``Tsallis(alpha)``, ``NormEntropy(q)``.
    label_smoothing : float, default 0.0
        As in ``fenchel_young_loss``.
    temperature : float, default 1.0
        T: the loss is of `x = s / T` for scores s of the model.
    soft_cap : float, default None
        c: the loss is of `x = c tanh(s / c) / T`. A cap of the model itself is honoured without it.
    z_loss : float, default 0.0
        Adds this times `Omega*(x)^2` to each loss.

    Examples
    --------
    >>> import torch
    >>> scores, words = torch.tensor([[[0.0, 3.0], [1.0, 1.0]]]), torch.tensor([[0, 1]])
    >>> CausalLoss("sparsemax")(scores, words)  # the first word predicts the second
    tensor(0.)
    """

    entropy: str | float | Entropy = "entmax15"
    label_smoothing: float = 0.0
    temperature: float = 1.0
    soft_cap: float | None = None
    z_loss: float = 0.0

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        as_entropy(self.entropy)
        check_smoothing(self.label_smoothing)
        check_z_loss(self.z_loss)
        checked_scaling(self.temperature, self.soft_cap, None, "CausalLoss")

    def __call__(
        self,
        logits: Tensor,
        labels: Tensor | None,
        vocab_size: int | None = None,
        num_items_in_batch: Tensor | int | None = None,
        ignore_index: int = -100,
        shift_labels: Tensor | None = None,
        **others: Any,
    ) -> Tensor:
        """The loss, as transformers asks for it.

        Parameters
        ----------
        logits : tensor (..., tokens, n_classes)
            Scores.
        labels : int tensor (..., tokens)
            Each place predicts the next label.
        vocab_size : int, default None
            Not needed: the scores have it.
        num_items_in_batch : int or tensor, default None
            What the sum of the losses is divided by: the labels of all batches whose gradients are
            added up. None is the mean over those here.
        ignore_index : int, default -100
            Label of places that do not count.
        shift_labels : int tensor (..., tokens), default None
            What each place predicts, in the place of ``labels``.
        others
            What models pass on to any loss.
        """
        if shift_labels is None:
            if labels is None:
                raise ValueError("CausalLoss needs labels or shift_labels, got neither")
            shift_labels = pad(labels, (0, 1), value=ignore_index)[..., 1:]
        target = shift_labels.to(logits.device)
        if target.numel() == logits.shape[:-1].numel():
            target = target.reshape(logits.shape[:-1])
        reduction = "mean" if num_items_in_batch is None else "sum"
        loss = self._of(logits, target, ignore_index, reduction)
        if isinstance(num_items_in_batch, Tensor):
            num_items_in_batch = num_items_in_batch.to(loss.device)
        return loss if num_items_in_batch is None else loss / num_items_in_batch

    def _of(self, logits: Tensor, target: Tensor, ignore_index: int, reduction: str) -> Tensor:
        scaled = logits.scaled_layer() if isinstance(logits, LazyScores) else None
        if scaled is None or (scaled[1] is not None and self.soft_cap is not None):
            return fenchel_young_loss(
                logits.to(compute_type(logits)), target, self.entropy, reduction, ignore_index,
                dim=-1, label_smoothing=self.label_smoothing, temperature=self.temperature,
                soft_cap=self.soft_cap, z_loss=self.z_loss,
            )  # fmt: skip
        assert isinstance(logits, LazyScores)
        temperature, cap = scaled
        if self.soft_cap is not None:  # c tanh(s / (T c)) of scores s / T
            cap = self.soft_cap * temperature
        hidden, weight, bias = logits.layer
        return linear_fenchel_young_loss(
            hidden, weight, target, self.entropy, bias, ignore_index, reduction,
            label_smoothing=self.label_smoothing, temperature=self.temperature * temperature,
            soft_cap=cap, z_loss=self.z_loss,
        )  # fmt: skip


def set_causal_loss(
    model: _Model,
    entropy: str | float | Entropy = "entmax15",
    label_smoothing: float = 0.0,
    temperature: float = 1.0,
    soft_cap: float | None = None,
    z_loss: float = 0.0,
) -> _Model:
    """Train a causal language model of transformers with a Fenchel-Young loss and no scores.

    The model's ``loss_function`` becomes a ``CausalLoss``, and its head, an ``nn.Linear``, leaves
    its scores uncomputed in training: the loss takes hidden states and weight, as
    ``linear_fenchel_young_loss``, while ``outputs.logits`` are computed if anything looks at them.
    Factors and caps that a model has for its scores (Cohere, Granite, Gemma) are part of the loss.
    Names of weights, files and tied embeddings stay as they are, and so does the model in
    ``eval()``. Trainer's gradient accumulation is right to the token.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        It is changed.
    entropy : str, float or Entropy, default "entmax15"
        "shannon" (cross-entropy), "sparsemax", "entmax15", a number `alpha >= 1`, or ``Shannon()``,
        ``Tsallis(alpha)``, ``NormEntropy(q)``.
    label_smoothing : float, default 0.0
        As in ``fenchel_young_loss``. That of ``TrainingArguments`` would put transformers' own
        cross-entropy in the place of this loss.
    temperature : float, default 1.0
        T: the loss is of `x = s / T` for scores s of the model.
    soft_cap : float, default None
        c: the loss is of `x = c tanh(s / c) / T`. A cap of the model itself is honoured without it.
    z_loss : float, default 0.0
        Adds this times `Omega*(x)^2` to each loss.

    Returns
    -------
    transformers.PreTrainedModel
        The model.

    Notes
    -----
    Under ``torch.compile`` scores are computed. The loss is not saved with the model: call this
    again after ``from_pretrained``, before the model is compiled or given to FSDP.

    Examples
    --------
    >>> model = AutoModelForCausalLM.from_config(config)  # doctest: +SKIP
    >>> mt.set_causal_loss(model, "entmax15")  # doctest: +SKIP
    >>> Trainer(model, arguments, train_dataset=words).train()  # doctest: +SKIP
    """
    loss = CausalLoss(entropy, label_smoothing, temperature, soft_cap, z_loss)
    head = _checked_head(model)
    head.__class__ = LazyLinear
    cast(Any, model).loss_function = loss  # a property with a setter
    return model


def _checked_head(model: Any) -> nn.Linear:
    """The last layer of a model that asks ``loss_function`` for its loss."""
    name = type(model).__name__
    if not isinstance(getattr(type(model), "loss_function", None), property):
        raise TypeError(
            f"{_NAME} needs a model of transformers, got {name}; of one that is wrapped, give the "
            "model inside, as model.get_base_model() of peft"
        )
    from transformers.loss.loss_utils import ForCausalLMLoss

    own = model.loss_function
    asks = "loss_function" in inspect.unwrap(type(model).forward).__code__.co_names
    if not asks or not (own is ForCausalLMLoss or isinstance(own, CausalLoss)):
        raise ValueError(
            f"{_NAME} needs a causal language model whose loss is that of transformers for these; "
            f"{name} has {'another' if asks else 'a loss of its own'}"
        )
    if getattr(model.config, "is_encoder_decoder", False):
        raise ValueError(f"{_NAME} needs a decoder alone; {name} has an encoder, too")
    head = model.get_output_embeddings()
    if type(head) not in (nn.Linear, LazyLinear):
        raise ValueError(
            f"{_NAME} needs a head that is a torch.nn.Linear, {name} has {type(head).__name__}: "
            "use model.loss_function = CausalLoss(...), which takes the scores"
        )
    return head


class EntmaxLogitsProcessor:
    """Scores of ``model.generate`` as logarithms of entmax: -inf where a word is ruled out.

    ``do_sample=True`` draws from the sparse distribution that the model was trained with; greedy
    and beam search know which words cannot come. It is for all of ``alpha >= 1``.

    Parameters
    ----------
    alpha : float, default 1.5
        Index of entmax.
    temperature : float, default 1.0
        T: entmax of `s / T`. Below 1 supports are smaller.

    Notes
    -----
    ``generate`` applies its own temperature, ``top_k`` and ``top_p`` to what this returns, so leave
    those out, and give ``top_k=0`` where the model's generation config or the version of
    transformers has another.

    Examples
    --------
    >>> import torch
    >>> processor = EntmaxLogitsProcessor(alpha=2.0)
    >>> processor(None, torch.tensor([[1.0, 0.5, -3.0]])).exp()
    tensor([[0.7500, 0.2500, 0.0000]])
    >>> model.generate(words, do_sample=True, logits_processor=[processor])  # doctest: +SKIP
    """

    def __init__(self, alpha: float = 1.5, temperature: float = 1.0) -> None:
        self.alpha, self.temperature = alpha, temperature
        chosen = as_entropy(alpha)
        if chosen.kind != "tsallis":
            raise ValueError(f"EntmaxLogitsProcessor needs an alpha >= 1, got {alpha!r}")
        self._alpha = chosen.parameter
        self._scaling = checked_scaling(temperature, None, None, "EntmaxLogitsProcessor")

    def __repr__(self) -> str:
        """Its settings."""
        return f"EntmaxLogitsProcessor(alpha={self.alpha}, temperature={self.temperature})"

    def __call__(self, input_ids: Tensor | None, scores: Tensor) -> Tensor:
        """log p for scores (batch, n_classes); the words so far are not looked at."""
        wide = scores.to(compute_type(scores))
        p: Tensor = entmax(self._scaling.apply(wide), self._alpha)
        return p.log()
