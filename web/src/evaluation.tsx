// A fitted model scored on other records, or on places with presence and absence.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { api, type Afterwards, type Result } from "./api";
import { Chooser } from "./chooser";
import { short, type Curve } from "./curves";
import { Curves, Entry, Field, Trouble, useAnswer } from "./parts";
import { start, usePage } from "./store";

const NAMES: Record<string, string> = {
  n_presences: "presences",
  n_without_data: "records without data",
  n_absences: "absences",
  n_background: "background cells",
  auc: "AUC",
  auc_sd: "its standard deviation",
  max_tss: "largest TSS",
  max_tss_threshold: "at the suitability",
  correlation: "correlation (COR)",
  boyce: "Boyce index",
  gain: "gain",
  brier: "Brier score",
  log_loss: "log loss",
  calibration_slope: "slope of calibration",
  calibration_intercept: "intercept of calibration",
  omission_minimum: "omission at the minimum training presence",
  omission_10_percentile: "omission at the 10 percentile training presence",
};
type Scores = Afterwards["evaluations"][number];

/** What was made of a result after its fit; asked for again when a job ends. */
export function useAfterwards(run: string): { answer: Afterwards | null; error: string } {
  const { job } = usePage();
  return useAnswer(`afterwards ${run} ${job?.number} ${job?.status}`, () => api.afterwards(run));
}

export function Evaluations({ result }: { result: Result }): JSX.Element {
  const { job } = usePage();
  const { answer, error } = useAfterwards(result.run);
  const [records, setRecords] = useState("");
  const [absences, setAbsences] = useState("");
  const [presence, setPresence] = useState("");
  const [species, setSpecies] = useState("");
  const busy = job?.status === "running";
  const asked = { run: result.run, records, absences: absences || null, presence: presence || null, species: species || null };
  return (
    <details class="analysis">
      <summary>Test it on other records</summary>
      <p>
        Records that the fit has not seen. Where the file says presence and absence, or absences are in a file of their own, they are
        compared with each other; else presences are compared with the background.
      </p>
      <Chooser kind="records" label="Choose records to test with" onChoose={setRecords} />
      {records ? (
        <p class="chosen">
          Test with: <code>{records}</code>
        </p>
      ) : null}
      <Chooser kind="records" label="Choose a file of absences (if any)" onChoose={setAbsences} />
      {absences ? (
        <p class="chosen">
          Absences: <code>{absences}</code>{" "}
          <button type="button" class="small" onClick={() => setAbsences("")}>
            none
          </button>
        </p>
      ) : null}
      <div class="options">
        <Field label="Column of presence and absence">
          <Entry value={presence} placeholder="recognised by itself" onEnter={setPresence} />
        </Field>
        <Field label="Species in the file">
          <Entry value={species} placeholder={result.species} onEnter={setSpecies} />
        </Field>
      </div>
      <button type="button" disabled={!records || busy} onClick={() => void start(() => api.evaluate(asked))}>
        Test the model
      </button>
      <Trouble text={error} />
      {answer?.evaluations.map((one) => <Evaluated key={one.name} one={one} />)}
    </details>
  );
}

function Evaluated({ one }: { one: Scores }): JSX.Element {
  const curve = useMemo(() => calibration(one), [one]);
  const rows = Object.entries(one.scores).filter(([name, value]) => name !== "species" && value !== null && value !== "");
  return (
    <>
      <table>
        <caption>
          On {one.name} <span class="soft">({"n_absences" in one.scores ? "presences against absences" : "presences against background"})</span>
        </caption>
        <tbody>
          {rows.map(([name, value]) => (
            <tr key={name}>
              <th scope="row">{NAMES[name] ?? name}</th>
              <td class="n">{typeof value === "number" ? short(value) : String(value)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {curve ? <Curves curve={curve} height={230} /> : null}
      <p>
        <a href={`/results/${one.file}`} target="_blank" rel="noopener">
          the table
        </a>
      </p>
    </>
  );
}

function calibration(one: Scores): Curve | null {
  if (one.calibration.length < 2) return null;
  const column = (name: string): number[] => one.calibration.map((row) => row[name] ?? NaN);
  const x = column("predicted");
  return {
    title: "Calibration",
    x,
    xLabel: "predicted probability",
    yLabel: "share present",
    yRange: [0, 1],
    dots: true,
    lines: [
      { label: "observed", values: column("observed"), colour: "#0f9f92" },
      { label: "perfect", values: x, colour: "#8a938f", dash: [5, 4] },
    ],
    band: { low: column("low"), high: column("high"), colour: "#0f9f92" },
  };
}
