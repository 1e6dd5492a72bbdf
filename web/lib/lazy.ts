/** A part that is fetched when it is first needed. A server that is away for a moment must not take
 * the page with it: the part is asked for again until it comes. */
export function patient<T>(load: () => Promise<T>): () => Promise<T> {
  return async () => {
    for (;;) {
      try {
        return await load();
      } catch {
        await new Promise((go) => setTimeout(go, 1000));
      }
    }
  };
}
