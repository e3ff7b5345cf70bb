// The study region, and what the records are compared with.

import type { JSX } from "preact";
import type { Choices } from "./api";
import { Chooser } from "./chooser";
import { Entry, Field } from "./parts";
import { choose } from "./store";
import { number, setSetting, shownSpecies, type Surveyed } from "./surveys";

const SHOWN = 5; // regions in words, of many species

export function RegionStep({
  choices,
  surveyed,
  onDraw,
}: {
  choices: Choices;
  surveyed: Surveyed;
  onDraw: (shape: "Polygon" | "Rectangle") => void;
}): JSX.Element {
  const { study } = choices;
  const kind = study.polygons ? "polygons" : study.hull ? "hull" : study.buffer ? "buffer" : "whole";
  const effort = choices.background;
  const cells = choices.settings.background;
  const { answer } = surveyed.records;
  const regions = (answer ? shownSpecies(answer, choices.species) : []).filter((one) => one.region);
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
        {kind !== "whole"
          ? regions.slice(0, SHOWN).map((one) => (
              <p class="chosen" key={one.name}>
                {answer!.species.length > 1 ? `${one.name}: ` : ""}
                {one.region}
              </p>
            ))
          : null}
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
