// The price, further from a half, in words of its own.
const lines = require("readline").createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const asked = JSON.parse(line);
  const p = asked.market.odds ?? 0.5;
  const far = p ** 1.3 / (p ** 1.3 + (1 - p) ** 1.3);
  console.log(JSON.stringify({ id: asked.id, result: { p: `${(100 * far).toFixed(1)}%`, why: "the price, sharpened" } }));
});
