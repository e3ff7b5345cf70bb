// Settings compared by cross-validation: what to compare, how far it is, and what came of it.

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { api, type Choices, type Draft, type Fields, type Job, type ListedTuning, type State, type Statistics, type TunedSpecies, type Tuning } from "./api";
import { CLASSES } from "./colours";
import { short, type Curve } from "./curves";
import { JobNotes, Progress } from "./fit";
import type { GridMap } from "./gridmap";
import { Histogram } from "./histogram";
import { MapView } from "./mapview";
import { Choice, Copy, Curves, Entry, Field, Notes, Trouble, useAnswer } from "./parts";
import { choose, start, usePage } from "./store";

const CLASSES_OF_FEATURES: [string, string][] = [
  ["l", "lines"],
  ["lq", "lines, humps"],
  ["h", "bends"],
  ["lqh", "lines, humps, bends"],
  ["lqp", "lines, humps, interactions"],
  ["lqph", "also bends"],
  ["lqpht", "everything, steps too"],
];
const USUAL = { features: ["l", "lq", "lqh", "lqph"], multipliers: [0.5, 1, 2, 4, 8] };
const PARTITIONS: [string, string][] = [
  ["blocks", "spatial blocks"],
  ["checkerboard", "checkerboard (2 folds)"],
  ["checkerboard2", "double board (4 folds)"],
  ["environment", "groups of like conditions"],
  ["random", "records at random"],
  ["jackknife", "each record alone"],
  ["column", "a column of the records"],
];
const RULES: [string, string][] = [
  ["log_loss", "density at held-out ones"],
  ["auc", "held-out AUC"],
  ["omission_10,auc", "omission 10 %, then AUC"],
  ["omission_minimum,auc", "least omission, then AUC"],
  ["auc_difference", "difference of AUC"],
  ["boyce", "held-out Boyce index"],
  ["aicc", "AICc"],
  ["partial_roc", "partial ROC"],
];
const USUAL_RULE = "log_loss";
const FOLDED = ["blocks", "environment", "random"]; // whose number of folds can be chosen
const BOARDS = ["checkerboard", "checkerboard2"];
const PARTED = ["blocks", "environment", ...BOARDS]; // whose folds have background of their own

/** The comparisons of the opened folders; asked for again when a job ends. */
export function useTunings(): ListedTuning[] {
  const { job, state } = usePage();
  const key = state ? `tunings ${job?.kind === "tune" ? `${job.number} ${job.status}` : ""}` : null;
  return useAnswer(key, api.tunings).answer ?? [];
}

// -- what to compare ---------------------------------------------------------------------------------

export function TuningStep({ choices, draft }: { choices: Choices; draft: Draft }): JSX.Element {
  const { job } = usePage();
  const { tuning } = choices;
  const [own, setOwn] = useState(Boolean(tuning.column));
  const [wrong, setWrong] = useState("");
  const features = tuning.features ?? USUAL.features;
  const multipliers = tuning.multipliers ?? USUAL.multipliers;
  const partition = own ? "column" : String(tuning.partition ?? "blocks");
  const scoring = String(tuning.scoring ?? USUAL_RULE);
  const rules = RULES.some(([name]) => name === scoring) ? RULES : [...RULES, [scoring, scoring] as const];
  const set = (changes: Fields): void => {
    const next = Object.entries({ ...tuning, ...changes }).filter(([, value]) => value !== undefined && value !== "");
    void choose({ tuning: Object.fromEntries(next) });
  };
  const toggle = (letters: string, on: boolean): void => {
    const kept = features.filter((other) => other !== letters);
    const order = [...new Set([...CLASSES_OF_FEATURES.map(([name]) => name), ...features])];
    const next = on ? [...kept, letters] : kept;
    set({ features: order.filter((name) => next.includes(name)) });
  };
  const cut = (kind: string): void => {
    setOwn(kind === "column");
    // what has no effect on the other kind is taken back
    set({
      partition: kind === "column" || kind === "blocks" ? undefined : kind,
      column: undefined,
      folds: FOLDED.includes(kind) ? tuning.folds : undefined,
      squares: BOARDS.includes(kind) ? tuning.squares : undefined,
      validation: PARTED.includes(kind) ? tuning.validation : undefined,
    });
  };
  const several = (text: string): void => {
    const words = text.split(/[\s,;]+/).filter(Boolean);
    const odd = words.find((word) => !Number.isFinite(Number(word)));
    setWrong(odd === undefined ? "" : `Multipliers are numbers with a point, separated by commas; “${odd}” is none.`);
    if (odd === undefined) set({ multipliers: words.map(Number) });
  };
  const known = new Set(CLASSES_OF_FEATURES.map(([name]) => name));
  const offered = [...CLASSES_OF_FEATURES, ...features.filter((name) => !known.has(name)).map((name): [string, string] => [name, ""])];
  const number = (text: string): number | undefined => (text === "" ? undefined : Number(text));
  const { lacks, notes, command } = draft.tuning;
  const busy = job?.status === "running";
  return (
    <>
      <p>Fit the same records with several settings, test each on records that were held out, and keep the best.</p>
      <fieldset>
        <legend>Feature classes</legend>
        <div class="checks">
          {offered.map(([letters, words]) => (
            <label key={letters}>
              <input type="checkbox" checked={features.includes(letters)} onChange={(event) => toggle(letters, event.currentTarget.checked)} />{" "}
              <code>{letters}</code> <span class="soft">{words}</span>
            </label>
          ))}
        </div>
      </fieldset>
      <div class="options">
        <Field label="Multipliers" help="Larger is smoother.">
          <Entry value={multipliers.join(", ")} onEnter={several} />
        </Field>
        <Field label="Hold out">
          <Choice value={partition} of={PARTITIONS} onChoose={cut} />
        </Field>
        {partition === "column" ? (
          <Field label="Column of folds">
            <Entry value={String(tuning.column ?? "")} onEnter={(text) => set({ column: text || undefined })} />
          </Field>
        ) : null}
        {FOLDED.includes(partition) ? (
          <Field label="Number of folds">
            <Entry type="number" min="2" max="50" value={String(tuning.folds ?? 4)} onEnter={(text) => set({ folds: number(text) })} />
          </Field>
        ) : null}
        {BOARDS.includes(partition) ? (
          <Field label="Cells along a square">
            <Entry type="number" min="1" placeholder="by the records" value={String(tuning.squares ?? "")} onEnter={(text) => set({ squares: number(text) })} />
          </Field>
        ) : null}
        {PARTED.includes(partition) ? (
          <Field label="Compare test records with">
            <select value={String(tuning.validation ?? "full")} onChange={(event) => set({ validation: event.currentTarget.value === "full" ? undefined : event.currentTarget.value })}>
              <option value="full">all background</option>
              <option value="partition">background of their own part</option>
            </select>
          </Field>
        ) : null}
        <Field label="Choose by">
          <Choice value={scoring} of={rules} onChoose={(name) => set({ scoring: name === USUAL_RULE ? undefined : name })} />
        </Field>
        <Field label="Null models" help="The best settings on places drawn at random; 0 for none.">
          <Entry type="number" min="0" max="1000" value={String(tuning.null ?? 0)} onEnter={(text) => set({ null: number(text) || undefined })} />
        </Field>
        <Field label="Partial ROC at this % of omission" help="Such as 5; empty for none.">
          <Entry type="number" min="0.1" max="99" step="any" value={String(tuning.partial_roc ?? "")} onEnter={(text) => set({ partial_roc: number(text) })} />
        </Field>
      </div>
      <Trouble text={wrong} />
      <Notes notes={notes} />
      {lacks ? <p class="hint">Before a comparison: {lacks}.</p> : null}
      <p>
        {features.length * multipliers.length} candidates.{" "}
        <button type="button" disabled={Boolean(lacks || wrong) || busy} onClick={() => void start(api.tune)}>
          Compare settings
        </button>{" "}
        <Copy text={command} label="copy command" />
      </p>
      {job?.kind === "tune" ? <TuningProgress job={job} /> : null}
    </>
  );
}

/** How far every candidate is; at the end the way to the table. */
function TuningProgress({ job }: { job: Job }): JSX.Element {
  const fits = job.events.filter((event) => event.kind === "candidate");
  const names = [...new Set(fits.map((event) => kindOf(event.features, event.potential)))];
  const multipliers = [...new Set(fits.map((event) => event.multiplier!))].sort((a, b) => a - b);
  const [done, total] = ["done", "total"].map((what) => fits.reduce((sum, event) => sum + (event[what as "done"] ?? 0), 0));
  const at = (name: string, multiplier: number): JSX.Element => {
    const one = fits.find((event) => kindOf(event.features, event.potential) === name && event.multiplier === multiplier);
    const [have, need] = [one?.done ?? 0, one?.total ?? 1];
    return (
      <td key={multiplier} class={have === need ? "done" : ""}>
        {have === need ? <span aria-label="done">✓</span> : have ? <progress max={need} value={have} aria-label={`${have} of ${need} fits`} /> : <span class="soft">–</span>}
      </td>
    );
  };
  return (
    <>
      {job.status === "done" ? (
        <>
          <p role="status">
            <a href={`#tuning=${encodeURIComponent(job.out)}`}>See the comparison</a> in <code>{job.out}</code>
          </p>
          <JobNotes job={job} />
        </>
      ) : (
        <Progress onResult={() => undefined} />
      )}
      {job.status !== "done" && fits.length ? (
        <div class="scroll" tabIndex={0} role="region" aria-label="how far the candidates are">
          <table class="candidates">
            <caption>
              Candidates: {done} of {total} fits
            </caption>
            <thead>
              <tr>
                <th scope="col">features</th>
                {multipliers.map((multiplier) => (
                  <th scope="col" key={multiplier}>
                    × {multiplier}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {names.map((name) => (
                <tr key={name}>
                  <th scope="row">
                    <code>{name}</code>
                  </th>
                  {multipliers.map((multiplier) => at(name, multiplier))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : null}
    </>
  );
}

const kindOf = (features: unknown, potential: unknown): string =>
  potential === "box" || potential == null ? String(features ?? "") : `${String(features)} ${String(potential)}`;

// -- what came of it ---------------------------------------------------------------------------------

export function TuningView({ tuning, tunings, state, go }: { tuning: string; tunings: ListedTuning[]; state: State; go: (to: string) => void }): JSX.Element {
  const { job } = usePage();
  const written = tunings.find((one) => one.tuning === tuning)?.written ?? 0;
  const { answer, error, busy } = useAnswer(`${tuning} ${written}`, () => api.tuning(tuning));
  const [species, setSpecies] = useState("");
  const one = answer?.species.find((tuned) => tuned.species === species) ?? answer?.species[0];
  return (
    <div class="tuned">
      <div class="row">
        <Field label="Comparison">
          <select value={tuning} onChange={(event) => go(`tuning=${encodeURIComponent(event.currentTarget.value)}`)}>
            {(tunings.some((listed) => listed.tuning === tuning) ? tunings : [{ tuning }, ...tunings]).map((listed) => (
              <option key={listed.tuning} value={listed.tuning}>
                {listed.tuning}
              </option>
            ))}
          </select>
        </Field>
        {(answer?.species.length ?? 0) > 1 ? (
          <Field label="Species">
            <select value={one?.species} onChange={(event) => setSpecies(event.currentTarget.value)}>
              {answer!.species.map((tuned) => (
                <option key={tuned.species}>{tuned.species}</option>
              ))}
            </select>
          </Field>
        ) : null}
      </div>
      {busy && !answer ? <p role="status">Reading the comparison …</p> : null}
      <Trouble text={error} />
      {job && (job.status === "running" || job.out.startsWith(`${tuning}-fit`)) ? (
        <Progress onResult={(run) => go(`result=${encodeURIComponent(run)}`)} />
      ) : null}
      {answer && one && one.rows.length ? <Tuned key={`${tuning} ${one.species}`} answer={answer} one={one} state={state} go={go} /> : null}
      {answer && (!one || !one.rows.length) ? <p>This folder has no table of candidates.</p> : null}
    </div>
  );
}

function Tuned({ answer, one, state, go }: { answer: Tuning; one: TunedSpecies; state: State; go: (to: string) => void }): JSX.Element {
  const { job } = usePage();
  const best = one.rows[0]!;
  const folds = [...new Set(one.places.fold)].sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
  const take = async (row: Statistics): Promise<void> => {
    if (answer.known) {
      await start(() => api.fitCandidate(answer.tuning, one.species, Number(row.rank)));
    } else {
      const { features, multiplier, potential } = row;
      const { potential: _, ...rest } = state.draft.choices.settings;
      const settings = { ...rest, features, multiplier, ...(potential === "box" ? {} : { potential }) };
      if (await choose({ settings })) go("");
    }
  };
  const label = answer.known ? "fit this one" : "use these settings";
  const busy = job?.status === "running" || state.viewing;
  return (
    <>
      <h2>{one.species}</h2>
      <p>
        Best of {one.rows.length}: <code>{kindOf(best.features, best.potential)}</code>, multiplier {String(best.multiplier)}.{" "}
        <button type="button" class="main" disabled={busy} onClick={() => void take(best)}>
          {answer.known ? "Fit the best" : "Use the best"}
        </button>
      </p>
      <p class="help">
        {answer.known
          ? "A fit takes the records, layers and background that were compared, in a folder of its own."
          : "The page did not make this comparison: its records and layers are not known here. The settings go to the steps of a new run, to whatever is chosen there."}
      </p>
      <Candidates one={one} label={label} busy={busy} onTake={(row) => void take(row)} />
      <div class="columns">
        <section aria-label="criteria">
          <h3>Criteria along the multiplier</h3>
          <Criteria one={one} />
        </section>
        <section aria-label="partition">
          <h3>Which records were held out together</h3>
          {answer.grid && one.places.x.length ? (
            <Partition grid={answer.grid} one={one} folds={folds} />
          ) : (
            <p>This comparison has no table of its partition; it was made by an earlier version.</p>
          )}
        </section>
      </div>
      {one.null_test.length ? <Nulls one={one} /> : null}
      {one.report ? (
        <p>
          <a href={`/results/${one.report}`} target="_blank" rel="noopener">
            The page of this comparison
          </a>{" "}
          says how each statistic is computed; its tables lie beside it in <code>{answer.tuning}</code>.
        </p>
      ) : null}
      {answer.command ? (
        <p>
          <Copy text={answer.command} label="copy command" /> <code>{answer.command}</code>
        </p>
      ) : null}
    </>
  );
}

// -- the table ---------------------------------------------------------------------------------------

type Order = { name: string; down: boolean };

function Candidates({ one, label, busy, onTake }: { one: TunedSpecies; label: string; busy: boolean; onTake: (row: Statistics) => void }): JSX.Element {
  const [order, setOrder] = useState<Order>({ name: "rank", down: false });
  const rows = useMemo(() => sorted(one.rows, order), [one, order]);
  const tops = useMemo(() => new Map(one.columns.map(({ name, better }) => [name, better ? bestOf(one.rows, name, better) : null])), [one]);
  const by = (name: string, better: number): void =>
    setOrder((now) => ({ name, down: now.name === name ? !now.down : better > 0 }));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="candidates">
      <table class="compared">
        <caption>Candidates; click a heading to sort. The best of each column is underlined.</caption>
        <thead>
          <tr>
            <td />
            {one.columns.map(({ name, title, says, better }) => (
              <th
                key={name}
                scope="col"
                class={name === "features" ? "" : "n"}
                title={says}
                aria-sort={order.name === name ? (order.down ? "descending" : "ascending") : undefined}
              >
                <button type="button" class="sort" onClick={() => by(name, better)}>
                  {title}
                  {order.name === name ? (order.down ? " ↓" : " ↑") : ""}
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={String(row.rank)} class={row.rank === 1 ? "best" : ""}>
              <td>
                <button
                  type="button"
                  class="small"
                  disabled={busy}
                  aria-label={`${label}: ${kindOf(row.features, row.potential)}, multiplier ${String(row.multiplier)}`}
                  onClick={() => onTake(row)}
                >
                  {label}
                </button>
              </td>
              {one.columns.map(({ name }) => {
                const value = row[name];
                if (typeof value !== "number") return <td key={name}>{String(value ?? "")}</td>;
                const sd = row[`${name}_sd`];
                const top = value === tops.get(name);
                return (
                  <td key={name} class={`n${top ? " leader" : ""}`} title={typeof sd === "number" ? `± ${short(sd)} over folds` : undefined}>
                    {name === "multiplier" ? short(value) : shown(value)}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const shown = (value: number): string => (Number.isInteger(value) || Math.abs(value) >= 1000 ? short(value) : value.toFixed(3));

function bestOf(rows: Statistics[], name: string, better: number): number | null {
  const known = rows.map((row) => row[name]).filter((value): value is number => typeof value === "number");
  if (!known.length || known.every((value) => value === known[0])) return null;
  return better > 0 ? Math.max(...known) : Math.min(...known);
}

/** By a column, what is not known last. */
export function sorted(rows: Statistics[], { name, down }: Order): Statistics[] {
  const sign = down ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [x, y] = [a[name], b[name]];
    if (x == null || y == null) return x == null ? (y == null ? 0 : 1) : -1;
    if (typeof x === "number" && typeof y === "number") return sign * (x - y);
    return sign * String(x).localeCompare(String(y));
  });
}

// -- curves, partition, null models --------------------------------------------------------------------

function Criteria({ one }: { one: TunedSpecies }): JSX.Element {
  const curves = useMemo(() => criteria(one), [one]);
  if (!curves.length) return <p>One multiplier has no curve; compare several to see one.</p>;
  return (
    <div class="grid">
      {curves.map((curve) => (
        <Curves key={curve.title} curve={curve} />
      ))}
    </div>
  );
}

function criteria(one: TunedSpecies): Curve[] {
  const xs = [...new Set(one.rows.map((row) => Number(row.multiplier)))].sort((a, b) => a - b);
  const kinds = [...new Set(one.rows.map((row) => kindOf(row.features, row.potential)))].sort((a, b) => a.length - b.length || a.localeCompare(b));
  if (xs.length < 2) return [];
  return one.columns
    .filter(({ name, plotted }) => plotted && one.rows.some((row) => row[name] != null))
    .map(({ name, title }) => ({
      title,
      x: xs,
      xLabel: "multiplier",
      yLabel: "",
      log: true,
      dots: true,
      lines: kinds.map((kind, i) => ({
        label: kind,
        colour: CLASSES[i % CLASSES.length]!,
        values: xs.map((x) => {
          const row = one.rows.find((candidate) => Number(candidate.multiplier) === x && kindOf(candidate.features, candidate.potential) === kind);
          return (row?.[name] as number | null | undefined) ?? null;
        }),
      })),
    }));
}

function Partition({ grid, one, folds }: { grid: NonNullable<Tuning["grid"]>; one: TunedSpecies; folds: string[] }): JSX.Element {
  const [map, setMap] = useState<GridMap | null>(null);
  const colour = (fold: string): string => CLASSES[folds.indexOf(fold) % CLASSES.length]!;
  useEffect(() => {
    const { x, y, fold } = one.places;
    map?.setPoints("records", x.map((at, i) => ({ x: at, y: y[i]!, colour: colour(fold[i]!), radius: 4.5, label: fold[i]! })));
  }, [map, one]);
  const sizes = folds.map((fold) => one.places.fold.filter((other) => other === fold).length);
  return (
    <MapView grid={grid} label="map of the partition: records in the colours of their folds" onWorld={api.world} onReady={setMap}>
      <div class="legend">
        <span>
          {one.places.x.length} cells with records in {folds.length} folds
        </span>
        {folds.length <= CLASSES.length
          ? folds.map((fold, i) => (
              <span key={fold} class="class">
                <span class="dot" style={{ background: colour(fold) }} /> {fold} ({sizes[i]})
              </span>
            ))
          : null}
      </div>
    </MapView>
  );
}

function Nulls({ one }: { one: TunedSpecies }): JSX.Element {
  const titles = new Map(one.columns.map(({ name, title }) => [name, title]));
  const told = (value: unknown): string => (typeof value === "number" ? short(value) : "");
  return (
    <section aria-label="null models">
      <h3>Beside null models</h3>
      <p class="help">
        The best settings, fitted {one.nulls.length} times to as many places drawn at random and tested with the real records. z is the
        distance from their mean in standard deviations, p its one-sided probability under a normal distribution; the share as good counts
        the model itself.
      </p>
      <div class="scroll" tabIndex={0} role="region" aria-label="null test">
        <table>
          <caption>The best model beside null models</caption>
          <thead>
            <tr>
              <th scope="col">statistic</th>
              {["the model", "null mean", "null SD", "z", "p", "share as good"].map((name) => (
                <th scope="col" class="n" key={name}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {one.null_test.map((row) => (
              <tr key={String(row.statistic)}>
                <th scope="row">{titles.get(String(row.statistic)) ?? String(row.statistic)}</th>
                {["value", "null_mean", "null_sd", "z", "p_value", "share_as_good"].map((name) => (
                  <td class="n" key={name}>
                    {told(row[name])}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <div class="grid">
        {one.null_test.map((row) => (
          <Histogram
            key={String(row.statistic)}
            title={titles.get(String(row.statistic)) ?? String(row.statistic)}
            values={one.nulls.map((null_) => null_[String(row.statistic)] ?? NaN)}
            observed={typeof row.value === "number" ? row.value : NaN}
            says={typeof row.p_value === "number" ? `p ${short(row.p_value)}` : undefined}
          />
        ))}
      </div>
    </section>
  );
}
