"""A small Llama, made from a configuration, that attends by sparsemax and learns to count."""

from transformers import AutoModelForCausalLM, LlamaConfig

import maxent.torch as mt
import torch

mt.register_attention("entmax", alpha=2)  # 1.5 if nothing is said
config = LlamaConfig(
    vocab_size=32, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, bos_token_id=None, eos_token_id=None,
)  # fmt: skip
torch.manual_seed(0)
model = AutoModelForCausalLM.from_config(config, attn_implementation="entmax")

optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for _ in range(60):
    words = (torch.randint(32, (4, 1)) + torch.arange(12)) % 32
    optimizer.zero_grad()
    model(words, labels=words).loss.backward()
    optimizer.step()

model.eval()
asked = torch.tensor([[28, 29, 30]])
answer = model.generate(
    asked, attention_mask=torch.ones_like(asked), max_new_tokens=4, do_sample=False, pad_token_id=0
)
print("28, 29, 30, and then", answer[0, 3:].tolist())
weights = model(words, output_attentions=True).attentions[0]  # (batch, heads, queries, keys)
print("keys of the last token, a head at a time:", (weights[0, :, -1] > 0).sum(-1).tolist())

assert answer[0, 3:].tolist() == [31, 0, 1, 2]
assert torch.allclose(weights.sum(-1), torch.ones(4, 4, 12), atol=1e-5)
