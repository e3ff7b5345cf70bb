// Small pieces that several steps use.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { draw, type Curve } from "./curves";

export function Curves({ curve, height }: { curve: Curve; height?: number }): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => draw(place.current!, curve, height), [curve, height]);
  return <div class="curve" ref={place} />;
}

const CAUTION = "caution: "; // how a note begins that nobody should miss

/** What was assumed, in a list; what nobody should miss above it. */
export function Notes({ notes, title = "Notes" }: { notes: string[]; title?: string }): JSX.Element | null {
  const loud = notes.filter((note) => note.startsWith(CAUTION));
  const rest = notes.filter((note) => !note.startsWith(CAUTION));
  return (
    <>
      {loud.map((note) => (
        <Trouble key={note} text={note.slice(CAUTION.length)} />
      ))}
      {rest.length ? (
        <details class="notes" open>
          <summary>
            {title} ({rest.length})
          </summary>
          <ul>
            {rest.map((note) => (
              <li key={note}>{note}</li>
            ))}
          </ul>
        </details>
      ) : null}
    </>
  );
}

export function Trouble({ text, children }: { text: string; children?: ComponentChildren }): JSX.Element | null {
  if (!text) return null;
  return (
    <div class="trouble" role="alert">
      <p>{text}</p>
      {children}
    </div>
  );
}

export function Copy({ text, label }: { text: string; label: string }): JSX.Element {
  const [copied, setCopied] = useState(false);
  const act = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <button type="button" class="small" disabled={!text} onClick={act}>
      <span aria-live="polite">{copied ? "copied" : label}</span>
    </button>
  );
}

export function Field({
  label,
  help,
  children,
}: {
  label: string;
  help?: string;
  children: ComponentChildren;
}): JSX.Element {
  return (
    <label class="field">
      <span class="name">{label}</span>
      {children}
      {help ? <span class="help">{help}</span> : null}
    </label>
  );
}

/** Yes or no, with its words beside it. */
export function Check({
  label,
  help,
  checked,
  onCheck,
}: {
  label: string;
  help?: string;
  checked: boolean;
  onCheck: (on: boolean) => void;
}): JSX.Element {
  return (
    <label class="field">
      <input type="checkbox" checked={checked} onChange={(event) => onCheck(event.currentTarget.checked)} />{" "}
      <span class="whole-name">{label}</span>
      {help ? <span class="help">{help}</span> : null}
    </label>
  );
}

/** One of several values, each with its words. */
export function Choice({
  value,
  of,
  onChoose,
}: {
  value: string;
  of: readonly (readonly [string, string])[];
  onChoose: (value: string) => void;
}): JSX.Element {
  return (
    <select value={value} onChange={(event) => onChoose(event.currentTarget.value)}>
      {of.map(([name, words]) => (
        <option key={name} value={name}>
          {words}
        </option>
      ))}
    </select>
  );
}

type EntryProps = { value: string; onEnter: (text: string) => void } & Pick<
  JSX.HTMLAttributes<HTMLInputElement> & JSX.InputHTMLAttributes<HTMLInputElement>,
  "type" | "min" | "max" | "step" | "placeholder"
>;

/** A field to type in: what is being typed stays, whatever the server says meanwhile. */
export function Entry({ value, onEnter, ...rest }: EntryProps): JSX.Element {
  const [typed, setTyped] = useState<string | null>(null);
  return (
    <input
      {...rest}
      value={typed ?? value}
      onInput={(event) => setTyped(event.currentTarget.value)}
      onChange={(event) => onEnter(event.currentTarget.value.trim())}
      onBlur={() => setTyped(null)}
    />
  );
}

/** A promise's answer. That of an earlier key stays until the next is there, unless it is about another subject. */
export function useAnswer<T>(
  key: string | null,
  ask: () => Promise<T>,
  subject = "",
): { answer: T | null; error: string; busy: boolean; again: () => void } {
  const [held, setHeld] = useState<{ key: string; subject: string; answer: T | null; error: string } | null>(null);
  const [round, setRound] = useState(0);
  useEffect(() => {
    if (key === null) {
      setHeld(null);
      return;
    }
    let current = true;
    ask().then(
      (answer) => current && setHeld({ key, subject, answer, error: "" }),
      (error: Error) => current && setHeld({ key, subject, answer: null, error: error.message }),
    );
    return () => {
      current = false;
    };
  }, [key, round]);
  const fresh = held !== null && held.key === key;
  return {
    answer: held?.subject === subject ? held.answer : null,
    error: fresh ? held.error : "",
    busy: key !== null && !fresh,
    again: () => setRound(round + 1),
  };
}

/** The command and the script of what was done so far, always in sight. */
export function Words({ command, script, lacks }: { command: string; script: string; lacks: string }): JSX.Element {
  return (
    <footer class="words">
      <pre tabIndex={0} role="region" aria-label="the command of this run">
        {command || `# ${lacks}`}
      </pre>
      <Copy text={command} label="copy command" /> <Copy text={script} label="copy Python script" />
    </footer>
  );
}
