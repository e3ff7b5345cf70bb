// Presence at a threshold: a rule of the table, or any value.

import type { JSX } from "preact";

export interface Cut {
  rule: string; // "" for a value of one's own
  value: number;
  shown: boolean;
}

export function ThresholdControl({
  rules,
  cut,
  onCut,
}: {
  rules: { name: string; value: number }[];
  cut: Cut;
  onCut: (cut: Cut) => void;
}): JSX.Element {
  return (
    <div class="row threshold">
      <label>
        <input type="checkbox" checked={cut.shown} onChange={(event) => onCut({ ...cut, shown: event.currentTarget.checked })} />{" "}
        presence at
      </label>
      <select
        aria-label="threshold rule"
        value={cut.rule}
        onChange={(event) => {
          const rule = event.currentTarget.value;
          const found = rules.find((one) => one.name === rule);
          onCut({ rule, value: found?.value ?? cut.value, shown: true });
        }}
      >
        <option value="">a value of my own</option>
        {rules.map((one) => (
          <option key={one.name}>{one.name}</option>
        ))}
      </select>
      <input
        type="range"
        aria-label="threshold"
        min="0"
        max="1"
        step="0.001"
        value={cut.value}
        onInput={(event) => onCut({ rule: "", value: Number(event.currentTarget.value), shown: true })}
      />
      <output>{cut.value.toFixed(3)}</output>
    </div>
  );
}

/** The cut of a rule by its name, the start of it, or a number. */
export function cutOf(rules: { name: string; value: number }[], rule: string): Cut {
  const found = rules.find((one) => one.name.toLowerCase().startsWith(rule.toLowerCase()));
  const given = Number(rule);
  const value = found?.value ?? (rule && Number.isFinite(given) ? given : 0.5);
  return { rule: found?.name ?? "", value, shown: false };
}
