"use client";
import { Suspense, lazy, type ComponentType } from "react";

const TRIES = 60;

/** A part that is fetched when it is first needed. A server that is away for a moment must not take
 * the page with it: the part is asked for again for a minute. */
function patient<T>(load: () => Promise<T>): () => Promise<T> {
  return async () => {
    for (let i = 1; ; i += 1) {
      try {
        return await load();
      } catch (error) {
        if (i === TRIES) throw error;
        await new Promise((go) => setTimeout(go, 1000));
      }
    }
  };
}

/** A component that is fetched when it is first drawn; a grey box of this height stands for it. */
export function later<P extends object>(load: () => Promise<ComponentType<P>>, height?: number): ComponentType<P> {
  const Part = lazy(patient(async () => ({ default: await load() })));
  return function Later(props: P) {
    return (
      <Suspense fallback={height ? <span className="skeleton" style={{ height }} /> : null}>
        <Part {...props} />
      </Suspense>
    );
  };
}
