"use client";
/** What stands in the place of a part that could not be drawn: the rest of the page stays. */
import { Component } from "react";
import Link from "./link";

interface Props {
  what: string;
  children: React.ReactNode;
  onLeave?: () => void;
}

export class Boundary extends Component<Props, { error: Error | null }> {
  state = { error: null as Error | null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  render() {
    const { error } = this.state;
    if (error === null) return this.props.children;
    const again = () => {
      this.props.onLeave?.();
      this.setState({ error: null });
    };
    return (
      <section className="panel frame my-6 grid justify-items-center gap-3 px-6 py-12 text-center" role="alert" data-failed={this.props.what}>
        <h1 className="!text-20" data-ready="true">{this.props.what} could not be drawn</h1>
        <p className="max-w-[64ch] text-ink-2">{error.message}</p>
        <div className="flex flex-wrap justify-center gap-2">
          <button type="button" className="btn btn-main" onClick={again}>{this.props.onLeave ? "Close" : "Try again"}</button>
          <Link className="btn" href="/" onClick={again}>Overview</Link>
          <button type="button" className="btn" onClick={() => void navigator.clipboard?.writeText(JSON.stringify({ at: window.location.href, said: error.message, stack: error.stack }))}>Copy details</button>
        </div>
      </section>
    );
  }
}
