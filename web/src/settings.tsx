// Settings: a few in plain words, and all the others by name.

import type { JSX } from "preact";
import type { Choices, Option } from "./api";
import { Chooser } from "./chooser";
import { MapExtent } from "./extent";
import { Entry, Field, Notes, Trouble } from "./parts";
import { choose } from "./store";
import { number, setSetting, type Surveyed } from "./surveys";

const PLAIN = ["features", "multiplier", "cv", "replicates", "threshold", "mask", "extent", "background", "clean", "thin", "bias_kernel"];

export function SettingsStep({
  choices,
  surveyed,
  options,
  rules,
}: {
  choices: Choices;
  surveyed: Surveyed;
  options: Record<string, Option>;
  rules: string[];
}): JSX.Element {
  const set = (name: string, value: unknown): void => setSetting(choices, name, value, options[name]?.default);
  const value = (name: string): unknown => choices.settings[name] ?? options[name]?.default;
  const groups = new Map<string, [string, Option][]>();
  for (const [name, option] of Object.entries(options)) {
    if (PLAIN.includes(name)) continue;
    const group = option.group ?? "Other";
    groups.set(group, [...(groups.get(group) ?? []), [name, option]]);
  }
  return (
    <>
      <Field label="Shape of response curves" help="Automatic: the more records, the more shapes are allowed.">
        <select value={String(value("features"))} onChange={(event) => set("features", event.currentTarget.value)}>
          <option value="auto">automatic</option>
          <option value="l">straight lines</option>
          <option value="lq">lines and humps</option>
          <option value="lqh">lines, humps and bends</option>
          <option value="lqph">also interactions of two variables</option>
          <option value="lqpht">everything, steps too</option>
        </select>
      </Field>
      <Field
        label={`Smoothness: ${String(value("multiplier"))}`}
        help="Larger gives smoother curves and a map that spreads further."
      >
        <input
          type="range"
          min="0.25"
          max="8"
          step="0.25"
          value={String(value("multiplier"))}
          onChange={(event) => set("multiplier", Number(event.currentTarget.value))}
        />
      </Field>
      <Field label="How to test the model" help="Blocks hold out whole areas: the honest test of a map.">
        <select value={String(value("cv"))} onChange={(event) => set("cv", event.currentTarget.value)}>
          <option value="auto">automatic</option>
          <option value="blocks">spatial blocks</option>
          <option value="checkerboard">checkerboard</option>
          <option value="environment">groups of like conditions</option>
          <option value="random">records at random</option>
          <option value="none">not at all</option>
        </select>
      </Field>
      <Field label="Replicates for a map of uncertainty" help="Refits on resampled records; 0 for none.">
        <Entry
          type="number"
          min="0"
          max="200"
          value={String(value("replicates"))}
          onEnter={(text) => set("replicates", number(text) ?? 0)}
        />
      </Field>
      <Field label="Threshold for a map of presence">
        <select value={String(value("threshold") ?? "")} onChange={(event) => set("threshold", event.currentTarget.value || null)}>
          <option value="">none (choose later on the map)</option>
          {rules.map((rule) => (
            <option key={rule}>{rule}</option>
          ))}
        </select>
      </Field>
      <Field label="Also map these layers (another time or place)">
        <ul class="plain">
          {choices.projections.map((folder) => (
            <li key={folder}>
              <code>{folder}</code>{" "}
              <button
                type="button"
                class="small"
                onClick={() => void choose({ projections: choices.projections.filter((other) => other !== folder) })}
              >
                remove
              </button>
            </li>
          ))}
        </ul>
      </Field>
      <Chooser
        kind="layers"
        folders
        label="Add a folder of future layers"
        onChoose={(path) => void choose({ projections: [...new Set([...choices.projections, path])] })}
      />
      <MapExtent
        extent={String(value("extent") ?? "layers")}
        mask={(value("mask") as string | null | undefined) ?? null}
        onChange={(changes) => {
          for (const [name, next] of Object.entries(changes)) set(name, next);
        }}
      >
        <>
          {surveyed.extent.answer ? <p class="chosen">On the map, dashed: {surveyed.extent.answer.words}</p> : null}
          <Trouble text={surveyed.extent.error} />
          <Notes notes={surveyed.extent.answer?.notes ?? []} />
        </>
      </MapExtent>
      {value("extent") === "region" && !Object.keys(choices.study).length ? (
        <p class="hint">There is no study region yet: choose one in step 3.</p>
      ) : null}
      <details>
        <summary>All options</summary>
        {[...groups].map(([group, members]) => (
          <fieldset key={group}>
            <legend>{group}</legend>
            {members.map(([name, option]) => (
              <Field key={name} label={name.replaceAll("_", " ")} help={option.help}>
                <OptionInput option={option} value={value(name)} onSet={(next) => set(name, next)} />
              </Field>
            ))}
          </fieldset>
        ))}
      </details>
    </>
  );
}

export function OptionInput({ option, value, onSet }: { option: Option; value: unknown; onSet: (value: unknown) => void }): JSX.Element {
  if (option.kind === "bool") {
    return <input type="checkbox" checked={Boolean(value)} onChange={(event) => onSet(event.currentTarget.checked)} />;
  }
  if (option.choices.length) {
    return (
      <select value={String(value ?? "")} onChange={(event) => onSet(event.currentTarget.value || null)}>
        {option.choices.map((choice) => (
          <option key={choice ?? ""} value={choice ?? ""}>
            {choice ?? "none"}
          </option>
        ))}
      </select>
    );
  }
  if (option.kind === "tuple") {
    return (
      <Entry value={(value as string[]).join(" ")} onEnter={(text) => onSet(text.split(/[\s,]+/).filter(Boolean))} />
    );
  }
  const numeric = option.kind === "int" || option.kind === "float";
  return (
    <Entry
      type={numeric ? "number" : "text"}
      step={option.kind === "int" ? 1 : "any"}
      min={option.least ?? undefined}
      max={option.most ?? undefined}
      value={String(value ?? "")}
      onEnter={(text) => onSet(text === "" ? option.default : numeric ? Number(text) : text)}
    />
  );
}
