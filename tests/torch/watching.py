"""How large the tensors are that something makes on its way."""

from torch.utils._python_dispatch import TorchDispatchMode

import torch


class Watch(TorchDispatchMode):
    """Within it ``largest`` is the most entries of a tensor so far; subclasses do not count."""

    largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        several = out if isinstance(out, tuple | list) else [out]
        made = [x.numel() for x in several if type(x) is torch.Tensor]
        self.largest = max([self.largest, *made])
        return out
