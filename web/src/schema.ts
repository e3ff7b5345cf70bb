// Checks of what the server says: a value of another kind is refused before anything is drawn.
// What comes out holds the named fields alone, so that no object of a file reaches the page as it is.

export type Check<T> = (value: unknown, place: string) => T;
export type Of<C> = C extends Check<infer T> ? T : never;

export class Unfit extends Error {}

function refuse(place: string, wanted: string): never {
  throw new Unfit(`What the server said does not fit this page: ${place} is not ${wanted}. The folder may be damaged.`);
}

export const text: Check<string> = (value, place) => (typeof value === "string" ? value : refuse(place, "a text"));

export const number: Check<number> = (value, place) =>
  typeof value === "number" && Number.isFinite(value) ? value : refuse(place, "a number");

export const flag: Check<boolean> = (value, place) => (typeof value === "boolean" ? value : refuse(place, "yes or no"));

export const maybe =
  <T>(check: Check<T>): Check<T | null> =>
  (value, place) =>
    value === null ? null : check(value, place);

/** A field that may be missing. */
export const optional =
  <T>(check: Check<T>): Check<T | undefined> =>
  (value, place) =>
    value === undefined || value === null ? undefined : check(value, place);

/** A number that is null where it is not finite, which the page draws as a gap. */
export const value = maybe(number) as Check<number>;

export const list =
  <T>(check: Check<T>): Check<T[]> =>
  (given, place) =>
    Array.isArray(given) ? given.map((one, i) => check(one, `${place}[${i}]`)) : refuse(place, "a list");

function object(given: unknown, place: string): Record<string, unknown> {
  if (typeof given !== "object" || given === null || Array.isArray(given)) refuse(place, "an object");
  return given as Record<string, unknown>;
}

export const table =
  <T>(check: Check<T>): Check<Record<string, T>> =>
  (given, place) => {
    const entries = Object.entries(object(given, place)).filter(([name]) => name !== "__proto__");
    return Object.fromEntries(entries.map(([name, one]) => [name, check(one, `${place}.${name}`)]));
  };

export const fields =
  <S extends Record<string, Check<unknown>>>(shape: S): Check<{ [K in keyof S]: Of<S[K]> }> =>
  (given, place) => {
    const held = object(given, place);
    const own = (name: string): unknown => (Object.hasOwn(held, name) ? held[name] : undefined);
    const made = Object.entries(shape).map(([name, check]) => [name, check(own(name), `${place}.${name}`)]);
    return Object.fromEntries(made) as { [K in keyof S]: Of<S[K]> };
  };

export const either =
  <A, B>(one: Check<A>, other: Check<B>): Check<A | B> =>
  (given, place) => {
    try {
      return one(given, place);
    } catch (error) {
      if (!(error instanceof Unfit)) throw error;
      return other(given, place);
    }
  };

export const oneOf =
  <const T extends readonly string[]>(...words: T): Check<T[number]> =>
  (given, place) =>
    typeof given === "string" && words.includes(given) ? given : refuse(place, `one of ${words.join(", ")}`);
