// Records: a file, what becomes of them, and which species are fitted.

import type { JSX } from "preact";
import type { Choices, Option } from "./api";
import { Chooser } from "./chooser";
import { Check, Entry, Field, Notes, Trouble } from "./parts";
import { RecordSources } from "./sources";
import { SpeciesList } from "./species";
import { choose } from "./store";
import { fateColour, number, setSetting, shownSpecies, type Surveyed } from "./surveys";
import { Visits } from "./visits";

export function RecordsStep({
  choices,
  surveyed,
  options,
}: {
  choices: Choices;
  surveyed: Surveyed;
  options: Record<string, Option>; // of surveys and counts
}): JSX.Element {
  const { answer, error, busy } = surveyed.records;
  const columns = choices.records as Record<string, string | undefined>;
  const { basis, max_uncertainty: uncertainty } = choices.records;
  const set = (name: string, value: string | string[] | number | undefined): void => {
    const { [name as "path"]: _, ...rest } = choices.records;
    const empty = value === undefined || (typeof value !== "number" && !value.length);
    void choose({ records: empty ? rest : { ...rest, [name]: value } });
  };
  const several = (answer?.species.length ?? 0) > 1;
  const cleaned = Boolean(choices.settings.clean || choices.settings.thin || basis?.length || uncertainty);
  const told = (notes: string[]): string[] => notes.map((note) => without(note, choices.records.path));
  return (
    <>
      <p>The places where the species was seen: a download of GBIF as it is (zip), or a table of your own.</p>
      <Chooser kind="records" label="Choose a file of records" onChoose={(path) => void choose({ records: { path }, species: [] })} />
      {choices.records.path ? (
        <p class="chosen">
          Records: <code>{choices.records.path}</code>
        </p>
      ) : null}
      {choices.records.path ? null : <RecordSources />}
      {busy ? <p role="status">Reading records …</p> : null}
      <Trouble text={error} />
      {answer ? (
        <>
          {answer.species.length > 1 ? <SpeciesList answer={answer} chosen={choices.species} /> : null}
          <table>
            <caption>What becomes of the records{several ? "" : ` of ${answer.species[0]?.name ?? "no species"}`}</caption>
            <thead>
              <tr>
                {several ? <th scope="col">species</th> : null}
                <th scope="col" class="n">
                  records
                </th>
                <th scope="col">fate</th>
              </tr>
            </thead>
            <tbody>
              {shownSpecies(answer, choices.species).flatMap((one) =>
                Object.entries(one.counts).map(([fate, count]) => (
                  <tr key={one.name + fate}>
                    {several ? <th scope="row">{one.name}</th> : null}
                    <td class="n">{count}</td>
                    <td>
                      <span class="dot" style={{ background: fateColour(fate) }} /> {fate}
                    </td>
                  </tr>
                )),
              )}
            </tbody>
          </table>
          <p class="help">Click a point on the map to leave it out or to bring it back; draw a rectangle to leave out all within.</p>
          {choices.records.leave_out?.length ? (
            <button type="button" class="small" onClick={() => set("leave_out", "")}>
              bring all records back
            </button>
          ) : null}
          <Notes notes={told(shownSpecies(answer, choices.species).flatMap((one) => one.notes))} title="Doubtful records" />
          <Notes notes={told(answer.notes)} title="How the file was read" />
        </>
      ) : null}
      {choices.records.path ? (
        <details open={cleaned || answer?.species.some((one) => one.notes.length > 0)}>
          <summary>Cleaning</summary>
          <Check
            label="Leave out doubtful places"
            help="At 0, 0, with a lost minus sign, at capitals, museums or centroids, with few decimals, flagged by GBIF. Each kind is counted."
            checked={choices.settings.clean === true}
            onCheck={(on) => setSetting(choices, "clean", on, false)}
          />
          <Field label="Leave out places less certain than so many metres" help="By GBIF's column coordinateUncertaintyInMeters; records that do not say stay.">
            <Entry type="number" min="0" step="any" value={String(uncertainty ?? "")} onEnter={(text) => set("max_uncertainty", number(text))} />
          </Field>
          <Field label="Kinds of record to use" help="Bases of record, such as HUMAN_OBSERVATION, separated by commas; empty for all.">
            <Entry value={(basis ?? []).join(", ")} placeholder="all" onEnter={(text) => set("basis", text.split(/[\s,;]+/).filter(Boolean))} />
          </Field>
          <Field label="Keep records so many km apart" help="Thinning, where some places were searched more than others.">
            <Entry
              type="number"
              min="0"
              step="any"
              value={String(choices.settings.thin ?? "")}
              onEnter={(text) => setSetting(choices, "thin", number(text))}
            />
          </Field>
        </details>
      ) : null}
      {choices.records.path ? (
        <details>
          <summary>Columns</summary>
          {(
            [
              ["species", "Column of names"],
              ["x", "Column of longitude or x"],
              ["y", "Column of latitude or y"],
              ["crs", "Coordinate reference system"],
              ["presence", "Column of presence and absence"],
            ] as const
          ).map(([name, label]) => (
            <Field key={name} label={label}>
              <Entry value={columns[name] ?? ""} placeholder="recognised by itself" onEnter={(text) => set(name, text)} />
            </Field>
          ))}
        </details>
      ) : null}
      {choices.records.path ? <Visits choices={choices} surveyed={surveyed} options={options} /> : null}
    </>
  );
}

/** A note without the name of the one file that all are about. */
function without(note: string, path: string | undefined): string {
  const name = path?.slice(path.lastIndexOf("/") + 1);
  if (!name) return note;
  const rest = note.startsWith(`${name}: `) ? note.slice(name.length + 2) : note;
  return rest.replaceAll(`${name}, row `, "row ");
}
