const TRIES = 60;

/** A part that is fetched when it is first needed. A server that is away for a moment must not take
 * the page with it: the part is asked for again for a minute. */
export function patient<T>(load: () => Promise<T>): () => Promise<T> {
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
