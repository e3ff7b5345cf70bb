// Surveys and counts beside the records: files, and what was recognised in each.

import type { JSX } from "preact";
import type { Choices, Option, VisitFile } from "./api";
import { Chooser } from "./chooser";
import { Field, Notes, Trouble } from "./parts";
import { OptionInput } from "./settings";
import { addVisits, choose } from "./store";
import { visitColour, type Surveyed } from "./surveys";

const KINDS = [
  ["survey", "survey with absences"],
  ["counts", "counts"],
] as const;
const LABELS: Record<string, string> = {
  area_column: "Column of areas or effort",
  area_unit: "Unit of areas",
  site_area: "Area of every visit",
  count_column: "Column of individuals counted",
  visits_column: "Column of visits",
  weigh: "How to weigh kinds of records",
  area: "Area that probabilities are for",
  count_size: "Overdispersion of counts",
  effort_layers: "Layers of effort",
};

export function Visits({
  choices,
  surveyed,
  options,
}: {
  choices: Choices;
  surveyed: Surveyed;
  options: Record<string, Option>;
}): JSX.Element {
  const { answer, error, busy } = surveyed.visits;
  const { surveys, counts, sources } = choices;
  const files = [...surveys.map((path) => [path, "survey"] as const), ...counts.map((path) => [path, "counts"] as const)];
  const place = (path: string, kind: string | null): void => {
    const rest = { surveys: surveys.filter((other) => other !== path), counts: counts.filter((other) => other !== path) };
    if (kind === "survey") rest.surveys.push(path);
    if (kind === "counts") rest.counts.push(path);
    const none = !rest.surveys.length && !rest.counts.length;
    void choose({ ...rest, ...(none ? { sources: {} } : {}) });
  };
  const set = (name: string, value: unknown): void => {
    const { [name]: _, ...rest } = sources;
    const usual = options[name]?.default;
    void choose({ sources: value === usual || value === null || value === "" ? rest : { ...rest, [name]: value } });
  };
  return (
    <section class="visits" aria-label="surveys and counts">
      <p>
        Surveys that also say where the species was not found, and counts, if there are any: one fit takes all of them, and tells how
        many there are.
      </p>
      <Chooser kind="records" each label="Add a survey or counts" onChoose={(path) => void addVisits(path)} />
      {busy ? <p role="status">Reading surveys and counts …</p> : null}
      <Trouble text={error} />
      <ul class="plain">
        {files.map(([path, kind]) => (
          <li key={path}>
            <code>{path}</code>{" "}
            <select aria-label={`what ${path} is`} value={kind} onChange={(event) => place(path, event.currentTarget.value)}>
              {KINDS.map(([name, words]) => (
                <option key={name} value={name}>
                  {words}
                </option>
              ))}
            </select>{" "}
            <button type="button" class="small" onClick={() => place(path, null)}>
              remove
            </button>
            <Told file={answer?.files.find((one) => one.path === path && one.kind === kind)} />
          </li>
        ))}
      </ul>
      {files.length ? (
        <details open={Object.keys(sources).length > 0}>
          <summary>Columns, units and weights</summary>
          {Object.entries(options).map(([name, option]) => (
            <Field key={name} label={LABELS[name] ?? name.replaceAll("_", " ")} help={option.help}>
              <OptionInput option={option} value={sources[name] ?? option.default} onSet={(value) => set(name, value)} />
            </Field>
          ))}
        </details>
      ) : null}
    </section>
  );
}

function Told({ file }: { file: VisitFile | undefined }): JSX.Element | null {
  if (!file) return null;
  if (file.error) return <Trouble text={file.error} />;
  return (
    <>
      <p class="help">
        {file.visits} visits, <span class="dot" style={{ background: visitColour(true) }} /> {file.finds} of which found one,{" "}
        <span class="dot" style={{ background: visitColour(false) }} /> {file.visits - file.finds} in vain: {file.columns}
      </p>
      <Notes notes={file.notes} title="How the file was read" />
    </>
  );
}
