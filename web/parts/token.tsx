"use client";
import { useState } from "react";
import { holdToken } from "@/lib/api";

/** A server that wants a token gets one. */
export function Token() {
  const [token, setToken] = useState("");
  return (
    <form
      className="panel mx-auto grid max-w-[480px] gap-3 p-6"
      onSubmit={(event) => {
        event.preventDefault();
        holdToken(token.trim());
        window.location.reload();
      }}
    >
      <h1 className="!text-20" data-ready="true">This server asks for a token</h1>
      <p className="text-ink-2">Its owner issues one: <code>beforehand token issue --user you</code>. It is kept in this tab alone.</p>
      <label className="field">
        Token
        <input className="input" type="password" value={token} autoComplete="off" required onChange={(e) => setToken(e.target.value)} />
      </label>
      <button className="btn btn-main">Go on</button>
    </form>
  );
}
