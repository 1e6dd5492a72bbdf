import type { Metadata, Viewport } from "next";
import { Shell } from "@/parts/shell";
import "./globals.css";

export const metadata: Metadata = {
  title: { default: "beforehand", template: "%s · beforehand" },
  description: "How good is this forecaster, really? Backtests over prediction markets in which nothing from after t is shown, with a verdict that can be defended.",
};

export const viewport: Viewport = {
  width: "device-width",
  initialScale: 1,
  themeColor: [
    { media: "(prefers-color-scheme: light)", color: "#fbfbf9" },
    { media: "(prefers-color-scheme: dark)", color: "#111315" },
  ],
};

export default function Layout({ children }: { children: React.ReactNode }) {
  return (
    <html lang="en">
      <body>
        <Shell>{children}</Shell>
      </body>
    </html>
  );
}
