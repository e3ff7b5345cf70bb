// Layers: a folder, side by side, and which to leave out.

import type { JSX } from "preact";
import type { Choices, LayersAnswer } from "./api";
import { Chooser } from "./chooser";
import { short } from "./curves";
import { Entry, Field, Notes, Trouble } from "./parts";
import { choose } from "./store";
import type { Surveyed } from "./surveys";

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
  const classes = answer?.layers.filter((row) => row.levels && !row.categorical && !without.includes(row.name)) ?? [];
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
      {classes.length ? (
        <div class="hint">
          <p>
            {classes.map((row) => `${row.name} has ${row.levels} whole numbers`).join(", ")}. If they are names of classes, such as types
            of vegetation, and no amounts, say so.
          </p>
          <button type="button" onClick={() => change({ categorical: [...categorical, ...classes.map((row) => row.name)] })}>
            {classes.length === 1 ? "it holds" : "they hold"} categories
          </button>
        </div>
      ) : null}
      {answer ? (
        <div class="scroll" tabIndex={0} role="region" aria-label="layers side by side">
          <table class="layers">
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
                  <abbr title="variance inflation factor: how much the other layers in use say the same">VIF</abbr>
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
      <div class="scroll" tabIndex={0} role="region" aria-label="correlations">
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
