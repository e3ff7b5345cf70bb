// Records: a file, what becomes of them, and which species are fitted.

import type { JSX } from "preact";
import type { Choices } from "./api";
import { Chooser } from "./chooser";
import { Entry, Field, Notes, Trouble } from "./parts";
import { RecordSources } from "./sources";
import { SpeciesList } from "./species";
import { choose } from "./store";
import { fateColour, number, setSetting, shownSpecies, type Surveyed } from "./surveys";

export function RecordsStep({ choices, surveyed }: { choices: Choices; surveyed: Surveyed }): JSX.Element {
  const { answer, error, busy } = surveyed.records;
  const columns = choices.records as Record<string, string | undefined>;
  const set = (name: string, value: string): void => {
    const { [name]: _, ...rest } = choices.records;
    void choose({ records: value ? { ...rest, [name]: value } : rest });
  };
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
            <caption>What becomes of the records</caption>
            <thead>
              <tr>
                <th scope="col">species</th>
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
                    <th scope="row">{one.name}</th>
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
          <Notes notes={answer.notes} title="How the file was read" />
        </>
      ) : null}
      {choices.records.path ? (
        <details>
          <summary>Columns and cleaning</summary>
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
    </>
  );
}
