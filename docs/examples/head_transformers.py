"""A model of transformers, made from a configuration: the two lines that change."""

from transformers import AutoModelForCausalLM, LlamaConfig

import maxent.torch as mt  # the first line
import torch

CLASSES = 400
config = LlamaConfig(
    vocab_size=CLASSES, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, bos_token_id=None, eos_token_id=None,
)  # fmt: skip
torch.manual_seed(0)
model = AutoModelForCausalLM.from_config(config)
mt.set_causal_loss(model, "entmax15")  # the second line


def train(model, steps):
    """As ``Trainer(model, arguments, train_dataset=words).train()`` does."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    model.train()
    for _ in range(steps):
        words = torch.randint(50, (16, 1)) + torch.arange(12)  # counting
        loss = model(words, labels=words).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


loss = train(model, 60)
model.eval()
asked = torch.tensor([[28, 29, 30]])
processor = mt.EntmaxLogitsProcessor(alpha=1.5)  # the map that belongs to the loss
answers = model.generate(
    asked.expand(50, -1), max_new_tokens=4, do_sample=True, top_k=0, pad_token_id=0,
    logits_processor=[processor],
)  # fmt: skip
right = (answers[:, 3:] == torch.arange(31, 35)).all(1).float().mean().item()
with torch.no_grad():
    possible = (processor(None, model(asked).logits[:, -1]) > -torch.inf).sum().item()
print(f"loss {loss:.3f}, samples that count on {right:.0%}, {possible} of {CLASSES} words possible")
assert right > 0.5
assert possible < 20
