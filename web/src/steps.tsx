// The guided path: records, layers, region and background, settings, fit.

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import L from "leaflet";
import { api, serverTile, type Choices, type Grid, type LayersAnswer, type RecordsAnswer, type Option } from "./api";
import { Chooser } from "./chooser";
import { CLASSES, styleOf } from "./colours";
import { short } from "./curves";
import type { GridMap, Point } from "./gridmap";
import { Legend, MapView } from "./mapview";
import { Entry, Field, Notes, Trouble, useAnswer } from "./parts";
import { choose, drawRegion, start, usePage } from "./store";

export const BY_HAND = "left out by hand";

// -- what the steps share: the answers about records and layers, and the map -----------------------

export interface Surveyed {
  records: ReturnType<typeof useAnswer<RecordsAnswer>>;
  layers: ReturnType<typeof useAnswer<LayersAnswer>>;
  grid: Grid | null;
}

export function useSurveys(choices: Choices): Surveyed {
  const layerKey = choices.layers.sources?.length ? JSON.stringify(choices.layers) : null;
  const asked = [choices.records, choices.layers, choices.study, choices.settings.thin, choices.settings.keep_duplicates];
  const recordKey = choices.records.path ? JSON.stringify(asked) : null;
  const layers = useAnswer(layerKey, api.layers);
  const records = useAnswer(recordKey, api.records);
  return { records, layers, grid: layers.answer?.grid ?? records.answer?.grid ?? null };
}

// -- records --------------------------------------------------------------------------------------

export function RecordsStep({ choices, surveyed }: { choices: Choices; surveyed: Surveyed }): JSX.Element {
  const { answer, error, busy } = surveyed.records;
  const columns = choices.records as Record<string, string | undefined>;
  const set = (name: string, value: string): void => {
    const { [name]: _, ...rest } = choices.records;
    void choose({ records: value ? { ...rest, [name]: value } : rest });
  };
  return (
    <>
      <p>A table with the places where the species was seen: a CSV file of GBIF or your own.</p>
      <Chooser kind="records" label="Choose a file of records" onChoose={(path) => void choose({ records: { path }, species: [] })} />
      {choices.records.path ? (
        <p class="chosen">
          Records: <code>{choices.records.path}</code>
        </p>
      ) : null}
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

function SpeciesList({ answer, chosen }: { answer: RecordsAnswer; chosen: string[] }): JSX.Element {
  const names = answer.species.map((one) => one.name);
  const toggle = (name: string, on: boolean): void => {
    const now = chosen.length ? chosen : names;
    const next = on ? [...now, name] : now.filter((other) => other !== name);
    void choose({ species: next.length === names.length || !next.length ? [] : names.filter((n) => next.includes(n)) });
  };
  return (
    <fieldset class="species">
      <legend>{names.length} species; fit</legend>
      {names.slice(0, 200).map((name) => (
        <label key={name}>
          <input
            type="checkbox"
            checked={!chosen.length || chosen.includes(name)}
            onChange={(event) => toggle(name, event.currentTarget.checked)}
          />{" "}
          {name}
        </label>
      ))}
    </fieldset>
  );
}

const shownSpecies = (answer: RecordsAnswer, chosen: string[]): RecordsAnswer["species"] =>
  answer.species.filter((one) => !chosen.length || chosen.includes(one.name)).slice(0, 50);

export function fateColour(fate: string): string {
  if (fate === "used") return "#2dd4bf";
  if (fate === BY_HAND) return "#ef4444";
  if (fate.startsWith("duplicates")) return "#facc15";
  if (fate.startsWith("outside")) return "#fb923c";
  return "#a78bfa";
}

// -- layers ---------------------------------------------------------------------------------------

export function LayersStep({
  choices,
  surveyed,
  onShow,
}: {
  choices: Choices;
  surveyed: Surveyed;
  onShow: (name: string) => void;
}): JSX.Element {
  const { answer, error, busy } = surveyed.layers;
  const { without = [], categorical = [] } = choices.layers;
  const change = (changes: Choices["layers"]): void => void choose({ layers: { ...choices.layers, ...changes } });
  const toggle = (list: string[], name: string, on: boolean): string[] =>
    on ? [...new Set([...list, name])] : list.filter((other) => other !== name);
  const suggested = answer?.layers.filter((row) => row.drop && !without.includes(row.name)) ?? [];
  return (
    <>
      <p>Rasters of the environment: climate, terrain, land cover. All of one folder are used.</p>
      <Chooser kind="layers" folders label="Choose a folder of layers" onChoose={(path) => void choose({ layers: { sources: [path] } })} />
      {choices.layers.sources?.length ? (
        <p class="chosen">
          Layers: <code>{choices.layers.sources.join(", ")}</code>
        </p>
      ) : null}
      {busy ? <p role="status">Comparing layers …</p> : null}
      <Trouble text={error} />
      {answer && !answer.fits ? (
        <Trouble
          text={`These layers are not on one grid: ${answer.layers
            .filter((row) => row.difference)
            .map((row) => `${row.name} (${row.difference})`)
            .join("; ")}.`}
        >
          <p>Resample all of them to the grid of</p>
          {(["first", "finest", "coarsest"] as const).map((how) => (
            <button key={how} type="button" onClick={() => change({ align: how })}>
              the {how} layer
            </button>
          ))}
        </Trouble>
      ) : null}
      {choices.layers.align ? (
        <p>
          Layers on other grids are resampled to the {choices.layers.align} one.{" "}
          <button type="button" class="small" onClick={() => change({ align: "refuse" })}>
            do not
          </button>
        </p>
      ) : null}
      {suggested.length ? (
        <div class="hint">
          <p>
            Some layers say nearly the same as the others. Leaving out {suggested.map((row) => row.name).join(", ")} makes the
            rest easier to interpret.
          </p>
          <button type="button" onClick={() => change({ without: [...without, ...suggested.map((row) => row.name)] })}>
            leave {suggested.length === 1 ? "it" : "them"} out
          </button>
        </div>
      ) : null}
      {answer ? (
        <div class="scroll">
          <table>
            <caption>Layers</caption>
            <thead>
              <tr>
                <th scope="col">use</th>
                <th scope="col">layer</th>
                <th scope="col">categories</th>
                <th scope="col" class="n">
                  from
                </th>
                <th scope="col" class="n">
                  to
                </th>
                <th scope="col" class="n">
                  <abbr title="variance inflation factor: how much the other layers say the same">VIF</abbr>
                </th>
              </tr>
            </thead>
            <tbody>
              {answer.layers.map((row) => (
                <tr key={row.name} class={without.includes(row.name) ? "off" : ""}>
                  <td>
                    <input
                      type="checkbox"
                      aria-label={`use ${row.name}`}
                      checked={!without.includes(row.name)}
                      onChange={(event) =>
                        change({
                          without: toggle(without, row.name, !event.currentTarget.checked),
                          categorical: event.currentTarget.checked ? categorical : toggle(categorical, row.name, false),
                        })
                      }
                    />
                  </td>
                  <th scope="row">
                    <button type="button" class="plain" onClick={() => onShow(row.name)} title="show on the map">
                      {row.name}
                    </button>
                  </th>
                  <td>
                    <input
                      type="checkbox"
                      aria-label={`${row.name} holds categories`}
                      checked={categorical.includes(row.name)}
                      onChange={(event) => change({ categorical: toggle(categorical, row.name, event.currentTarget.checked) })}
                    />
                    {row.levels && !row.categorical ? <span class="tag"> {row.levels} whole numbers</span> : null}
                  </td>
                  <td class="n">{row.low == null ? "" : short(row.low)}</td>
                  <td class="n">{row.high == null ? "" : short(row.high)}</td>
                  <td class={`n${row.drop ? " tag" : ""}`} title={row.drop}>
                    {row.vif_infinite ? "∞" : row.vif == null ? "" : row.vif.toFixed(1)}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : null}
      {choices.layers.sources?.length ? (
        <Field label="Coordinate reference system of the layers" help="Only for files that do not say, such as .asc.">
          <Entry
            value={choices.layers.crs ?? ""}
            placeholder="what the files say"
            onEnter={(text) => {
              const { crs: _, ...rest } = choices.layers;
              void choose({ layers: text ? { ...rest, crs: text } : rest });
            }}
          />
        </Field>
      ) : null}
      {answer?.correlation && answer.correlation.variables.length > 1 ? <Correlations of={answer.correlation} /> : null}
      {answer ? <Notes notes={answer.notes} /> : null}
    </>
  );
}

function Correlations({ of }: { of: NonNullable<LayersAnswer["correlation"]> }): JSX.Element {
  const colour = (r: number | null): string => {
    if (r == null) return "transparent";
    const share = Math.round(Math.min(Math.abs(r), 1) * 45);
    return `color-mix(in srgb, ${r < 0 ? "#b2182b" : "#2166ac"} ${share}%, transparent)`;
  };
  return (
    <details>
      <summary>Correlations</summary>
      <div class="scroll">
        <table class="matrix">
          <thead>
            <tr>
              <td />
              {of.variables.map((name, i) => (
                <th scope="col" key={name} title={name}>
                  {i + 1}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {of.variables.map((name, i) => (
              <tr key={name}>
                <th scope="row">
                  {i + 1} {name}
                </th>
                {of.values[i]!.slice(0, i + 1).map((r, j) => (
                  <td key={of.variables[j]} class="n" style={{ background: colour(r) }}>
                    {r == null ? "" : r.toFixed(2)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

// -- study region and background --------------------------------------------------------------------

export function RegionStep({
  choices,
  onDraw,
}: {
  choices: Choices;
  onDraw: (shape: "Polygon" | "Rectangle") => void;
}): JSX.Element {
  const { study } = choices;
  const kind = study.polygons ? "polygons" : study.hull ? "hull" : study.buffer ? "buffer" : "whole";
  const effort = choices.background;
  const cells = choices.settings.background;
  return (
    <>
      <p>Background is what the records are compared with. It should be where the species could have been found.</p>
      <fieldset>
        <legend>Study region</legend>
        <label>
          <input type="radio" name="study" checked={kind === "whole"} onChange={() => void choose({ study: {} })} /> all of the layers
        </label>
        <label>
          <input type="radio" name="study" checked={kind === "hull"} onChange={() => void choose({ study: { hull: true } })} /> convex
          hull of the records
        </label>
        <label>
          <input type="radio" name="study" checked={kind === "buffer"} onChange={() => void choose({ study: { buffer: 100 } })} /> a
          buffer around the records
        </label>
        {kind === "buffer" || kind === "hull" ? (
          <Field label="Buffer in km">
            <Entry
              type="number"
              min="0"
              max="5000"
              value={String(study.buffer ?? "")}
              onEnter={(text) => {
                const km = number(text);
                const { buffer: _, ...rest } = study;
                void choose({ study: km ? { ...rest, buffer: km } : rest });
              }}
            />
          </Field>
        ) : null}
        <div class="row">
          <button type="button" onClick={() => onDraw("Polygon")}>
            draw a polygon
          </button>
          <button type="button" onClick={() => onDraw("Rectangle")}>
            draw a rectangle
          </button>
        </div>
        <Chooser kind="records" label="Choose a file of polygons" onChoose={(path) => void choose({ study: { polygons: path } })} />
        {kind === "polygons" ? (
          <p class="chosen">
            Region: <code>{study.polygons}</code>
          </p>
        ) : null}
      </fieldset>
      <fieldset>
        <legend>Background cells</legend>
        {(
          [
            ["random", "drawn at random"],
            ["target-group", "where any species of the file was recorded (target group)"],
            ["records", "where the species of another file were recorded"],
            ["bias", "drawn in proportion to a raster of sampling effort"],
            ["kernel", "drawn where records are dense (effort from the records)"],
          ] as const
        ).map(([value, label]) => (
          <label key={value}>
            <input
              type="radio"
              name="background"
              checked={effort === value}
              onChange={() => void choose({ background: value, background_file: null })}
            />{" "}
            {label}
          </label>
        ))}
        {effort === "records" || effort === "bias" ? (
          <>
            <Chooser
              kind={effort === "records" ? "records" : "layers"}
              label={effort === "records" ? "Choose the records" : "Choose the raster"}
              onChoose={(path) => void choose({ background_file: path })}
            />
            {choices.background_file ? (
              <p class="chosen">
                <code>{choices.background_file}</code>
              </p>
            ) : null}
          </>
        ) : null}
        <Field label="How many cells" help="Ten thousand are enough for most regions; leave it empty for all of them.">
          <Entry
            type="number"
            min="1"
            value={cells === null ? "" : String(cells ?? 10000)}
            onEnter={(text) => setSetting(choices, "background", number(text) ?? null, 10000)}
          />
        </Field>
      </fieldset>
    </>
  );
}

// -- settings -----------------------------------------------------------------------------------------

const PLAIN = ["features", "multiplier", "cv", "folds", "replicates", "threshold", "background", "thin", "keep_duplicates", "bias_kernel"];

export function SettingsStep({ choices, options, rules }: { choices: Choices; options: Record<string, Option>; rules: string[] }): JSX.Element {
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

function OptionInput({ option, value, onSet }: { option: Option; value: unknown; onSet: (value: unknown) => void }): JSX.Element {
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

function setSetting(choices: Choices, name: string, value: unknown, usual: unknown = undefined): void {
  const { [name]: _, ...rest } = choices.settings;
  const same = value === usual || (value === undefined && usual === undefined);
  void choose({ settings: same ? rest : { ...rest, [name]: value } });
}

const number = (text: string): number | undefined => (text === "" ? undefined : Number(text));

// -- fit ---------------------------------------------------------------------------------------------

export function FitStep({ choices, lacks, onResult }: { choices: Choices; lacks: string; onResult: (run: string) => void }): JSX.Element {
  const { job } = usePage();
  const busy = job?.status === "running";
  return (
    <>
      <Field label="Name of the results' folder">
        <Entry value={choices.out} onEnter={(text) => void choose({ out: text || "maxent-results" })} />
      </Field>
      {lacks ? <p class="hint">Before a fit: {lacks}.</p> : null}
      <button type="button" class="main" disabled={Boolean(lacks) || busy} onClick={() => void start(() => api.fit(false))}>
        Fit
      </button>
      {job ? <Progress onResult={onResult} /> : null}
    </>
  );
}

export function Progress({ onResult }: { onResult: (run: string) => void }): JSX.Element | null {
  const { job } = usePage();
  const [now, setNow] = useState(Date.now());
  const running = job?.status === "running";
  useEffect(() => {
    if (!running) return;
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [running]);
  if (!job) return null;
  const total = job.events.find((event) => event.kind === "begin")?.species?.length ?? 1;
  const done = job.events.filter((event) => event.kind === "done");
  const stage = job.events.filter((event) => event.kind === "stage").at(-1);
  const failed = done.filter((event) => event.status !== "ok");
  const seconds = Math.max(0, Math.round(now / 1000 - job.started));
  return (
    <section class="progress" aria-label="progress">
      {running ? (
        <>
          <progress max={total} value={total > 1 ? done.length : undefined} />
          <p role="status">
            {job.kind}: {stage ? `${String(stage.species)}: ${stage.stage}` : "reading files"} · {seconds} s
            {total > 1 ? ` · ${done.length} of ${total} species` : ""}
          </p>
          <button type="button" class="stop" onClick={() => void api.stop(job.number)}>
            Stop
          </button>
        </>
      ) : null}
      {job.status === "done" ? (
        <p role="status">
          {job.kind} is done.{" "}
          {job.kind === "fit" ? (
            <button type="button" onClick={() => onResult(job.out)}>
              See the result
            </button>
          ) : (
            <code>{job.out}</code>
          )}
        </p>
      ) : null}
      {job.status === "stopped" ? (
        <p role="status">
          Stopped. Nothing was lost: your choices are kept{done.length ? ", and so are the species that were finished" : ""}.{" "}
          {job.kind === "fit" ? (
            <button type="button" onClick={() => void start(() => api.fit(true))}>
              Go on
            </button>
          ) : null}
        </p>
      ) : null}
      {job.status === "failed" ? <Trouble text={job.error || "The command failed."} /> : null}
      {job.status === "lost" ? <Trouble text="The process was ended from outside; fit again." /> : null}
      {failed.map((event) => (
        <Trouble key={String(event.species)} text={`${String(event.species)}: ${event.error ?? "failed"}`} />
      ))}
      <Notes
        notes={[...new Set(job.events.filter((event) => event.kind === "note").map((event) => event.text ?? ""))]}
        title="What the program assumed"
      />
    </section>
  );
}

// -- the map beside the steps ----------------------------------------------------------------------

export function StepMap({
  choices,
  surveyed,
  shown,
  drawing,
  onDrawn,
}: {
  choices: Choices;
  surveyed: Surveyed;
  shown: string | null;
  drawing: "Polygon" | "Rectangle" | "drop" | null;
  onDrawn: () => void;
}): JSX.Element {
  const [map, setMap] = useState<GridMap | null>(null);
  const grid = surveyed.grid;
  const records = surveyed.records.answer;
  const layer = surveyed.layers.answer?.layers.find((row) => row.name === shown) ?? surveyed.layers.answer?.layers[0];
  const background = layer ? JSON.stringify([layer.file, layer.band]) : null;
  const facts = useAnswer(background, () => api.map(layer!.file, layer!.band)).answer;
  const style = useMemo(() => {
    if (!layer || !facts) return null;
    if (layer.levels) {
      const codes = Array.from({ length: 64 }, (_, i) => i + Math.floor(facts.low));
      return { kind: "classes" as const, colours: Object.fromEntries(codes.map((code, i) => [code, CLASSES[i % CLASSES.length]!])) };
    }
    return styleOf("layer", facts.low, facts.high, null);
  }, [background, facts, layer?.levels]);
  const same = facts && grid && facts.width === grid.width && facts.height === grid.height;

  useEffect(() => {
    if (!map || !layer || !style || !same) {
      map?.hide("main");
      return;
    }
    map.show("main", (z, x, y, signal) => serverTile({ file: layer.file, band: layer.band }, z, x, y, signal), style, 0.9);
  }, [map, background, style, same]);

  const left = useMemo(() => new Set(rowsOf(choices.records.leave_out ?? [])), [choices.records.leave_out]);
  useEffect(() => {
    if (!map || !records) {
      map?.setPoints("records", []);
      return;
    }
    const points: Point[] = [];
    for (const one of shownSpecies(records, choices.species)) {
      one.x.forEach((x, i) => {
        const y = one.y[i];
        if (x == null || y == null) return;
        const fate = one.fate[i]!;
        points.push({
          x,
          y,
          id: one.row[i]!,
          colour: fateColour(fate),
          faded: fate !== "used",
          label: `${one.name}, row ${one.row[i]}: ${fate}`,
        });
      });
    }
    map.setPoints("records", points, (point) => {
      const next = new Set(left);
      if (!next.delete(point.id!)) next.add(point.id!);
      leaveOut(choices, next);
    });
    map.setRings("study", shownSpecies(records, choices.species).flatMap((one) => one.study));
  }, [map, records, choices.species, left]);

  useEffect(() => {
    if (!map || !drawing) return;
    const pm = (map.leaflet as any).pm;
    const create = (event: any): void => {
      const corners = (event.layer.getLatLngs()[0] as L.LatLng[]).map((at) => {
        const { x, y } = map.coordinates(at);
        return [x, y];
      });
      event.layer.remove();
      pm.disableDraw();
      if (drawing === "drop" && records) {
        const [xs, ys] = [corners.map((c) => c[0]!), corners.map((c) => c[1]!)];
        const next = new Set(left);
        for (const one of shownSpecies(records, choices.species)) {
          one.x.forEach((x, i) => {
            const y = one.y[i];
            if (x == null || y == null) return;
            const within = x >= Math.min(...xs) && x <= Math.max(...xs) && y >= Math.min(...ys) && y <= Math.max(...ys);
            if (within) next.add(one.row[i]!);
          });
        }
        leaveOut(choices, next);
      } else {
        void drawRegion([corners], grid?.crs ?? null);
      }
      onDrawn();
    };
    pm.enableDraw(drawing === "drop" ? "Rectangle" : drawing, { snappable: false, continueDrawing: false });
    map.leaflet.once("pm:create", create);
    return () => {
      map.leaflet.off("pm:create", create);
      pm.disableDraw();
    };
  }, [map, drawing]);

  if (!grid) {
    return (
      <div class="mapview empty">
        <p>The map appears when records or layers are chosen.</p>
      </div>
    );
  }
  return (
    <MapView grid={grid} label="map of records and layers" onWorld={api.world} onReady={setMap} tall>
      {style && layer && same && style.kind === "ramp" ? <Legend style={style} label={layer.name} /> : null}
    </MapView>
  );
}

function leaveOut(choices: Choices, rows: Set<number>): void {
  const { leave_out: _, ...rest } = choices.records;
  void choose({ records: rows.size ? { ...rest, leave_out: [inWords([...rows])] } : rest });
}

/** Rows from words such as 12, 30-35 or 12,40. */
export function rowsOf(words: string[]): number[] {
  return words
    .flatMap((word) => word.split(","))
    .filter(Boolean)
    .flatMap((word) => {
      const [first = 0, last = first] = word.split("-").map(Number);
      return Array.from({ length: last - first + 1 }, (_, i) => first + i);
    });
}

/** Rows as the command takes them. */
export function inWords(rows: number[]): string {
  const parts: number[][] = [];
  for (const row of rows.sort((a, b) => a - b)) {
    const last = parts.at(-1);
    if (last && row === last.at(-1)! + 1) last.push(row);
    else parts.push([row]);
  }
  return parts.map((part) => (part.length > 2 ? `${part[0]}-${part.at(-1)}` : part.join(","))).join(",");
}
