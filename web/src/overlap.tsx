// How alike the niches of two results are, and whether chance would make them so.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { api, type Overlap } from "./api";
import { short } from "./curves";
import { Histogram } from "./histogram";
import { Choice, Entry, Field, Notes, Trouble, useAnswer } from "./parts";
import { start, usePage } from "./store";

const TESTS: [string, string][] = [
  ["", "none, the overlap alone"],
  ["identity", "identity: are the two one niche?"],
  ["background", "background: more or less alike than their regions?"],
];
const SPACES = [
  ["geography", "their maps"],
  ["environment", "their niches in the space of the environment"],
] as const;
const COLOURS = ["#0f9f92", "#8b5cf6"];
const NAMES: Record<string, string> = { schoener_d: "Schoener's D", warren_i: "Warren's I" };
const SIDE = 220; // pixels of a drawing of the space

export function Overlaps({ one, other }: { one: string; other: string }): JSX.Element {
  const { job, state } = usePage();
  const { answer, error } = useAnswer(`overlaps ${one} ${other} ${job?.number} ${job?.status}`, () => api.overlaps(one, other));
  const [space, setSpace] = useState("geography");
  const [test, setTest] = useState("");
  const [count, setCount] = useState("100");
  const busy = job?.status === "running";
  const asked = { one, other, space, test: test || null, null: Number(count) };
  return (
    <section class="analysis" aria-label="overlap">
      <h3>How alike are they?</h3>
      {state?.viewing ? null : (
        <div class="row">
          <Field label="Compare">
            <Choice value={space} of={SPACES} onChoose={setSpace} />
          </Field>
          <Field label="Test">
            <Choice value={test} of={TESTS} onChoose={setTest} />
          </Field>
          {test ? (
            <Field label="Null models">
              <Entry type="number" min="19" max="10000" value={count} onEnter={(text) => setCount(text || "100")} />
            </Field>
          ) : null}
          <button type="button" disabled={busy} onClick={() => void start(() => api.overlap(asked))}>
            Compute overlap
          </button>
        </div>
      )}
      <Trouble text={error} />
      {answer?.map((found) => <Found key={found.file} found={found} />)}
    </section>
  );
}

function Found({ found }: { found: Overlap }): JSX.Element {
  const of = found.space === "environment" ? "in the space of the environment" : `of the maps (${found.output || "values as they are"})`;
  return (
    <section class="found" aria-label={`${found.file}: overlap ${of}`}>
      <h4>
        Overlap {of}: D = {told(found.schoener_d)}, I = {told(found.warren_i)}
      </h4>
      {found.maps ? (
        <p class="help">
          D and I above are of models fitted again over the cells that null models are judged on; of the two maps as they are, D ={" "}
          {told(found.maps.schoener_d)}, I = {told(found.maps.warren_i)}.
        </p>
      ) : null}
      {found.environment ? <Space found={found} /> : null}
      {found.tests
        .filter((_, i) => i % 2 === 0)
        .map((test) => (
          <p key={test.direction}>{test.says[0]!.toUpperCase() + test.says.slice(1)}.</p>
        ))}
      {found.tests.length ? (
        <>
          <div class="scroll" tabIndex={0} role="region" aria-label={`${found.file}: test`}>
            <table>
              <caption>{found.tests[0]!.test} test</caption>
              <thead>
                <tr>
                  <th scope="col">statistic</th>
                  {found.tests[0]!.direction ? <th scope="col">null model</th> : null}
                  {["observed", "null mean", "p less similar", "p more similar", "p"].map((name) => (
                    <th scope="col" class="n" key={name}>
                      {name}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {found.tests.map((test) => (
                  <tr key={test.direction + test.statistic}>
                    <th scope="row">{NAMES[test.statistic] ?? test.statistic}</th>
                    {test.direction ? <td class="direction">{test.direction}</td> : null}
                    {[test.observed, test.null_mean, test.p_different, test.p_similar, test.p_value].map((value, i) => (
                      <td class="n" key={i}>
                        {short(value)}
                      </td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          <div class="grid">
            {found.tests.map((test) => (
              <Histogram
                key={test.direction + test.statistic}
                title={`${NAMES[test.statistic] ?? test.statistic}${test.direction ? `, ${test.direction}` : ""}`}
                values={test.null}
                observed={test.observed}
                says={`p ${short(test.p_value)}`}
                limits={[0, 1]}
              />
            ))}
          </div>
        </>
      ) : null}
      <Notes notes={found.notes} />
      <p>
        <a href={`/results/${found.file}`} target="_blank" rel="noopener">
          the table
        </a>
      </p>
    </section>
  );
}

const told = (value: number | null): string => (value == null ? "not known" : value.toFixed(3));

// -- the space of the environment ------------------------------------------------------------------------

function Space({ found }: { found: Overlap }): JSX.Element {
  const space = found.environment!;
  const axis = (k: number): string => {
    const weights = space.variables.map((name, i) => ({ name, weight: space.loadings[i]?.[k] ?? 0 }));
    const main = weights.sort((a, b) => Math.abs(b.weight) - Math.abs(a.weight)).slice(0, 3);
    const words = main.map(({ name, weight }) => `${weight < 0 ? "−" : "+"}${name}`).join(" ");
    return `component ${k + 1} (${Math.round(100 * (space.explained[k] ?? 0))} %): ${words}`;
  };
  return (
    <>
      <div class="spaces">
        {space.niches.map((niche, i) => (
          <NichePicture key={i} niche={niche} space={space} colour={COLOURS[i % 2]!} name={found.species?.[i] ?? ""} />
        ))}
      </div>
      <p class="help">
        Across: {axis(0)}. Up: {axis(1)}. Grey is the environment there is, stronger in its commonest half; colour is how much of it the
        species occupies; dots are records.
      </p>
    </>
  );
}

type Space = NonNullable<Overlap["environment"]>;

function NichePicture({ niche, space, colour, name }: { niche: Space["niches"][number]; space: Space; colour: string; name: string }): JSX.Element {
  const place = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const drawing = place.current!.getContext("2d")!;
    const size = niche.occupancy.length;
    const cells = document.createElement("canvas"); // one pixel each, so that none overlap
    cells.width = cells.height = size;
    const pixels = cells.getContext("2d")!;
    for (let i = 0; i < size; i++) {
      for (let j = 0; j < size; j++) {
        const there = niche.available[i]![j]!;
        if (there <= 0) continue;
        const at = [i, size - 1 - j, 1, 1] as const;
        pixels.globalAlpha = there >= niche.half_of_available ? 0.5 : 0.2;
        pixels.fillStyle = "#808a86";
        pixels.fillRect(...at);
        pixels.globalAlpha = niche.occupancy[i]![j]!;
        pixels.fillStyle = colour;
        pixels.fillRect(...at);
      }
    }
    drawing.clearRect(0, 0, SIDE, SIDE);
    drawing.drawImage(cells, 0, 0, SIDE, SIDE);
    drawing.globalAlpha = 0.9;
    const across = (value: number, k: 0 | 1): number => (SIDE * (value - space.low[k]!)) / (space.high[k]! - space.low[k]! || 1);
    for (const [x = 0, y = 0] of niche.records) {
      drawing.beginPath();
      drawing.arc(across(x, 0), SIDE - across(y, 1), 1.8, 0, 2 * Math.PI);
      drawing.fillStyle = "#fff";
      drawing.strokeStyle = "#111";
      drawing.lineWidth = 0.8;
      drawing.fill();
      drawing.stroke();
    }
  }, [niche]);
  return (
    <figure>
      <figcaption>
        <strong>{name}</strong> <span class="soft">{niche.records.length} records</span>
      </figcaption>
      <canvas ref={place} width={SIDE} height={SIDE} role="img" aria-label={`niche of ${name} in the space of the environment`} />
    </figure>
  );
}
