// Where maps are drawn, and whether they show places where the model has to guess.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Chooser } from "./chooser";
import { Choice, Field } from "./parts";

const EXTENTS = [
  ["layers", "on all of the layers"],
  ["region", "in the study region alone"],
  ["file", "inside the polygons of a file"],
] as const;
const MASKS = [
  ["", "kept on maps (that of MESS marks them)"],
  ["mess", "left out where a variable is beyond its range"],
  ["exdet", "left out, also where a combination of variables is new"],
] as const;

export interface Drawn {
  extent: string;
  mask: string | null;
}

export function MapExtent({
  extent,
  mask,
  region = true,
  onChange,
  children,
}: Drawn & {
  region?: boolean; // whether there is or may be one
  onChange: (changes: Partial<Drawn>) => void;
  children?: JSX.Element | null; // about the file
}): JSX.Element {
  const [wanted, setWanted] = useState(false); // a file, which is not chosen yet
  const named = extent !== "layers" && extent !== "region";
  const kind = wanted || named ? "file" : extent;
  return (
    <>
      <Field label="Where maps are drawn" help="Far from the study region a map is a guess.">
        <Choice
          value={kind}
          of={EXTENTS.filter(([name]) => region || name !== "region")}
          onChoose={(next) => {
            setWanted(next === "file");
            if (next !== "file") onChange({ extent: next });
          }}
        />
      </Field>
      {kind === "file" ? (
        <>
          <Chooser
            kind="records"
            label={named ? "Choose other polygons" : "Choose the polygons"}
            onChoose={(path) => {
              setWanted(false);
              onChange({ extent: path });
            }}
          />
          {named ? (
            <p class="chosen">
              Maps inside: <code>{extent}</code>
            </p>
          ) : (
            <p class="hint">Until a file is chosen, maps are drawn {extent === "region" ? "in the study region" : "on all of the layers"}.</p>
          )}
          {children}
        </>
      ) : null}
      <Field label="Places unlike all that the fit has seen" help="There the model has to guess.">
        <Choice value={mask ?? ""} of={MASKS} onChoose={(next) => onChange({ mask: next || null })} />
      </Field>
    </>
  );
}
