"use client";

/** What stands where even the frame of the pages could not be drawn. */
export default function Broken() {
  return (
    <html lang="en">
      <body>
        <h1>This page failed</h1>
        <p>Load it again. If it fails again, the console of the browser says why.</p>
      </body>
    </html>
  );
}
