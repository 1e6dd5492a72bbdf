import type { NextConfig } from "next";

/** A static export: `beforehand serve` gives it out, and node is needed only to build it. */
const config: NextConfig = {
  output: "export",
  trailingSlash: true,
  reactStrictMode: true,
  poweredByHeader: false,
  images: { unoptimized: true },
  // Exports of CommonJS modules that nobody uses are left out.
  experimental: { turbopackCjsTreeShaking: true },
  // Two builds of the same sources are the same bytes.
  generateBuildId: () => "ui",
  // `npm run dev` takes the API from a running `beforehand serve`.
  ...(process.env.NODE_ENV === "development" && {
    output: undefined,
    rewrites: async () => [
      { source: "/api/:path*", destination: "http://127.0.0.1:8765/api/:path*" },
    ],
  }),
};

export default config;
