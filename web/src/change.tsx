// What is lost, kept and gained: of all cells, and without those where the model has to guess.

import type { JSX } from "preact";
import type { Result } from "./api";
import { short } from "./curves";

const PARTS = ["lost", "kept", "gained"] as const;
type Row = Result["changes"][number];

export function ChangeTable({ changes }: { changes: Row[] }): JSX.Element {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="range change">
      <table class="changes">
        <caption>Range change: suitable from {[...new Set(changes.map((row) => short(Number(row.threshold))))].join(" or ")} on</caption>
        <thead>
          <tr>
            <th scope="col">scenario</th>
            {PARTS.map((part) => (
              <th scope="col" class="n" key={part}>
                {part}, km²
              </th>
            ))}
            <th scope="col" class="n">
              change
            </th>
            {PARTS.map((part) => (
              <th scope="col" class="n" key={part}>
                {part}, cells
              </th>
            ))}
          </tr>
        </thead>
        {changes.map((row, i) => (
          <tbody key={i}>
            <tr>
              <th scope="row">{String(row.scenario)}</th>
              <Numbers row={row} of="" />
            </tr>
            <tr class="within">
              <th scope="row">{extrapolating(row)}</th>
              {typeof row.lost_cells_within === "number" ? <Numbers row={row} of="_within" /> : <td colSpan={7} />}
            </tr>
          </tbody>
        ))}
      </table>
      <p class="help">
        A cell extrapolates where a variable lies outside its range at the fit, now or then (MESS below 0): what the maps say there is a
        guess.
      </p>
    </div>
  );
}

function Numbers({ row, of }: { row: Row; of: "" | "_within" }): JSX.Element {
  const whole = (name: string): string => {
    const value = row[`${name}${of}`];
    return typeof value === "number" ? Math.round(value).toLocaleString() : "";
  };
  if (!compared(row, of)) return <td colSpan={7}>nothing to compare: no such cell is known in both maps</td>;
  return (
    <>
      {PARTS.map((part) => (
        <td class="n" key={part}>
          {whole(`${part}_km2`)}
        </td>
      ))}
      <td class="n">{changed(row, of)}</td>
      {PARTS.map((part) => (
        <td class="n" key={part}>
          {whole(`${part}_cells`)}
        </td>
      ))}
    </>
  );
}

/** How many cells both maps know. */
const compared = (row: Row, of: "" | "_within"): number => Number(row.cells) - (of ? Number(row.extrapolating_cells) : 0);

function extrapolating(row: Row): string {
  const cells = row.extrapolating_cells;
  if (typeof cells !== "number" || typeof row.extrapolating_percent !== "number") return "how many cells extrapolate is not known";
  if (!cells) return "no cell extrapolates";
  return `without the ${cells.toLocaleString()} cells (${row.extrapolating_percent.toFixed(1)} %) that extrapolate`;
}

function changed(row: Row, of: "" | "_within"): string {
  const percent = row[`change_percent${of}`];
  if (typeof percent === "number") return `${percent < 0 ? "−" : "+"}${Math.abs(percent).toFixed(1)} %`;
  return Number(row[`gained_cells${of}`]) > 0 ? "none before" : "no range";
}
