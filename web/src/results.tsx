// A finished result: its map with questions, its curves, and what it is worth.

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { api, serverTile, type Result, type ResultMap, type Run, type Why } from "./api";
import { ChangeTable } from "./change";
import { Chooser } from "./chooser";
import { styleOf, type Style } from "./colours";
import { short, type Curve } from "./curves";
import { MapExtent, type Drawn } from "./extent";
import type { GridMap } from "./gridmap";
import { Legend, MapView } from "./mapview";
import { Curves, Field, Notes, Trouble, useAnswer, Words } from "./parts";
import { ResponseCurve } from "./responses";
import { batchOf } from "./richness";
import { start, usePage } from "./store";
import { cutOf, ThresholdControl } from "./threshold";
import { Evaluations } from "./evaluation";
import { Overlaps } from "./overlap";
import { Surveys } from "./survey";
import { WhyPanel } from "./why";

const SUITABILITY = ["cloglog", "replicates_mean", "scenarios_mean"];
const MASKED = ["cloglog", "raw", "logistic", "cumulative", "log", "presence"]; // maps that a mask holds for
const RANGE = "#e11d48";

export function ResultView({ run, runs, onRun }: { run: string; runs: Run[]; onRun: (run: string) => void }): JSX.Element {
  const written = runs.find((one) => one.run === run)?.written ?? 0;
  const { job } = usePage();
  const { answer: result, error, busy } = useAnswer(`${run} ${written} ${job?.number} ${job?.status}`, () => api.result(run));
  const [other, setOther] = useState("");
  const batch = batchOf(run, runs);
  return (
    <div class="result">
      <div class="row">
        <Field label="Result">
          <select value={run} onChange={(event) => onRun(event.currentTarget.value)}>
            {runs.map((one) => (
              <option key={one.run} value={one.run}>
                {one.species ?? one.run} · {one.run}
              </option>
            ))}
          </select>
        </Field>
        <Field label="Beside it">
          <select value={other} onChange={(event) => setOther(event.currentTarget.value)}>
            <option value="">nothing</option>
            {runs
              .filter((one) => one.run !== run)
              .map((one) => (
                <option key={one.run} value={one.run}>
                  {one.species ?? one.run} · {one.run}
                </option>
              ))}
          </select>
        </Field>
      </div>
      {batch ? (
        <p>
          <a href={`#richness=${encodeURIComponent(batch)}`}>All species of this run, and their richness</a>
        </p>
      ) : null}
      {busy && !result ? <p role="status">Reading the result …</p> : null}
      <Trouble text={error} />
      {result && result.run === run ? (
        other ? (
          <Compare one={result} other={other} />
        ) : (
          <OneResult key={run} result={result} run={runs.find((one) => one.run === run)} />
        )
      ) : null}
    </div>
  );
}

// -- one result -----------------------------------------------------------------------------------

function OneResult({ result, run }: { result: Result; run?: Run }): JSX.Element {
  const [map, setMap] = useState<GridMap | null>(null);
  const [file, setFile] = useState(() => firstMap(result)?.file ?? "");
  const [why, setWhy] = useState<Why | null>(null);
  const [trouble, setTrouble] = useState("");
  const [range, setRange] = useState<{ variable: string; low: number; high: number } | null>(null);
  const shown = result.maps.find((one) => one.file === file) ?? null;
  const of = shown?.of ?? "";
  const viewing = usePage().state?.viewing;

  useEffect(() => {
    if (!map) return;
    map.setRings("study", result.study);
    map.onClick((x, y) => ask(x, y));
  }, [map]);
  const ask = (x: number, y: number): void => {
    map?.setMark(x, y);
    api.why(result.run, current(), x, y).then(
      (told) => {
        setWhy({ ...told, x, y });
        setTrouble("");
      },
      (error: Error) => setTrouble(error.message),
    );
  };
  // the handler of clicks is made once: it reads the map shown by then
  const holder = useMemo(() => ({ of }), []);
  holder.of = of;
  const current = (): string => holder.of;

  useEffect(() => {
    if (!map) return;
    if (!range) {
      map.hide("range");
      return;
    }
    const style: Style = { kind: "range", low: range.low, high: range.high, colour: RANGE };
    map.show(
      "range",
      (z, x, y, signal) => serverTile({ run: result.run, of, variable: range.variable }, z, x, y, signal),
      style,
      0.65,
      5,
    );
  }, [map, range, of]);

  const scores = result.evaluation.scores;
  const held = result.evaluation.test_scores;
  return (
    <>
      <h2>{result.species}</h2>
      <div class="columns">
        <div>
          {result.grid && shown ? (
            <ResultMapView result={result} file={file} onFile={setFile} onMap={setMap} why={why} />
          ) : (
            <p>This result has no maps.</p>
          )}
          {range ? (
            <p class="hint">
              Marked on the map: {range.variable} from {short(range.low)} to {short(range.high)}{" "}
              <button type="button" class="small" onClick={() => setRange(null)}>
                clear
              </button>
            </p>
          ) : null}
          {result.grid && shown ? <Projections result={result} /> : null}
          {result.grid && shown && !viewing ? <Evaluations result={result} /> : null}
          {result.grid && shown && !viewing ? <Surveys result={result} map={map} /> : null}
        </div>
        <div>
          <section aria-label="why" aria-live="polite">
            <h3>Why here?</h3>
            {why ? (
              <WhyPanel told={why} />
            ) : (
              <p>
                Click a place on the map to be told why it is suitable or not.{" "}
                {map ? (
                  <button
                    type="button"
                    class="small"
                    onClick={() => {
                      const { x, y } = map.centre();
                      ask(x, y);
                    }}
                  >
                    ask at the middle of the map
                  </button>
                ) : null}
              </p>
            )}
            <Trouble text={trouble} />
            {!result.layers_reachable && result.grid ? (
              <p class="hint">The layers of this fit are not in the opened folders, so places cannot be explained. Start it with both: maxent app RESULTS LAYERS</p>
            ) : null}
          </section>
          <Responses result={result} why={why} onRange={(variable, low, high) => setRange({ variable, low, high })} />
        </div>
      </div>
      <dl class="tiles">
        <Tile name="records" value={String(scores.n ?? "")} says={`${result.n_background.toLocaleString()} background cells`} />
        <Tile name="AUC" value={(scores.auc ?? 0).toFixed(3)} says={heldOut(held?.auc, run)} />
        <Tile name="duality gap" value={result.certificate.gap.toExponential(0)} says={result.certificate.said} />
      </dl>
      <Judgement result={result} />
    </>
  );
}

function heldOut(test: number | null | undefined, run: Run | undefined): string {
  if (test != null) return `of the training records; ${test.toFixed(3)} of test records`;
  if (run?.test_auc != null) return `of the training records; ${run.test_auc.toFixed(3)} held out (${run.test_auc_of})`;
  return "of the training records";
}

const firstMap = (result: Result): ResultMap | undefined =>
  result.maps.find((one) => one.training && one.kind === "cloglog") ?? result.maps[0];

function Tile({ name, value, says }: { name: string; value: string; says: string }): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <span class="value">{value}</span>
        <span class="says">{says}</span>
      </dd>
    </div>
  );
}

export function ResultMapView({
  result,
  file,
  onFile,
  onMap,
  why,
}: {
  result: Result;
  file: string;
  onFile: (file: string) => void;
  onMap: (map: GridMap) => void;
  why?: Why | null;
}): JSX.Element {
  const [map, setMap] = useState<GridMap | null>(null);
  const [opacity, setOpacity] = useState(1);
  const [dots, setDots] = useState(true);
  const [cut, setCut] = useState(() => cutOf(result.evaluation.thresholds, result.default_rule));
  const shown = result.maps.find((one) => one.file === file)!;
  const path = shown.file;
  const { answer: facts, error } = useAnswer(path, () => api.map(path));
  const thresholds = SUITABILITY.includes(shown.kind);
  const style = useMemo<Style | null>(() => {
    if (!facts) return null;
    if (cut.shown && thresholds) return { kind: "threshold", value: cut.value };
    return styleOf(shown.kind, facts.low, facts.high, shown.classes);
  }, [facts, cut.shown, cut.value, thresholds, path]);

  useEffect(() => {
    if (map && style) map.show("main", (z, x, y, signal) => serverTile({ file: path }, z, x, y, signal), style, opacity);
  }, [map, path, facts]);
  useEffect(() => {
    if (map && style) map.style("main", style);
  }, [map, style]);
  useEffect(() => map?.opacity("main", opacity), [map, opacity]);
  useEffect(() => {
    const { x, y, test } = result.records;
    map?.setPoints(
      "records",
      dots
        ? x.map((at, i) => ({ x: at, y: y[i]!, colour: test[i] ? "#d946ef" : "#ffffff", radius: 3.5, label: test[i] ? "test record" : "record" }))
        : [],
    );
  }, [map, dots]);
  useEffect(() => {
    if (map && why?.known) map.setMark(why.x, why.y);
  }, [map, why]);

  const grid = facts ?? result.grid!;
  return (
    <>
      <div class="row">
        <Field label="Show">
          <select value={file} onChange={(event) => onFile(event.currentTarget.value)}>
            {result.maps.map((one) => (
              <option key={one.file} value={one.file}>
                {one.label} · {one.of}
              </option>
            ))}
          </select>
        </Field>
        <Field label="Opacity">
          <input type="range" min="0" max="1" step="0.05" value={opacity} onInput={(event) => setOpacity(Number(event.currentTarget.value))} />
        </Field>
        <label>
          <input type="checkbox" checked={dots} onChange={(event) => setDots(event.currentTarget.checked)} /> records
        </label>
      </div>
      {thresholds ? (
        <ThresholdControl rules={result.evaluation.thresholds} cut={cut} onCut={setCut} />
      ) : null}
      <Trouble text={error} />
      <MapView
        grid={grid}
        zooms={facts?.zooms}
        label={`map of ${shown.label}; click a place to be told why`}
        tall
        onWorld={api.world}
        onReady={(made) => {
          setMap(made);
          onMap(made);
        }}
      >
        {style ? <Legend style={style} label={shown.label} names={shown.classes} /> : null}
        {result.mask && MASKED.includes(shown.kind) ? (
          <p class="under">
            Nothing is drawn where the model extrapolates ({result.mask === "exdet" ? "MESS below 0, ExDet above 1" : "MESS below 0"}).
          </p>
        ) : null}
      </MapView>
    </>
  );
}

// -- curves -----------------------------------------------------------------------------------------

function Responses({
  result,
  why,
  onRange,
}: {
  result: Result;
  why: Why | null;
  onRange: (variable: string, low: number, high: number) => void;
}): JSX.Element {
  const curves = result.responses.filter((one) => one.kind === "marginal");
  return (
    <section aria-label="response curves">
      <h3>Response curves</h3>
      <p class="help">The others at the mean of the presences. Drag across a curve to see where on the map the variable is in that range.</p>
      <div class="grid">
        {curves.map((one) => {
          const at = why?.known ? why.curves.find((mark) => mark.variable === one.variable) : undefined;
          if (one.categorical) {
            return <Levels key={one.variable} variable={one.variable} x={one.x} y={one.y} at={at?.x} />;
          }
          return (
            <ResponseCurve
              key={one.variable}
              curve={one}
              why={why}
              onRange={(low, high) => onRange(one.variable, low, high)}
            />
          );
        })}
      </div>
    </section>
  );
}

function Levels({ variable, x, y, at }: { variable: string; x: (number | string)[]; y: number[]; at?: number | string }): JSX.Element {
  return (
    <div class="levels">
      <table>
        <caption>{variable}</caption>
        <tbody>
          {x.map((level, i) => (
            <tr key={String(level)} class={String(level) === String(at) ? "here" : ""}>
              <th scope="row">{String(level)}</th>
              <td class="share wide">
                <span class="up" style={{ width: `${100 * y[i]!}%` }} />
              </td>
              <td class="n">{y[i]!.toFixed(2)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Judgement({ result }: { result: Result }): JSX.Element {
  const { roc, omission } = result.evaluation;
  const rocCurve = useMemo<Curve | null>(() => {
    const train = roc.train;
    if (!train) return null;
    const xs = train.false_positive_rate!;
    const lines = [{ label: "training", values: train.true_positive_rate!, colour: "#0f9f92" }];
    const test = roc.test;
    if (test) lines.push({ label: "test", values: onto(xs, test.false_positive_rate!, test.true_positive_rate!), colour: "#8b5cf6" });
    return { title: "ROC", x: xs, lines, xLabel: "share of background", yLabel: "records found", yRange: [0, 1] };
  }, [result]);
  const omissionCurve = useMemo<Curve | null>(() => {
    const xs = omission.cumulative;
    if (!xs) return null;
    const order = xs.map((_, i) => i).sort((a, b) => xs[a]! - xs[b]!);
    const sorted = (values: number[]): number[] => order.map((i) => values[i]!);
    const lines = [];
    for (const [name, label, colour] of [
      ["training_omission", "training omission", "#0f9f92"],
      ["test_omission", "test omission", "#8b5cf6"],
      ["area", "predicted area", "#b45309"],
    ] as const) {
      const values = omission[name];
      if (values) lines.push({ label, values: sorted(values), colour });
    }
    return { title: "Omission and predicted area", x: sorted(xs), lines, xLabel: "cumulative threshold", yLabel: "share", yRange: [0, 1] };
  }, [result]);
  const gains = result.jackknife?.scores.train_gain;
  return (
    <>
      <div class="grid wide">
        {rocCurve ? <Curves curve={rocCurve} height={230} /> : null}
        {omissionCurve ? <Curves curve={omissionCurve} height={230} /> : null}
      </div>
      <div class="grid wide">
        {result.importance ? (
          <Bars
            title="What each variable contributes (% of the gain)"
            names={result.importance.variables}
            values={result.importance.contribution}
          />
        ) : null}
        {result.importance ? (
          <Bars title="Permutation importance (%)" names={result.importance.variables} values={result.importance.permutation} />
        ) : null}
        {gains && result.jackknife ? <Bars title="Jackknife: gain of the variable alone" names={result.jackknife.variables} values={gains.only} all={gains.all} /> : null}
        {gains && result.jackknife ? <Bars title="Jackknife: gain without it" names={result.jackknife.variables} values={gains.without} all={gains.all} /> : null}
      </div>
      {result.changes.length ? <ChangeTable changes={result.changes} /> : null}
      {result.cleaning.length ? <Fates result={result} /> : null}
      <Notes notes={result.notes} />
      {result.report ? (
        <p>
          <a href={`/results/${result.report}`} target="_blank" rel="noopener">
            The whole report
          </a>{" "}
          has the rest: calibration, folds, tables, and how to read each of them.
        </p>
      ) : null}
      <Words command={result.command} script={result.script} lacks="" />
    </>
  );
}

/** What became of the records of the file. */
function Fates({ result }: { result: Result }): JSX.Element {
  const used = result.records.test.length;
  return (
    <table>
      <caption>What became of the records</caption>
      <tbody>
        {[{ what: "used", records: used }, ...result.cleaning].map((step) => (
          <tr key={step.what}>
            <th scope="row">{step.what}</th>
            <td class="n">{step.records.toLocaleString()}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function onto(xs: number[], from: number[], values: number[]): number[] {
  let at = 0;
  return xs.map((x) => {
    while (at < from.length - 1 && from[at + 1]! <= x) at++;
    return values[at]!;
  });
}

function Bars({ title, names, values, all }: { title: string; names: string[]; values: number[]; all?: number }): JSX.Element {
  const most = Math.max(...values.map(Math.abs), all ?? 0, 1e-9);
  const order = names.map((_, i) => i).sort((a, b) => values[b]! - values[a]!);
  return (
    <div class="levels">
      <table>
        <caption>{title}</caption>
        <tbody>
          {order.map((i) => (
            <tr key={names[i]}>
              <th scope="row">{names[i]}</th>
              <td class="share wide">
                <span class={values[i]! < 0 ? "down" : "up"} style={{ width: `${(100 * Math.abs(values[i]!)) / most}%` }} />
              </td>
              <td class="n">{short(values[i]!)}</td>
            </tr>
          ))}
          {all == null ? null : (
            <tr>
              <th scope="row">all variables</th>
              <td class="share wide">
                <span class="all" style={{ width: `${(100 * all) / most}%` }} />
              </td>
              <td class="n">{short(all)}</td>
            </tr>
          )}
        </tbody>
      </table>
    </div>
  );
}

// -- projections ------------------------------------------------------------------------------------

function Projections({ result }: { result: Result }): JSX.Element {
  const futures = result.maps.filter((one) => !one.training && one.kind === "cloglog");
  const { value } = cutOf(result.evaluation.thresholds, result.default_rule);
  const [drawn, setDrawn] = useState<Drawn>({ extent: result.extent, mask: result.mask }); // as at the fit
  return (
    <details class="analysis">
      <summary>Map this model on other layers</summary>
      <p>Another climate, time or place: a folder with rasters of the same names. The maps join the list above.</p>
      <MapExtent {...drawn} region={result.study.length > 0} onChange={(changes) => setDrawn({ ...drawn, ...changes })} />
      <Chooser
        kind="layers"
        folders
        label="Choose a folder of layers to map"
        onChoose={(path) => void start(() => api.project({ run: result.run, layers: path, ...drawn }))}
      />
      {futures.map((one) => (
        <p key={one.file}>
          {one.of}:{" "}
          <button type="button" class="small" onClick={() => void start(() => api.change(result.run, one.file, value))}>
            what is lost, kept and gained at {value.toFixed(3)}
          </button>
        </p>
      ))}
    </details>
  );
}

// -- side by side -------------------------------------------------------------------------------------

function Compare({ one, other }: { one: Result; other: string }): JSX.Element {
  const { answer: two, error } = useAnswer(other, () => api.result(other));
  const [maps, setMaps] = useState<{ one?: GridMap; two?: GridMap }>({});
  const [files, setFiles] = useState<{ one: string; two: string }>({ one: firstMap(one)?.file ?? "", two: "" });
  useEffect(() => {
    if (two) setFiles((now) => ({ ...now, two: firstMap(two)?.file ?? "" }));
  }, [two]);
  useEffect(() => {
    const [a, b] = [maps.one, maps.two];
    if (a && b && a.grid.width === b.grid.width && a.grid.height === b.grid.height) return a.follow(b);
    return undefined;
  }, [maps.one, maps.two]);
  const numbers: [string, (r: Result) => string][] = [
    ["records", (r) => String(r.evaluation.scores.n ?? "")],
    ["background cells", (r) => r.n_background.toLocaleString()],
    ["AUC", (r) => short(r.evaluation.scores.auc ?? NaN)],
    ["gain", (r) => short(r.certificate.gain ?? NaN)],
    ["Boyce index", (r) => short(r.evaluation.scores.boyce ?? NaN)],
    ["variables", (r) => r.variables.join(", ")],
    ["command", (r) => r.command],
  ];
  return (
    <>
      <Trouble text={error} />
      <div class="columns even">
        {([["one", one], ["two", two]] as const).map(([name, result]) => (
          <div key={name}>
            <h2>{result?.species ?? "…"}</h2>
            {result?.grid && files[name] && result.maps.some((m) => m.file === files[name]) ? (
              <ResultMapView
                key={result.run}
                result={result}
                file={files[name]}
                onFile={(file) => setFiles({ ...files, [name]: file })}
                onMap={(map) => setMaps((now) => ({ ...now, [name]: map }))}
              />
            ) : null}
          </div>
        ))}
      </div>
      {two ? (
        <div class="scroll" tabIndex={0} role="region" aria-label="numbers side by side">
          <table>
            <caption>Side by side</caption>
            <thead>
              <tr>
                <td />
                {[one, two].map((result) => (
                  <th scope="col" key={result.run}>
                    {result.run}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {numbers.map(([name, tell]) => (
                <tr key={name}>
                  <th scope="row">{name}</th>
                  <td>{tell(one)}</td>
                  <td>{tell(two)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : null}
      {two ? <Overlaps one={one.run} other={other} /> : null}
    </>
  );
}
